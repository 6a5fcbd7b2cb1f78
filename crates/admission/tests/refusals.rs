//! Requests that can not be, or that a policy does not allow: each with field, reason and what to write instead.

mod pods;

use carve_admission::{Fleet, FleetProduct, Outcome, Policy, Road, admit};
use carve_formats::workloads::{Dialect, Mechanism};
use carve_gpu_model::{Mebibytes, Mechanisms};
use pods::{admitted, fleet, on, part, pod, refused};
use serde_json::{Value, json};

/// The single refusal of a pod on both roads, in one line.
fn line(asked: &Value, policy: &Policy, fleet: &Fleet) -> String {
    let each = [Road::Claims, Road::Scheduler].map(|road| {
        let refusals = refused(admit(asked, "team", policy, road, fleet));
        let [refusal] = refusals.as_slice() else { panic!("{refusals:?}") };
        assert!(!refusal.field.is_empty() && !refusal.reason.is_empty(), "{refusal:?}");
        refusal.to_string()
    });
    assert_eq!(each[0], each[1], "both roads say the same");
    assert!(!each[0].contains('\n'));
    each[0].clone()
}

fn says(asked: &Value, policy: &Policy, fleet: &Fleet, parts: &[&str]) {
    let said = line(asked, policy, fleet);
    for part in parts {
        assert!(said.contains(part), "'{part}' in '{said}'");
    }
}

#[test]
fn wrong_requests_come_back_with_a_corrected_example() {
    let no = || json!({});
    let cases: Vec<(Value, Value, &[&str])> = vec![
        (
            no(),
            json!({"nvidia.com/gpu": "0.5"}),
            &[
                "spec.containers[0].resources.limits.nvidia.com/gpu: ",
                "whole numbers",
                "gpu-fraction: \"0.5\"",
            ],
        ),
        (no(), json!({"nvidia.com/gpucores": "150"}), &["0 to 100", "write nvidia.com/gpucores: 100"]),
        (no(), json!({"nvidia.com/mig-1g.5": "1"}), &["names no MIG profile", "nvidia.com/mig-1g.5gb: 1"]),
        (
            no(),
            json!({"koordinator.sh/gpu-core": "150"}),
            &["multiple of 100", "koordinator.sh/gpu-core: 200"],
        ),
        (no(), json!({"nvidia.com/gpumem": "much"}), &["'much' is no quantity"]),
        (
            no(),
            json!({"nvidia.com/gpumem": "99999999999"}),
            &["more memory than any GPU has", "4096 is 4 GiB"],
        ),
        (json!({"gpu-fraction": "1.5"}), no(), &["metadata.annotations.gpu-fraction", "at most 1"]),
        (
            json!({"gpu-fraction": "0.5", "gpu-fraction-container-name": "d"}),
            no(),
            &["metadata.annotations.gpu-fraction-container-name", "no container 'd'"],
        ),
        (
            json!({"carve.dev/isolation": "tennant"}),
            json!({"carve.dev/gpu-memory": "1"}),
            &["did you mean 'tenant'?"],
        ),
        (
            json!({"carve.dev/mechanism": "time-slicing"}),
            json!({"carve.dev/gpu-memory": "4096"}),
            &["spec.containers[0].resources.limits: ", "have no size", "carve.dev/mechanism: limiter"],
        ),
        (
            json!({"carve.dev/mechanism": "mps", "carve.dev/isolation": "fault"}),
            json!({"carve.dev/gpu-memory": "4096"}),
            &["end together"],
        ),
        (
            json!({"carve.dev/mechanism": "limiter", "carve.dev/isolation": "tenant"}),
            json!({"carve.dev/gpu-memory": "4096"}),
            &["keeps tenants apart"],
        ),
        (
            json!({"carve.dev/isolation": "performance"}),
            json!({"nvshare.com/gpu": "1"}),
            &["without a size is not kept apart"],
        ),
        (
            json!({"nvidia.com/use-gputype": "A100') || true || ('"}),
            json!({"nvidia.com/gpumem": "4096"}),
            &["is no name of a GPU", "A100"],
        ),
        (
            json!({"nvidia.com/use-gputype": vec!["x"; 40].join(",")}),
            json!({"nvidia.com/gpumem": "4096"}),
            &["40 models and ids", "32 at most"],
        ),
        (
            json!({"carve.dev/isolation": "fault"}),
            json!({"nvidia.com/mig-1g.10gb.shared": "1"}),
            &["has no size that could be reserved", "nvidia.com/mig-1g.10gb: 1"],
        ),
    ];
    for (annotations, limits, parts) in cases {
        says(&pod(annotations, limits), &Policy::default(), &fleet(), parts);
    }
    let both = pod(json!({"gpu-fraction": "0.5"}), json!({"nvidia.com/gpu": "1"}));
    says(&both, &Policy::default(), &fleet(), &["refuses both together", "take nvidia.com/gpu out"]);
    let mut only = part();
    only["spec"]["containers"][0]["resources"] = json!({"requests": {"nvidia.com/gpumem": "1"}});
    says(
        &only,
        &Policy::default(),
        &fleet(),
        &["requested without a limit", "write it under resources.limits"],
    );
}

