//! Pods for tests, a small fleet, and what admission makes of them.
#![allow(dead_code, reason = "every test program uses some of it")]

pub(crate) mod manifests;

use carve_admission::{Admission, Fleet, FleetProduct, FleetProfile, Outcome, Policy, Refusal, Road, admit};
use carve_gpu_model::{Mebibytes, Product};
use serde_json::{Value, json};

pub(crate) fn mib(amount: u64) -> Mebibytes {
    Mebibytes(amount)
}

/// A100s of 80 GB, which MIG divides, and T4s, which it does not.
pub(crate) fn fleet() -> Fleet {
    let a100 = Product::by_key("a100-80gb").expect("a product");
    let table = a100.profile_table().expect("a table");
    let profiles = table.profiles().iter().map(|profile| FleetProfile {
        name: profile.name.clone(),
        memory: profile.memory.expect("a figure").value,
    });
    let memory = a100.memory().expect("a figure").value;
    Fleet {
        products: vec![
            FleetProduct { name: a100.name().to_owned(), memory, profiles: profiles.collect() },
            t4(),
        ],
        ..Fleet::default()
    }
}

pub(crate) fn t4() -> FleetProduct {
    FleetProduct { name: "Tesla T4".to_owned(), memory: mib(15_360), profiles: Vec::new() }
}

/// GPUs that are all alike.
pub(crate) fn plain_fleet() -> Fleet {
    Fleet { products: vec![t4()], ..Fleet::default() }
}

/// A pod with one container.
pub(crate) fn pod(annotations: Value, limits: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": limits.clone(), "requests": limits}}]}
    })
}

/// A pod that asks for a part in our own words.
pub(crate) fn part() -> Value {
    pod(json!({}), json!({"carve.dev/gpu-memory": "4096", "carve.dev/gpu-compute": "25"}))
}

pub(crate) fn on(pod: &Value, road: Road) -> Outcome {
    admit(pod, "team", &Policy::default(), road, &fleet())
}

pub(crate) fn admitted(outcome: Outcome) -> Admission {
    match outcome {
        Outcome::Admitted(admission) => admission,
        other => panic!("not admitted: {other:?}"),
    }
}

pub(crate) fn refused(outcome: Outcome) -> Vec<Refusal> {
    match outcome {
        Outcome::Refused(refusals) => refusals,
        other => panic!("not refused: {other:?}"),
    }
}

/// The pod after the patch, as another program reads patches.
pub(crate) fn patched(pod: &Value, admission: &Admission) -> Value {
    let ops = serde_json::to_value(&admission.patch).expect("a patch");
    let patch: json_patch::Patch = serde_json::from_value(ops).expect("as others read it");
    let mut after = pod.clone();
    json_patch::patch(&mut after, &patch).expect("it applies");
    after
}

/// A pod admitted on the claims road: what it is then, and the devices of its templates.
pub(crate) fn by_claims(pod: &Value) -> (Value, Vec<Value>) {
    let admission = admitted(on(pod, Road::Claims));
    let devices = admission.templates.iter().map(|one| one.object["spec"]["spec"]["devices"].clone());
    (patched(pod, &admission), devices.collect())
}
