//! Stories of pods in every state.

use super::{Evidence, Story, story};
use carve_admission::{Fleet, Outcome, Policy, Road, admit};
use serde_json::{Value, json};

fn lines(story: &Story) -> String {
    let mut text = story.headline.clone();
    for line in &story.lines {
        text.push_str(&format!("\n{}: {}", line.about, line.words));
    }
    text
}

fn admitted(limits: Value) -> Value {
    let pod = json!({"metadata": {"name": "one", "namespace": "team", "uid": "u1"},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits.clone(), "requests": limits}}]}, "status": {"phase": "Pending"}});
    let Outcome::Admitted(admission) =
        admit(&pod, "team", &Policy::default(), Road::Scheduler, &Fleet::default())
    else {
        panic!("not admitted")
    };
    let patch: json_patch::Patch =
        serde_json::from_value(serde_json::to_value(admission.patch).unwrap()).unwrap();
    let mut after = pod;
    json_patch::patch(&mut after, &patch).unwrap();
    after
}

fn node(name: &str, memory: u64) -> Value {
    let gpus =
        json!({"v": 1, "gpus": [{"uuid": format!("GPU-{name}"), "product": "Tesla T4", "memory": memory}]})
            .to_string();
    json!({"metadata": {"name": name, "annotations": {"carve.dev/gpus": gpus}}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}})
}

fn holding(name: &str, node: &str, memory: u64, compute: u64) -> Value {
    let slices = json!({"v": 1, "containers": [{"name": "main", "stage": "main", "slices": [
        {"gpu": format!("GPU-{node}"), "memory": memory, "compute": compute}]}]});
    json!({"metadata": {"name": name, "namespace": "team", "uid": name, "annotations": {"carve.dev/slices": slices.to_string()}},
        "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Running"}})
}

fn evidence(pod: Value) -> Evidence {
    let nodes = vec![node("a", 15_000), node("b", 15_000), json!({"metadata": {"name": "c"}})];
    let pods = vec![holding("other", "a", 14_000, 500), holding("third", "b", 2_000, 900)];
    Evidence {
        pod,
        nodes,
        pods,
        leader: Some("controller-1".to_owned()),
        registered: true,
        ..Evidence::default()
    }
}

fn part() -> Value {
    json!({"carve.dev/gpu-memory": "4096", "carve.dev/gpu-compute": "25"})
}

#[test]
fn one_that_waits_is_told_where_it_does_not_fit_and_what_is_left() {
    let told = lines(&story(&evidence(admitted(part()))));
    for words in [
        "team/one waits for a node.",
        "asks for: container main: a part of a GPU with 4096 MiB",
        "placed by: carve-scheduler",
        "controller: controller-1 leads",
        "does not fit: on 1 node: ",
        "most left: 13000 MiB and 10 % of one GPU, on b; 1000 MiB and 50 % of another, on a",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
    let mut evidence = evidence(admitted(part()));
    evidence.pods.clear();
    let told = lines(&story(&evidence));
    assert!(told.contains("would fit: on a, b, as far as GPUs go"), "{told}");
    evidence.leader = None;
    assert!(lines(&story(&evidence)).contains("nobody leads"));
}

#[test]
fn one_that_runs_is_told_what_it_has() {
    let mut pod = admitted(part());
    pod["metadata"]["annotations"]["carve.dev/slices"] =
        holding("x", "a", 4_096, 250)["metadata"]["annotations"]["carve.dev/slices"].clone();
    pod["spec"]["nodeName"] = json!("a");
    pod["status"]["phase"] = json!("Running");
    let mut evidence = evidence(pod.clone());
    evidence.pods = vec![pod];
    let told = lines(&story(&evidence));
    assert!(told.contains("team/one runs on a."), "{told}");
    assert!(told.contains("has: main: 4096 MiB and 25 % of GPU-a (Tesla T4)"), "{told}");
    assert!(told.contains(": beside it 10904 MiB and 75 % are free"), "{told}");
}

#[test]
fn one_of_the_device_plugin_is_told_what_nodes_have() {
    let pod = |amount: &str| {
        json!({"metadata": {"name": "one", "namespace": "team"}, "spec": {"containers": [
        {"name": "main", "resources": {"limits": {"nvidia.com/gpu": amount}}}]}, "status": {"phase": "Pending"}})
    };
    let mut running = pod("3");
    running["spec"]["nodeName"] = json!("a");
    let mut evidence = evidence(pod("5"));
    evidence.pods.push(running);
    let told = lines(&story(&evidence));
    assert!(told.contains("5 of 8 are free on 2 nodes, and no node has 5 of them"), "{told}");
    evidence.pod = pod("2");
    evidence.plans = vec![
        json!({"metadata": {"name": "b"}, "spec": {"node": "b", "serves": ["team/one"]}, "status": {"phase": "Applying"}}),
    ];
    let told = lines(&story(&evidence));
    assert!(told.contains("5 of 8 are free on 2 nodes; b has enough"), "{told}");
    assert!(told.contains("planned for: SlicePlan b cuts b for it: Applying."), "{told}");
}

#[test]
fn one_that_nobody_admitted_is_told_so() {
    let pod = json!({"metadata": {"name": "one", "namespace": "team"}, "spec": {"containers": [
        {"name": "main", "resources": {"limits": {"nvidia.com/gpumem": "3000"}}}]}, "status": {"phase": "Pending"}});
    let told = lines(&story(&evidence(pod)));
    assert!(told.contains("not admitted: ") && told.contains("create it again"), "{told}");
    let none = json!({"metadata": {"name": "one", "namespace": "team"}, "spec": {"containers": []}, "status": {"phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}]}});
    let told = lines(&story(&evidence(none)));
    assert!(told.contains("no GPU") && told.contains("scheduler says: 0/3 nodes"), "{told}");
}

#[test]
fn claims_tell_devices_and_starts_tell_errors() {
    let pod = json!({"metadata": {"name": "one", "namespace": "team", "labels": {"carve.dev/admitted": "claims"}},
        "spec": {"nodeName": "a", "containers": [], "resourceClaims": [{"name": "carve-gpu-0", "resourceClaimTemplateName": "carve-0"}, {"name": "x"}]},
        "status": {"phase": "Pending", "resourceClaimStatuses": [{"name": "carve-gpu-0", "resourceClaimName": "one-gpu"}],
            "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CreateContainerError", "message": "no such device"}}}]}});
    let claim = json!({"metadata": {"name": "one-gpu", "namespace": "team"}, "status": {"allocation": {"devices": {"results": [
        {"device": "gpu-0-frac", "pool": "a", "consumedCapacity": {"compute": "25", "memory": "4Gi"}}]}}}});
    let event = json!({"type": "Warning", "reason": "FailedPrepare", "message": "busy", "lastTimestamp": "2026-11-16T00:00:00Z"});
    let mut evidence = evidence(pod);
    (evidence.claims, evidence.events) = (vec![claim], vec![event]);
    let told = lines(&story(&evidence));
    for words in [
        "is being started on a.",
        "has: gpu-0-frac of a, compute 25, memory 4Gi",
        "not started: main: CreateContainerError: no such device",
        "warning: FailedPrepare: busy",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
}
