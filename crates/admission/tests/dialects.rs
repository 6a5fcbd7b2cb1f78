//! Every dialect on both roads: what the pod is afterwards, and what the scheduler is asked for.

mod pods;

use carve_admission::{ContainerKind, Fleet, Outcome, PodClaims, Policy, Road, WholeGpus, admit, keys};
use pods::{admitted, by_claims, fleet, on, part, patched, plain_fleet, pod};
use serde_json::{Value, json};

/// Annotations and limits, the devices of the one template, and the words for people.
type Case = (Value, Value, Value, &'static str);

fn fraction(memory: &str, compute: &str) -> Value {
    json!({"requests": [{"name": "gpu", "exactly": {
        "deviceClassName": "fraction.carve.dev", "capacity": {"requests": {"memory": memory, "compute": compute}}
    }}]})
}

fn several(count: u32, memory: &str, compute: &str) -> Value {
    json!({
        "requests": [{"name": "gpu", "exactly": {
            "deviceClassName": "fraction.carve.dev", "count": count,
            "capacity": {"requests": {"memory": memory, "compute": compute}}
        }}],
        "constraints": [{"requests": ["gpu"], "distinctAttribute": "gpu.carve.dev/uuid"}]
    })
}

fn whole(count: u32) -> Value {
    let mut exactly = json!({"deviceClassName": "gpu.carve.dev"});
    if count > 1 {
        exactly["count"] = json!(count);
    }
    json!({"requests": [{"name": "gpu", "exactly": exactly}]})
}

fn cases() -> Vec<Case> {
    let no = || json!({});
    let turn =
        || json!({"requests": [{"name": "gpu", "exactly": {"deviceClassName": "timeslicing.carve.dev"}}]});
    let words_of_half = "container c: a part of a GPU with 50% of the memory and 50% of the compute (KAI)";
    vec![
        (
            no(),
            json!({"nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}),
            fraction("3000Mi", "30"),
            "container c: a part of a GPU with 3000 MiB and 30% of the compute (HAMi)",
        ),
        (
            no(),
            json!({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "4096"}),
            several(2, "4Gi", "0"),
            "container c: parts of 2 different GPUs, each with 4096 MiB and compute that is not limited (HAMi)",
        ),
        (
            no(),
            json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "100", "nvidia.com/gpucores": "100"}),
            whole(1),
            "container c: a whole GPU (HAMi)",
        ),
        (
            no(),
            json!({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "8192", "volcano.sh/vgpu-cores": "50"}),
            fraction("8Gi", "50"),
            "container c: a part of a GPU with 8192 MiB and 50% of the compute (Volcano)",
        ),
        (json!({"gpu-fraction": "0.5"}), no(), fraction("7680Mi", "50"), words_of_half),
        (
            json!({"gpu-memory": "2000"}),
            no(),
            fraction("2000Mi", "0"),
            "container c: a part of a GPU with 2000 MiB and compute that is not limited (KAI)",
        ),
        (
            no(),
            json!({"koordinator.sh/gpu": "50"}),
            fraction("7680Mi", "50"),
            "container c: a part of a GPU with 50% of the memory and 50% of the compute (Koordinator)",
        ),
        (
            no(),
            json!({"koordinator.sh/gpu-core": "200"}),
            whole(2),
            "container c: 2 whole GPUs (Koordinator)",
        ),
        (
            no(),
            json!({"aliyun.com/gpu-mem": "3"}),
            fraction("3Gi", "0"),
            "container c: a part of a GPU with 3072 MiB and compute that is not limited (gpushare)",
        ),
        (
            no(),
            json!({"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "30"}),
            fraction("7680Mi", "50"),
            "container c: a part of a GPU with 7680 MiB and 50% of the compute (gpu-manager)",
        ),
        (
            no(),
            json!({"nvidia.com/vgpu-number": "1", "nvidia.com/vgpu-cores": "10", "nvidia.com/vgpu-memory": "1024"}),
            fraction("1Gi", "10"),
            "container c: a part of a GPU with 1024 MiB and 10% of the compute (vgpu-manager)",
        ),
        (
            no(),
            json!({"elasticgpu.io/gpu-core": "20", "elasticgpu.io/gpu-memory": "512"}),
            fraction("512Mi", "20"),
            "container c: a part of a GPU with 512 MiB and 20% of the compute (elastic-gpu)",
        ),
        (no(), json!({"nvshare.com/gpu": "1"}), turn(), "container c: a turn on a GPU (nvshare)"),
        (
            json!({"tensor-fusion.ai/vram-limit": "1Gi", "tensor-fusion.ai/compute-percent-limit": "12"}),
            no(),
            fraction("1Gi", "12"),
            "container c: a part of a GPU with 1024 MiB and 12% of the compute (TensorFusion)",
        ),
        (
            no(),
            json!({"carve.dev/gpu": "2", "carve.dev/gpu-memory": "4096", "carve.dev/gpu-compute": "25"}),
            several(2, "4Gi", "25"),
            "container c: parts of 2 different GPUs, each with 4096 MiB and 25% of the compute (carve)",
        ),
        (
            json!({"mps": "true"}),
            json!({"carve.dev/gpu-memory": "1024", "carve.dev/gpu-compute": "25"}),
            json!({"requests": [{"name": "gpu", "exactly": {
                "deviceClassName": "mps.carve.dev", "capacity": {"requests": {"memory": "1Gi", "compute": "25"}}
            }}]}),
            "container c: a part of a GPU with 1024 MiB and 25% of the compute, by MPS (carve)",
        ),
        (
            no(),
            json!({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30"}),
            json!({"requests": [{"name": "gpu", "exactly": {
                "deviceClassName": "fraction.carve.dev", "capacity": {"requests": {"compute": "30"}}
            }}]}),
            "container c: a part of a GPU with all memory and 30% of the compute (HAMi)",
        ),
    ]
}

#[test]
fn every_dialect_on_the_claims_road() {
    for (annotations, limits, devices, words) in cases() {
        let asked = pod(annotations.clone(), limits.clone());
        let outcome = admit(&asked, "team", &Policy::default(), Road::Claims, &plain_fleet());
        let admission = admitted(outcome);
        let [template] = admission.templates.as_slice() else { panic!("{:?}", admission.templates) };
        assert_eq!(template.object["spec"]["spec"]["devices"], devices, "{annotations} {limits}");
        assert_eq!(template.object["metadata"]["namespace"], "team");
        assert!(keys::is_template_name(&template.name), "{}", template.name);
        let after = patched(&asked, &admission);
        let container = &after["spec"]["containers"][0];
        assert_eq!(
            container["resources"],
            json!({"limits": {}, "requests": {}, "claims": [{"name": "carve-gpu-0"}]}),
            "{limits}"
        );
        let entry = json!([{"name": "carve-gpu-0", "resourceClaimTemplateName": template.name}]);
        assert_eq!(after["spec"]["resourceClaims"], entry);
        assert_eq!(after["metadata"]["labels"][keys::ADMITTED], "claims");
        assert_eq!(after["metadata"]["annotations"][keys::UNDERSTOOD_AS], words);
        assert_eq!(after["spec"].get("schedulerName"), None, "the stock scheduler is the default");
    }
}

#[test]
fn every_dialect_on_the_scheduler_road() {
    let mut refused = 0;
    for (annotations, limits, _, words) in cases() {
        let asked = pod(annotations, limits.clone());
        let outcome = on(&asked, Road::Scheduler);
        if let Outcome::Refused(refusals) = &outcome {
            // What only claims can serve: MIG by its size, MPS, turns.
            assert!(refusals.iter().all(|one| one.reason.contains("(DRA)")), "{refusals:?}");
            refused += 1;
            continue;
        }
        let admission = admitted(outcome);
        assert!(admission.templates.is_empty());
        let after = patched(&asked, &admission);
        let claims = admission.claims.clone();
        let tokens = claims.containers()[0].devices().to_string();
        let mut left = limits.clone();
        left.as_object_mut().expect("a map").remove("nvidia.com/gpu");
        left[keys::SLICE] = json!(tokens);
        let mut resources = after["spec"]["containers"][0]["resources"].clone();
        for list in ["limits", "requests"] {
            // What they come to is tried below.
            let map = resources[list].as_object_mut().expect("a map");
            map.retain(|name, _| name != keys::MEMORY && name != keys::COMPUTE);
        }
        assert_eq!(resources, json!({"limits": left, "requests": left}), "{limits}");
        assert_eq!(after["spec"]["schedulerName"], "carve-scheduler");
        assert_eq!(after["metadata"]["labels"][keys::ADMITTED], "scheduler");
        assert_eq!(after["metadata"]["annotations"][keys::UNDERSTOOD_AS], words);
        let text = after["metadata"]["annotations"][keys::CLAIM].as_str().expect("a claim");
        assert_eq!(PodClaims::from_annotation(text), Ok(claims));
        assert!(after["spec"].get("resourceClaims").is_none());
    }
    assert_eq!(refused, 2, "turns of nvshare, and MPS of KAI");
}

#[test]
fn the_annotation_is_compact_and_versioned() {
    let asked = pod(
        json!({"nvidia.com/use-gputype": "V100,A100"}),
        json!({"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "50"}),
    );
    let claims = admitted(on(&asked, Road::Scheduler)).claims;
    assert_eq!(
        claims.to_annotation(),
        r#"{"v":1,"containers":[{"name":"c","kind":"main","parts":[{"count":2,"share":{"part":{"memoryShare":500}},"models":["A100","V100"],"dialect":"hami"}]}]}"#
    );
    for (text, part) in [
        ("{}", "no version"),
        (r#"{"v":2,"anything":[]}"#, "version 2"),
        (r#"{"v":1,"containers":[],"more":1}"#, "unknown field"),
        (r#"{"v":1,"containers":[{"name":"c","kind":"late","parts":[]}]}"#, "'late' is not known"),
        (
            r#"{"v":1,"containers":[{"name":"c","kind":"main","parts":[{"count":0,"share":"whole","dialect":"hami"}]}]}"#,
            "no times",
        ),
        (
            r#"{"v":1,"containers":[{"name":"c","kind":"main","parts":[{"count":1,"share":{"part":{"compute":101}},"dialect":"hami"}]}]}"#,
            "1 to 100",
        ),
    ] {
        let said = PodClaims::from_annotation(text).expect_err("no claim").to_string();
        assert!(said.contains(part), "'{part}' in '{said}'");
    }
}

#[test]
fn a_share_of_memory_is_an_alternative_for_each_size_of_gpu() {
    let (_, devices) = by_claims(&pod(json!({"gpu-fraction": "0.5"}), json!({})));
    let alternative = |number: u32, product: &str, memory: &str| {
        json!({
            "name": format!("alternative-{number}"), "deviceClassName": "fraction.carve.dev",
            "selectors": [{"cel": {"expression": format!("device.attributes['gpu.carve.dev'].productName in ['{product}']")}}],
            "capacity": {"requests": {"memory": memory, "compute": "50"}}
        })
    };
    let a100 = fleet().products[0].clone();
    let half = a100.memory.0 / 2 / 256 * 256;
    let memory = if half.is_multiple_of(1024) { format!("{}Gi", half / 1024) } else { format!("{half}Mi") };
    assert_eq!(
        devices,
        [json!({"requests": [{"name": "gpu", "firstAvailable": [
            alternative(1, "Tesla T4", "7680Mi"), alternative(2, &a100.name, &memory)
        ]}]})]
    );
    // A model that is named leaves one size.
    let (_, devices) =
        by_claims(&pod(json!({"gpu-fraction": "0.5", "nvidia.com/use-gputype": "t4"}), json!({})));
    assert_eq!(devices[0]["requests"][0]["exactly"]["capacity"]["requests"]["memory"], "7680Mi");
    assert_eq!(
        devices[0]["requests"][0]["exactly"]["selectors"][0]["cel"]["expression"],
        "device.attributes['gpu.carve.dev'].productName.lowerAscii().replace(' ', '-').contains('t4')"
    );
}

#[test]
fn mig_is_named_by_the_smallest_profile_that_holds_the_part() {
    let limits = json!({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "8000"});
    let (_, devices) = by_claims(&pod(json!({"nvidia.com/vgpu-mode": "mig"}), limits));
    let exactly = &devices[0]["requests"][0]["exactly"];
    assert_eq!(
        (exactly["deviceClassName"].as_str(), exactly["count"].as_u64()),
        (Some("mig.carve.dev"), Some(2))
    );
    let selected = exactly["selectors"].to_string();
    assert!(selected.contains(".profile == '1g.10gb'") && selected.contains("A100"), "{selected}");
    assert_eq!(devices[0]["constraints"][0]["distinctAttribute"], "gpu.carve.dev/uuid");
    let half = pod(json!({"carve.dev/mechanism": "mig", "gpu-fraction": "0.5"}), json!({}));
    let (_, devices) = by_claims(&pod(
        json!({"carve.dev/mechanism": "mig"}),
        json!({"koordinator.sh/gpu-memory-ratio": "50"}),
    ));
    assert!(devices[0].to_string().contains("'3g.40gb'"), "half of the slots: {}", devices[0]);
    // With half of the compute as well, three of seven slices are too few.
    let (_, devices) = by_claims(&half);
    assert!(devices[0].to_string().contains("'4g.40gb'"), "{}", devices[0]);
}

#[test]
fn isolation_is_served_by_mig_and_what_comes_next() {
    let limits = json!({"carve.dev/gpu-memory": "4096", "carve.dev/gpu-compute": "10"});
    for (isolation, last) in [("tenant", "gpu.carve.dev"), ("fault", "fraction.carve.dev")] {
        let (_, devices) = by_claims(&pod(json!({"carve.dev/isolation": isolation}), limits.clone()));
        let alternatives = devices[0]["requests"][0]["firstAvailable"].as_array().expect("alternatives");
        let classes: Vec<&str> =
            alternatives.iter().filter_map(|one| one["deviceClassName"].as_str()).collect();
        assert_eq!(classes, ["mig.carve.dev", last], "{isolation}");
    }
}

#[test]
fn burst_is_a_config_of_fractions() {
    let limits = json!({"carve.dev/gpu-memory": "4096", "carve.dev/gpu-compute": "25"});
    let (after, devices) = by_claims(&pod(json!({"carve.dev/burst": "true"}), limits));
    assert_eq!(
        devices[0]["config"],
        json!([{"requests": ["gpu"], "opaque": {"driver": "gpu.carve.dev", "parameters": {
            "apiVersion": "carve.dev/v1alpha1", "kind": "FractionConfig", "compute": "Burst"
        }}}])
    );
    let words = after["metadata"]["annotations"][keys::UNDERSTOOD_AS].as_str().expect("words");
    assert!(words.contains("at least 25% of the compute"), "{words}");
}

#[test]
fn gpus_are_named_by_model_and_id() {
    let annotations =
        json!({"nvidia.com/nouse-gputype": "1080,2080", "nvidia.com/use-gpuuuid": "GPU-1,GPU-2"});
    let (_, devices) = by_claims(&pod(annotations, json!({"nvidia.com/gpu": "1"})));
    let selectors = devices[0]["requests"][0]["exactly"]["selectors"].to_string();
    assert!(selectors.contains("!(device") && selectors.contains("contains('1080')"), "{selectors}");
    assert!(selectors.contains(".uuid in ['GPU-1', 'GPU-2']"), "{selectors}");
    assert_eq!(devices[0]["requests"][0]["exactly"]["deviceClassName"], "gpu.carve.dev");
}

#[test]
fn classes_are_called_after_the_driver() {
    let fleet = Fleet { driver: "gpu.nvidia.com".to_owned(), ..plain_fleet() };
    let admission = admitted(admit(&part(), "team", &Policy::default(), Road::Claims, &fleet));
    let exactly = &admission.templates[0].object["spec"]["spec"]["devices"]["requests"][0]["exactly"];
    assert_eq!(exactly["deviceClassName"], "fraction.nvidia.com");
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let claims = json!([{"name": "mine", "resourceClaimTemplateName": "my-template"}]);
    let mut own_claim = pod(json!({}), json!({"cpu": "1"}));
    own_claim["spec"]["resourceClaims"] = claims;
    for asked in [
        pod(json!({}), json!({"cpu": "1"})),
        pod(json!({}), json!({"nvidia.com/gpu": "2"})),
        pod(json!({}), json!({"nvidia.com/gpu.shared": "1"})),
        pod(json!({}), json!({"nvidia.com/mig-1g.5gb": "1"})),
        pod(json!({}), json!({"amd.com/gpu": "1"})),
        pod(json!({"mps": "false"}), json!({})),
        own_claim,
        json!({"kind": "Pod"}),
        json!({"kind": "Pod", "spec": {"containers": ["x"]}}),
        json!(null),
    ] {
        for road in [Road::Claims, Road::Scheduler] {
            assert_eq!(on(&asked, road), Outcome::NotOurs, "{asked}");
        }
    }
}

#[test]
fn whole_gpus_are_converted_where_the_policy_says_so() {
    let policy = Policy { whole_gpus: WholeGpus::Convert, ..Policy::default() };
    for (limits, class) in [
        (json!({"nvidia.com/gpu": "2"}), "gpu.carve.dev"),
        (json!({"nvidia.com/mig-1g.10gb": "2"}), "mig.carve.dev"),
        (json!({"nvidia.com/gpu.shared": "1"}), "timeslicing.carve.dev"),
    ] {
        let asked = pod(json!({}), limits.clone());
        let admission = admitted(admit(&asked, "team", &policy, Road::Claims, &fleet()));
        let devices = &admission.templates[0].object["spec"]["spec"]["devices"];
        assert_eq!(devices["requests"][0]["exactly"]["deviceClassName"], class, "{limits}");
        assert!(devices.get("constraints").is_none(), "MIG devices may be of one GPU");
        let outcome = admit(&asked, "team", &policy, Road::Scheduler, &fleet());
        if class != "gpu.carve.dev" {
            assert!(matches!(outcome, Outcome::NotOurs), "{limits} stays the device plugin's without claims");
            continue;
        }
        let after = patched(&asked, &admitted(outcome));
        let tokens = limits.as_object().expect("a map").values().next().expect("a number").clone();
        let left = &after["spec"]["containers"][0]["resources"]["limits"];
        assert_eq!(left[keys::SLICE], tokens);
        let names: Vec<&String> = left.as_object().expect("a map").keys().collect();
        assert!(names.iter().all(|name| keys::RESOURCES.contains(&name.as_str())), "{names:?}");
    }
}

#[test]
fn a_pod_with_a_part_has_all_of_its_gpus_from_us() {
    let mut asked = part();
    let beside = json!({"name": "d", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "1"}}});
    asked["spec"]["containers"].as_array_mut().expect("a list").push(beside);
    let (after, devices) = by_claims(&asked);
    assert_eq!(devices.len(), 2);
    let limits = &after["spec"]["containers"][1]["resources"]["limits"];
    assert_eq!(*limits, json!({"cpu": "1"}), "what is not a GPU stays");
}

#[test]
fn an_init_container_uses_the_claim_of_one_that_comes_later() {
    let limits = json!({"carve.dev/gpu-memory": "4096", "carve.dev/gpu-compute": "25"});
    let other = json!({"carve.dev/gpu-memory": "1024", "carve.dev/gpu-compute": "5"});
    let container = |name: &str, limits: &Value| json!({"name": name, "resources": {"limits": limits}});
    let mut sidecar = container("side", &limits);
    sidecar["restartPolicy"] = json!("Always");
    let asked = json!({"metadata": {}, "spec": {
        "resourceClaims": [{"name": "carve-gpu-0", "resourceClaimName": "mine"}],
        "initContainers": [container("first", &limits), sidecar, container("second", &other)],
        "containers": [container("a", &limits), container("b", &limits)]
    }});
    let admission = admitted(on(&asked, Road::Claims));
    assert_eq!(admission.templates.len(), 2, "two different requests");
    assert_eq!(admission.claims.devices(), 3, "a, b and the sidecar are there at once");
    assert_eq!(admission.claims.container("first").map(|one| one.kind), Some(ContainerKind::Init));
    let after = patched(&asked, &admission);
    let claims = |list: &str, index: usize| after["spec"][list][index]["resources"]["claims"].clone();
    let names: Vec<&str> = after["spec"]["resourceClaims"]
        .as_array()
        .expect("claims")
        .iter()
        .filter_map(|entry| entry["name"].as_str())
        .collect();
    assert_eq!(names, ["carve-gpu-0", "carve-gpu-1", "carve-gpu-2", "carve-gpu-3", "carve-gpu-4"]);
    assert_eq!(claims("containers", 0), json!([{"name": "carve-gpu-2"}]));
    assert_eq!(claims("containers", 1), json!([{"name": "carve-gpu-3"}]));
    assert_eq!(claims("initContainers", 1), json!([{"name": "carve-gpu-1"}]), "beside the others");
    assert_eq!(claims("initContainers", 2), json!([{"name": "carve-gpu-4"}]));
    assert_eq!(claims("initContainers", 0), json!([{"name": "carve-gpu-2"}]));
    let order: Vec<&str> = admission.claims.containers().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(order, ["first", "side", "second", "a", "b"], "as they start");
    // A sidecar that asks for the same is there at the same time.
    let mut lonely = asked.clone();
    lonely["spec"]["containers"] = json!([{"name": "a"}]);
    let after = patched(&lonely, &admitted(on(&lonely, Road::Claims)));
    let used = |index: usize| after["spec"]["initContainers"][index]["resources"]["claims"].clone();
    assert_ne!(used(0), used(1));
}

#[test]
fn none_of_something_stays_none() {
    let limits = json!({"nvidia.com/gpu": "0", "nvidia.com/gpumem": "4096", "nvidia.com/vgpu-number": "1"});
    let asked = pod(json!({}), limits);
    for road in [Road::Claims, Road::Scheduler] {
        let first = admitted(on(&asked, road));
        assert_eq!(first.claims.devices(), 1, "HAMi's words ask for memory of no GPU");
        let again = admitted(on(&patched(&asked, &first), road));
        assert!(again.patch.is_empty() && again.claims == first.claims, "{:?}", again.patch);
    }
}

#[test]
fn the_stock_scheduler_is_told_what_a_container_takes_at_least() {
    for (annotations, limits, memory, compute) in [
        (
            json!({}),
            json!({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}),
            "6000",
            "60",
        ),
        // Half of the smaller GPU's memory; on the larger one it will be more.
        (json!({"gpu-fraction": "0.5"}), json!({}), "7680", "50"),
        (json!({"gpu-fraction": "0.5", "nvidia.com/use-gputype": "A100"}), json!({}), "40960", "50"),
        (json!({}), json!({"koordinator.sh/gpu": "200"}), "30720", "200"),
        // In proportion to the largest GPU's memory where no compute is named.
        (json!({"gpu-memory": "8192"}), json!({}), "8192", "10"),
    ] {
        let asked = pod(annotations, limits.clone());
        let after = patched(&asked, &admitted(on(&asked, Road::Scheduler)));
        for list in ["limits", "requests"] {
            let map = &after["spec"]["containers"][0]["resources"][list];
            assert_eq!(
                (&map[keys::MEMORY], &map[keys::COMPUTE]),
                (&json!(memory), &json!(compute)),
                "{limits}"
            );
        }
    }
    // Of a share of unknown GPUs only the compute is known.
    let half = pod(json!({"gpu-fraction": "0.5"}), json!({}));
    let outcome = admit(&half, "team", &Policy::default(), Road::Scheduler, &Fleet::default());
    let after = patched(&half, &admitted(outcome));
    let limits = &after["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!((limits.get(keys::MEMORY), &limits[keys::COMPUTE]), (None, &json!("50")));
}