#[test]
fn what_depends_on_gpus_that_nobody_knows_is_refused_on_the_claims_road() {
    let half = pod(json!({"gpu-fraction": "0.5"}), json!({}));
    let claims = |asked: &Value, fleet: &Fleet| {
        refused(admit(asked, "team", &Policy::default(), Road::Claims, fleet))[0].to_string()
    };
    let said = claims(&half, &Fleet::default());
    assert!(said.starts_with("metadata.annotations: how much is 50% of a GPU's memory?"), "{said}");
    assert!(
        said.contains("no GPU of the cluster is known yet") && said.contains("carve.dev/gpu-memory: 4096"),
        "{said}"
    );
    // Our scheduler learns it when it has chosen a GPU.
    admitted(admit(&half, "team", &Policy::default(), Road::Scheduler, &Fleet::default()));
    // Amounts need not be known.
    admitted(admit(&part(), "team", &Policy::default(), Road::Claims, &Fleet::default()));
    let named = pod(json!({"gpu-fraction": "0.5", "nvidia.com/use-gputype": "H300"}), json!({}));
    let said = claims(&named, &fleet());
    assert!(
        said.contains("the model that is named (H300)") && said.contains("there are NVIDIA A100"),
        "{said}"
    );
    let mig = json!({"carve.dev/mechanism": "mig"});
    let large = pod(mig.clone(), json!({"carve.dev/gpu-memory": "200000"}));
    let said = claims(&large, &fleet());
    assert!(said.contains("no MIG device of the cluster is so large") && said.contains("7g.80gb"), "{said}");
    let said = claims(&pod(mig.clone(), json!({"carve.dev/gpu-memory": "1"})), &pods::plain_fleet());
    assert!(said.contains("no GPU of the cluster that it may have offers MIG"), "{said}");
    let said = claims(&pod(mig, json!({"carve.dev/gpu-memory": "1"})), &Fleet::default());
    assert!(said.contains("no GPU of the cluster is known yet"), "{said}");
    let many = (0..9).map(|number| FleetProduct {
        name: format!("GPU {number}"),
        memory: Mebibytes(10_000 * (number + 1)),
        profiles: Vec::new(),
    });
    let said = claims(&half, &Fleet { products: many.collect(), ..Fleet::default() });
    assert!(said.contains("9 kinds of GPU") && said.contains("nvidia.com/use-gputype: A100"), "{said}");
}

#[test]
fn what_may_wait_long_is_said() {
    for (annotations, limits, words) in [
        (json!({}), json!({"carve.dev/gpu-memory": "200000"}), "200000 MiB is more than any GPU"),
        (
            json!({"nvidia.com/use-gputype": "H300"}),
            json!({"nvidia.com/gpumem": "1000"}),
            "the model that is named (H300)",
        ),
        (
            json!({"nvidia.com/use-gputype": "A100"}),
            json!({"nvidia.com/mig-1g.18gb": "1"}),
            "offers MIG devices 1g.18gb",
        ),
        (json!({}), json!({"aliyun.com/gpu-mem": "3"}), "3 is taken for GiB"),
        (
            json!({"nvidia.com/gpumem": "3000"}),
            json!({"nvidia.com/gpucores": "10"}),
            "has no effect as an annotation",
        ),
    ] {
        let warnings = admitted(on(&pod(annotations, limits), Road::Claims)).warnings;
        assert!(warnings.iter().any(|said| said.contains(words)), "'{words}' in {warnings:?}");
    }
}

