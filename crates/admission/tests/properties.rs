//! What holds for any pod: admitted twice it is changed once, nothing stays that a node would count, names say what is asked, and no
//! limit is exceeded.

mod pods;

use carve_admission::{
    Conduct, ContainerClaim, ContainerKind, Fleet, Outcome, Part, PodClaims, Policy, Road, Share, WholeGpus,
    admit, keys,
};
use carve_formats::workloads::{
    Dialect, Isolation, Mechanism, MemoryAsk, Names, Thousandths, dialect_of_resource,
};
use carve_gpu_model::{GpuUuid, Mebibytes};
use pods::{fleet, patched, plain_fleet};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::{collection, option, sample};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const RESOURCES: &[&str] = &[
    "cpu",
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "nvidia.com/priority",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/mig-3g.40gb.shared",
    "nvidia.com/vgpu-number",
    "nvidia.com/vgpu-memory",
    "nvidia.com/vgpu-cores",
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "koordinator.sh/gpu",
    "koordinator.sh/gpu-core",
    "koordinator.sh/gpu-memory-ratio",
    "koordinator.sh/gpu.shared",
    "aliyun.com/gpu-mem",
    "tencent.com/vcuda-core",
    "tencent.com/vcuda-memory",
    "elasticgpu.io/gpu-core",
    "nvshare.com/gpu",
    "carve.dev/gpu",
    "carve.dev/gpu-memory",
    "carve.dev/gpu-compute",
    "carve.dev/slice",
    "carve.dev/memory",
    "carve.dev/compute",
    "amd.com/gpu",
];

fn limits() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        Just("1"),
        Just("2"),
        Just("30"),
        Just("50"),
        Just("100"),
        Just("200"),
        Just("4096"),
        Just("0")
    ];
    collection::btree_map(sample::select(RESOURCES), value, 0..4).prop_map(|map| {
        map.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>().into()
    })
}

fn annotations() -> impl Strategy<Value = Value> {
    let entry = prop_oneof![
        Just(("gpu-fraction", "0.5")),
        Just(("gpu-memory", "2000")),
        Just(("gpu-fraction-num-devices", "2")),
        Just(("gpu-fraction-container-name", "b")),
        Just(("mps", "true")),
        Just(("nvidia.com/use-gputype", "A100")),
        Just(("nvidia.com/nouse-gputype", "T4,V100")),
        Just(("nvidia.com/use-gpuuuid", "GPU-1")),
        Just(("nvidia.com/vgpu-mode", "mig")),
        Just(("tensor-fusion.ai/vram-limit", "1Gi")),
        Just(("carve.dev/isolation", "fault")),
        Just(("carve.dev/burst", "true")),
        Just(("carve.dev/claim", "{}")),
        Just(("carve.dev/slices", "{}")),
        Just(("carve.dev/understood-as", "x")),
        Just(("example.com/note", "x")),
    ];
    collection::vec(entry, 0..4).prop_map(|entries| {
        entries.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>().into()
    })
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    (limits(), any::<bool>(), option::of(Just(json!({"privileged": true}))), any::<bool>()).prop_map(
        move |(limits, requests, context, device)| {
            let mut made = json!({"name": name, "image": "i", "resources": {"limits": limits}});
            if requests {
                made["resources"]["requests"] = limits;
            }
            if let Some(context) = context {
                made["securityContext"] = context;
            }
            if device {
                made["env"] =
                    json!([{"name": "A", "value": "1"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
            }
            made
        },
    )
}

fn any_pod() -> impl Strategy<Value = Value> {
    let claims = prop_oneof![
        Just(json!(null)),
        Just(json!([{"name": "carve-gpu-0", "resourceClaimName": "mine"}])),
        Just(json!([{"name": "x", "resourceClaimTemplateName": "carve-0123456789ab"}])),
    ];
    let scheduler =
        prop_oneof![Just(""), Just("default-scheduler"), Just("kai-scheduler"), Just("carve-scheduler")];
    let init = option::of((container("i"), any::<bool>()));
    let node = option::weighted(0.2, Just("n"));
    (annotations(), container("a"), option::of(container("b")), init, claims, scheduler, node).prop_map(
        |(annotations, first, second, init, claims, scheduler, node)| {
            let containers: Vec<Value> = std::iter::once(first).chain(second).collect();
            let mut pod = json!({"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": containers}});
            if let Some((mut init, stays)) = init {
                if stays {
                    init["restartPolicy"] = json!("Always");
                }
                pod["spec"]["initContainers"] = json!([init]);
            }
            if !claims.is_null() {
                pod["spec"]["resourceClaims"] = claims;
            }
            if !scheduler.is_empty() {
                pod["spec"]["schedulerName"] = json!(scheduler);
            }
            if let Some(node) = node {
                pod["spec"]["nodeName"] = json!(node);
            }
            pod
        },
    )
}

/// Lets as many pods in as can be, so that what happens to them is seen.
fn lenient() -> impl Strategy<Value = Policy> {
    let conduct = prop_oneof![Just(Conduct::Neutralise), Just(Conduct::Allow)];
    (conduct.clone(), conduct.clone(), conduct, any::<bool>()).prop_map(
        |(privileged, node_name, device_env, convert)| Policy {
            privileged,
            node_name,
            device_env,
            whole_gpus: if convert { WholeGpus::Convert } else { WholeGpus::Leave },
            ..Policy::default()
        },
    )
}

fn road() -> impl Strategy<Value = Road> {
    prop_oneof![Just(Road::Claims), Just(Road::Scheduler)]
}

fn any_fleet() -> impl Strategy<Value = Fleet> {
    prop_oneof![Just(fleet()), Just(plain_fleet())]
}

/// Everything that containers of a pod have under limits and requests.
fn resources(pod: &Value) -> Vec<(String, String)> {
    let lists = ["containers", "initContainers"].into_iter().filter_map(|list| pod["spec"][list].as_array());
    let maps = lists.flatten().flat_map(|container| {
        ["limits", "requests"]
            .map(|list| container["resources"][list].as_object().cloned().unwrap_or_default())
    });
    maps.flatten().map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned())).collect()
}

/// A pod as the API server hands it on: amounts in its own way of writing them, `3k` for `3000`.
fn stored(mut pod: Value) -> Value {
    fn short(text: &str) -> Option<String> {
        let number: u64 = text.parse().ok()?;
        let (number, ending) = match number {
            0 => return None,
            one if one % 1_000_000 == 0 => (one / 1_000_000, "M"),
            one if one % 1_000 == 0 => (one / 1_000, "k"),
            _ => return None,
        };
        Some(format!("{number}{ending}"))
    }
    for list in ["containers", "initContainers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            for kind in ["limits", "requests"] {
                let map = container.pointer_mut(&format!("/resources/{kind}")).and_then(Value::as_object_mut);
                for amount in map.into_iter().flat_map(|map| map.values_mut()) {
                    if let Some(text) = amount.as_str().and_then(short) {
                        *amount = text.into();
                    }
                }
            }
        }
    }
    pod
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(1024))]

    #[test]
    fn admitted_twice_is_changed_once(pod in any_pod(), policy in lenient(), road in road(), fleet in any_fleet()) {
        let Outcome::Admitted(first) = admit(&pod, "team", &policy, road, &fleet) else { return Ok(()) };
        let after = stored(patched(&pod, &first));
        match admit(&after, "team", &policy, road, &fleet) {
            Outcome::Admitted(again) => {
                prop_assert!(again.patch.is_empty(), "{:?}", again.patch);
                prop_assert_eq!(again.claims, first.claims);
                prop_assert_eq!(again.templates, first.templates);
            }
            Outcome::NotOurs => prop_assert!(first.claims.is_empty()),
            Outcome::Refused(refusals) => prop_assert!(false, "{:?}", refusals),
        }
    }

    #[test]
    fn nothing_stays_that_a_node_would_count(pod in any_pod(), policy in lenient(), road in road()) {
        let Outcome::Admitted(admission) = admit(&pod, "team", &policy, road, &fleet()) else { return Ok(()) };
        let after = patched(&pod, &admission);
        let tokens: u64 = admission.claims.containers().iter().map(|one| one.devices()).sum();
        let mut counted = 0;
        for (name, value) in resources(&after) {
            match dialect_of_resource(&name) {
                Some(_) if name == keys::SLICE => counted += value.parse::<u64>().expect("a number"),
                Some(_) if keys::RESOURCES.contains(&name.as_str()) => {
                    prop_assert!(road == Road::Scheduler && value.parse::<u64>().is_ok_and(|sum| sum > 0));
                }
                Some(_) if value == "0" && road == Road::Scheduler => {}
                Some(dialect) if !admission.claims.is_empty() => {
                    prop_assert!(road == Road::Scheduler && dialect != Dialect::Nvidia, "{} stays", name);
                }
                _ => {}
            }
        }
        let expected = if road == Road::Scheduler { 2 * tokens } else { 0 };
        prop_assert_eq!(counted, expected, "in limits and requests");
        // What is no GPU stays.
        let cpus = |pod: &Value| resources(pod).into_iter().filter(|(name, _)| name == "cpu").count();
        prop_assert_eq!(cpus(&pod), cpus(&after));
        let mut entries: Vec<&str> = Vec::new();
        for entry in after["spec"]["resourceClaims"].as_array().into_iter().flatten() {
            let name = entry["name"].as_str().expect("a name");
            prop_assert!(!entries.contains(&name), "{} twice", name);
            entries.push(name);
            let template = entry["resourceClaimTemplateName"].as_str();
            let known = |name: &str| admission.templates.iter().any(|one| one.name == name);
            prop_assert!(template.is_none_or(known), "{:?} is not made", template);
        }
    }

    #[test]
    fn templates_have_one_name_exactly_where_they_say_the_same(pods in collection::vec(any_pod(), 2..6), policy in lenient()) {
        let mut by_name: BTreeMap<String, String> = BTreeMap::new();
        let mut by_spec: BTreeMap<String, String> = BTreeMap::new();
        for pod in &pods {
            let Outcome::Admitted(admission) = admit(pod, "team", &policy, Road::Claims, &fleet()) else { continue };
            for template in admission.templates {
                let spec = template.object["spec"].to_string();
                prop_assert_eq!(by_name.entry(template.name.clone()).or_insert_with(|| spec.clone()), &spec);
                prop_assert_eq!(by_spec.entry(spec).or_insert_with(|| template.name.clone()), &template.name);
                prop_assert_eq!(template.object["metadata"]["name"].as_str(), Some(template.name.as_str()));
            }
        }
    }

    #[test]
    fn no_limit_is_exceeded(
        pod in any_pod(), policy in lenient(), road in road(), fleet in any_fleet(),
        memory in prop_oneof![1_u64..10_000, 1_u64..100_000], compute in option::of(1_u32..400), gpus in 1_u32..6,
    ) {
        let policy = Policy {
            most_memory: Some(Mebibytes(memory)), most_compute: compute, most_gpus: Some(gpus), ..policy
        };
        let Outcome::Admitted(admission) = admit(&pod, "team", &policy, road, &fleet) else { return Ok(()) };
        prop_assert!(admission.claims.devices() <= u64::from(gpus));
        let most = fleet.products.iter().map(|product| product.memory.0).max().unwrap_or_default();
        // Which template serves which container is not asked: each alone must be within the limits.
        for template in &admission.templates {
            let request = &template.object["spec"]["spec"]["devices"]["requests"][0];
            let several = request["firstAvailable"].as_array().cloned().unwrap_or_default();
            let bodies = if several.is_empty() { vec![request["exactly"].clone()] } else { several };
            for body in bodies {
                let count = body["count"].as_u64().unwrap_or(1);
                let capacity = &body["capacity"]["requests"];
                let shared = body["deviceClassName"] != "mig.carve.dev" && body["deviceClassName"] != "gpu.carve.dev";
                if shared && body["deviceClassName"] != "timeslicing.carve.dev" {
                    let asked = capacity["memory"].as_str().map_or(most, |text| match text.strip_suffix("Gi") {
                        Some(gib) => gib.parse::<u64>().expect("a number") * 1024,
                        None => text.trim_end_matches("Mi").parse::<u64>().expect("a number"),
                    });
                    prop_assert!(asked * count <= memory, "{} of {}", asked, memory);
                    let percent = capacity["compute"].as_str().expect("always said").parse::<u64>().expect("a number");
                    let percent = if percent == 0 { 100 } else { percent };
                    prop_assert!(percent * count <= compute.map_or(u64::MAX, u64::from), "{} of {:?}", percent, compute);
                }
            }
        }
        for container in admission.claims.containers() {
            let amounts = container.parts.iter().map(|part| match part.share {
                Share::Part { memory: Some(MemoryAsk::Amount(amount)), .. } => amount.0 * u64::from(part.count),
                _ => 0,
            });
            prop_assert!(amounts.sum::<u64>() <= memory);
        }
    }

    #[test]
    fn no_document_makes_it_panic(pod in any_pod(), spoil in sample::select(SPOILS), with in sample::select(&[0_u8, 1, 2, 3][..])) {
        let mut pod = pod;
        if let Some(place) = pod.pointer_mut(spoil) {
            *place = [json!(null), json!("x"), json!(7), json!([[]])][usize::from(with)].clone();
        }
        for road in [Road::Claims, Road::Scheduler] {
            let _ = admit(&pod, "team", &Policy::default(), road, &fleet());
            let _ = carve_admission::update(&pod, &pod, &Policy::default());
        }
    }

    #[test]
    fn claims_read_back_as_they_were_written(claims in pod_claims()) {
        let text = claims.to_annotation();
        let again = PodClaims::from_annotation(&text);
        prop_assert_eq!(again.as_ref(), Ok(&claims));
        prop_assert_eq!(again.map(|again| again.to_annotation()), Ok(text));
    }

    #[test]
    fn no_text_makes_the_reader_of_claims_panic(text in "[\\[\\]{}\",:a-z0-9v]{0,80}") {
        let _ = PodClaims::from_annotation(&text);
    }
}