#[test]
fn policies_limit_what_may_be_asked() {
    let limits = |limits: Value| pod(json!({}), limits);
    let quarter = json!({"carve.dev/gpu-memory": "4096", "carve.dev/gpu-compute": "25"});
    let default = Policy::default;
    let cases: Vec<(Value, Policy, &[&str])> = vec![
        (
            limits(quarter.clone()),
            Policy { dialects: [Dialect::Hami].into(), ..default() },
            &[
                "spec.containers[0].resources.limits",
                "does not take requests in the words of carve",
                "words of HAMi",
            ],
        ),
        (limits(quarter.clone()), Policy { dialects: [].into(), ..default() }, &["it takes none"]),
        (
            limits(quarter.clone()),
            Policy { mechanisms: Mechanisms::NONE.with(Mechanism::Mig), ..default() },
            &["served by limiter", "it allows MIG"],
        ),
        (
            pod(json!({"carve.dev/isolation": "tenant"}), quarter.clone()),
            Policy { mechanisms: Mechanisms::ANY.without(Mechanism::Exclusive), ..default() },
            &["served by exclusive"],
        ),
        (
            limits(quarter.clone()),
            Policy { most_memory: Some(Mebibytes(4095)), ..default() },
            &["up to 4096 MiB", "allows 4095 MiB", "carve.dev/gpu-memory: 4095"],
        ),
        (
            limits(json!({"carve.dev/gpu": "2", "carve.dev/gpu-memory": "4096"})),
            Policy { most_memory: Some(Mebibytes(8191)), ..default() },
            &["up to 8192 MiB"],
        ),
        (
            pod(json!({"gpu-fraction": "0.1"}), json!({})),
            Policy { most_memory: Some(Mebibytes(4096)), ..default() },
            &["spec.containers[0]", "of GPU memory"],
        ),
        (
            limits(json!({"nvidia.com/gpucores": "10"})),
            Policy { most_memory: Some(Mebibytes(16_384)), ..default() },
            &["allows 16384 MiB"],
        ),
        (
            limits(quarter.clone()),
            Policy { most_compute: Some(20), ..default() },
            &["up to 25%", "allows 20%", "carve.dev/gpu-compute: 20"],
        ),
        (
            limits(json!({"carve.dev/gpu-memory": "1"})),
            Policy { most_compute: Some(50), ..default() },
            &["up to 100%"],
        ),
        (
            pod(json!({"carve.dev/burst": "true"}), quarter.clone()),
            Policy { most_compute: Some(50), ..default() },
            &["up to 100%", "without carve.dev/burst"],
        ),
        (
            limits(json!({"carve.dev/gpu": "3", "carve.dev/gpu-memory": "1"})),
            Policy { most_gpus: Some(2), ..default() },
            &["holds 3 GPUs", "allows 2"],
        ),
    ];
    for (asked, policy, parts) in cases {
        says(&asked, &policy, &fleet(), parts);
    }
    let policy = Policy {
        most_memory: Some(Mebibytes(4096)),
        most_compute: Some(25),
        most_gpus: Some(1),
        ..default()
    };
    admitted(admit(&part(), "team", &policy, Road::Claims, &fleet()));
    // A hundredth of a GPU is 154 MiB, and a claim asks for a step of 256.
    let hundredth = limits(json!({"koordinator.sh/gpu": "1"}));
    let step = |most: u64| Policy { most_memory: Some(Mebibytes(most)), ..default() };
    says(&hundredth, &step(255), &pods::plain_fleet(), &["up to 256 MiB", "allows 255 MiB"]);
    admitted(admit(&hundredth, "team", &step(256), Road::Claims, &pods::plain_fleet()));
    let unknown = pod(json!({"gpu-fraction": "0.1"}), json!({}));
    let said = refused(admit(&unknown, "team", &policy, Road::Scheduler, &Fleet::default()))[0].to_string();
    assert!(said.contains("can not be known before a GPU is chosen"), "{said}");
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let mut asked = part();
    asked["spec"]["nodeName"] = json!("n");
    asked["spec"]["hostPID"] = json!(true);
    let policy = Policy { most_memory: Some(Mebibytes(1)), ..Policy::default() };
    let Outcome::Refused(refusals) = admit(&asked, "team", &policy, Road::Claims, &fleet()) else { panic!() };
    let fields: Vec<&str> = refusals.iter().map(|refusal| refusal.field.as_str()).collect();
    assert_eq!(fields, ["spec.containers[0].resources.limits", "spec.hostPID", "spec.nodeName"]);
}

#[test]
fn parts_of_init_containers_alone_can_not_be_started_on_the_scheduler_road() {
    let limits = json!({"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000"}});
    let init = json!({"name": "load", "image": "x", "resources": limits});
    let mut asked = json!({"metadata": {"name": "p"}, "spec": {"initContainers": [init], "containers": [{"name": "main", "image": "x"}]}});
    let policy = Policy::default();
    let refusals = refused(admit(&asked, "team", &policy, Road::Scheduler, &fleet()));
    let said = refusals[0].to_string();
    assert!(said.starts_with("spec.initContainers[0].resources.limits"), "{said}");
    assert!(
        said.contains("kubelet does not tell when load starts") && said.contains("in a container that stays"),
        "{said}"
    );
    // Claims are handed to init containers like to any other.
    admitted(admit(&asked, "team", &policy, Road::Claims, &fleet()));
    asked["spec"]["containers"][0]["resources"] = limits;
    admitted(admit(&asked, "team", &policy, Road::Scheduler, &fleet()));
}