/// The properties above would hold if nothing was ever admitted.
#[test]
fn enough_pods_are_admitted_for_the_rest_to_mean_something() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for road in [Road::Claims, Road::Scheduler] {
        let (mut admitted, mut several, mut refused) = (0, 0, 0);
        for _ in 0..500 {
            let made = (any_pod(), lenient()).new_tree(&mut runner).expect("a pod").current();
            match admit(&made.0, "team", &made.1, road, &fleet()) {
                Outcome::Admitted(admission) => {
                    admitted += usize::from(!admission.claims.is_empty());
                    several += usize::from(admission.claims.parts().count() > 1);
                }
                Outcome::Refused(_) => refused += 1,
                Outcome::NotOurs => {}
            }
        }
        assert!(admitted > 150 && several > 75 && refused > 50, "{road:?}: {admitted} {several} {refused}");
    }
}

const SPOILS: &[&str] = &[
    "/metadata",
    "/metadata/annotations",
    "/metadata/annotations/gpu-fraction",
    "/spec",
    "/spec/containers",
    "/spec/containers/0",
    "/spec/containers/0/name",
    "/spec/containers/0/resources",
    "/spec/containers/0/resources/limits",
    "/spec/containers/0/env",
    "/spec/containers/0/env/0",
    "/spec/containers/0/securityContext",
    "/spec/initContainers",
    "/spec/resourceClaims",
    "/spec/resourceClaims/0",
    "/spec/schedulerName",
    "/spec/nodeName",
];

fn names() -> impl Strategy<Value = Vec<String>> {
    collection::vec("[A-Za-z0-9 -]{1,12}", 0..3)
}

fn pod_claims() -> impl Strategy<Value = PodClaims> {
    let memory = option::of(prop_oneof![
        (1_u64..1_000_000).prop_map(|amount| MemoryAsk::Amount(Mebibytes(amount))),
        (1_u16..=1000).prop_map(|share| MemoryAsk::Share(Thousandths(share)))
    ]);
    let share = prop_oneof![
        Just(Share::Whole),
        Just(Share::Turn),
        Just(Share::Mig("1g.10gb+me".parse().expect("a profile"))),
        (memory, option::of(1_u8..=100)).prop_map(|(memory, compute)| Share::Part { memory, compute })
    ];
    let isolation = sample::select(vec![
        Isolation::Unstated,
        Isolation::Performance,
        Isolation::Fault,
        Isolation::Tenant,
    ]);
    let dialect = sample::select(Dialect::ALL.to_vec());
    let mechanism = option::of(sample::select(Mechanism::ALL.to_vec()));
    let models = (names(), names()).prop_map(|(wanted, unwanted)| Names { wanted, unwanted });
    let uuids = (names(), names()).prop_map(|(wanted, unwanted)| Names {
        wanted: wanted.into_iter().map(GpuUuid).collect(),
        unwanted: unwanted.into_iter().map(GpuUuid).collect(),
    });
    let part = (1_u32..9, share, mechanism, isolation, models, uuids, any::<bool>(), dialect).prop_map(
        |(count, share, mechanism, isolation, models, uuids, burst, dialect)| Part {
            count,
            share,
            mechanism,
            isolation,
            models,
            uuids,
            burst,
            dialect,
        },
    );
    let kind = sample::select(vec![ContainerKind::Init, ContainerKind::Sidecar, ContainerKind::Main]);
    let one = (kind, collection::vec(part, 0..3));
    collection::btree_map("[a-z]{1,4}", one, 0..4).prop_map(|containers| {
        PodClaims::new(containers.into_iter().map(|(name, (kind, parts))| ContainerClaim {
            name,
            kind,
            parts,
        }))
    })
}
