//! The verbs, in the scheduler's own words.

use super::{SHORTLIST, binding, decide, filter, preempt, prioritize, shortlist};
use crate::asked::{Asked, AskedError};
use crate::wire::{Args, BindingArgs, PreemptionArgs};
use carve_bookings::{Book, Booking, Gpu, Offer, PodUid, Slices};
use carve_gpu_model::{GpuUuid, Mebibytes};
use serde_json::{Value, json};

fn offer(node: usize, gpus: usize) -> Offer {
    let gpu = |number: usize| Gpu {
        uuid: GpuUuid(format!("GPU-{node}-{number}")),
        product: "NVIDIA A100-SXM4-80GB".to_owned(),
        memory: Mebibytes(80_000),
        withheld: None,
    };
    Offer { gpus: (0..gpus).map(gpu).collect() }
}

fn nodes() -> Vec<String> {
    ["a", "b", "cpu"].map(str::to_owned).to_vec()
}

fn book() -> Book {
    let mut book = Book::default();
    book.offer("a", offer(0, 1));
    book.offer("b", offer(1, 1));
    book
}

/// A pod as the scheduler sends it, after admission.
fn pod(name: &str, priority: i32, memory: u64, percent: u64) -> Value {
    let manifest = json!({
        "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
        "spec": {
            "priority": priority,
            "containers": [{"name": "main", "image": "x", "resources": {"limits": {
                "nvidia.com/gpu": "1", "nvidia.com/gpumem": memory.to_string(), "nvidia.com/gpucores": percent.to_string(),
            }}}],
        },
    });
    let policy = carve_admission::Policy::default();
    let road = carve_admission::Road::Scheduler;
    let outcome = carve_admission::admit(&manifest, "team", &policy, road, &Default::default());
    let carve_admission::Outcome::Admitted(admission) = outcome else { panic!("{outcome:?}") };
    let mut pod = manifest;
    pod["metadata"]["annotations"] = json!({"carve.dev/claim": admission.claims.to_annotation()});
    pod
}

fn asked(pod: &Value) -> Asked {
    Asked::of(&serde_json::from_value(pod.clone()).unwrap()).unwrap()
}

fn bind(book: &mut Book, pod: &Value, node: &str) -> Slices {
    let asked = asked(pod);
    let slices = decide(book, node, &asked).unwrap();
    book.hold(asked.uid, Booking::new(&asked.pod, node, &slices, asked.priority, true));
    slices
}

#[test]
fn nodes_with_room_are_left_and_the_others_say_why() {
    let mut book = book();
    bind(&mut book, &pod("first", 0, 60_000, 50), "a");
    let sent = json!({"Pod": pod("second", 0, 40_000, 30), "Nodes": null, "NodeNames": ["a", "b", "cpu"]});
    let args: Args = serde_json::from_value(sent).unwrap();
    let asked = Asked::of(&args.pod).unwrap();
    let result = filter(&book, args.node_names.as_deref().unwrap(), &asked);
    assert_eq!(
        serde_json::to_value(&result).unwrap(),
        json!({
            "NodeNames": ["b"],
            "FailedNodes": {"a": "container main wants 1 × 40000 MiB and 30 percent; most left is 20000 MiB and 50 percent"},
            "FailedAndUnresolvableNodes": {"cpu": "no GPUs that are given out in parts"},
            "Error": "",
        })
    );
}

#[test]
fn nodes_in_use_come_first() {
    let mut book = book();
    bind(&mut book, &pod("first", 0, 40_000, 50), "b");
    let scores = prioritize(&book, &nodes(), &asked(&pod("second", 0, 20_000, 20)));
    let scores = serde_json::to_value(scores).unwrap();
    let of = |at: usize| scores[at]["Score"].as_u64().unwrap();
    assert!(of(1) > of(0) && of(2) == 0, "{scores}");
    assert_eq!(scores[1]["Host"], "b");
}

#[test]
fn a_node_that_is_better_by_far_is_named_alone() {
    let mut book = book();
    let small = asked(&pod("small", 0, 20_000, 20));
    assert_eq!(
        shortlist(&book, &nodes(), &small).node_names,
        ["a", "b"],
        "equal ones are left to the scheduler"
    );
    bind(&mut book, &pod("first", 0, 60_000, 80), "b");
    assert_eq!(shortlist(&book, &nodes(), &small).node_names, ["b"]);
    let large = asked(&pod("large", 0, 60_000, 50));
    assert_eq!(shortlist(&book, &nodes(), &large).node_names, ["a"]);
}

#[test]
fn everybody_who_has_to_go_is_named() {
    let mut book = book();
    bind(&mut book, &pod("low", 0, 40_000, 50), "a");
    bind(&mut book, &pod("lower", -5, 30_000, 30), "a");
    bind(&mut book, &pod("high", 1000, 70_000, 90), "b");
    let sent = json!({
        "Pod": pod("urgent", 100, 45_000, 10),
        "NodeNameToVictims": null,
        "NodeNameToMetaVictims": {
            "a": {"Pods": [{"UID": "uid-other"}], "NumPDBViolations": 1},
            "b": {"Pods": null, "NumPDBViolations": 0},
        },
    });
    let args: PreemptionArgs = serde_json::from_value(sent).unwrap();
    let result = preempt(&book, &args.node_name_to_meta_victims, &Asked::of(&args.pod).unwrap());
    assert_eq!(
        serde_json::to_value(result).unwrap(),
        json!({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "uid-other"}, {"UID": "uid-low"}], "NumPDBViolations": 1}}})
    );
}

#[test]
fn a_pod_that_is_bound_again_is_not_in_its_own_way() {
    let mut book = book();
    let pod = pod("one", 0, 80_000, 100);
    let slices = bind(&mut book, &pod, "a");
    assert_eq!(decide(&book, "a", &asked(&pod)).unwrap(), slices);
    assert_eq!(filter(&book, &nodes(), &asked(&pod)).node_names, ["a", "b"]);
}

#[test]
fn node_and_slices_are_one_object() {
    let mut book = book();
    let pod = pod("one", 0, 20_000, 25);
    let slices = bind(&mut book, &pod, "a");
    let sent = json!({"PodName": "one", "PodNamespace": "team", "PodUID": "uid-one", "Node": "a"});
    let args: BindingArgs = serde_json::from_value(sent).unwrap();
    let object = binding(&args, "17", &slices);
    assert_eq!(object["metadata"]["resourceVersion"], "17");
    assert_eq!(object["target"]["name"], "a");
    assert_eq!(object["metadata"]["uid"], "uid-one");
    let written = object["metadata"]["annotations"]["carve.dev/slices"].as_str().unwrap();
    assert_eq!(Slices::from_annotation(written).unwrap(), slices);
    assert_eq!(book.bookings(&PodUid("uid-one".to_owned())).next().unwrap().memory(), 20_000);
}

#[test]
fn who_was_not_admitted_is_told_so() {
    let mut bare = pod("one", 0, 20_000, 25);
    bare["metadata"]["annotations"] = Value::Null;
    let error = Asked::of(&serde_json::from_value(bare).unwrap()).unwrap_err();
    assert!(matches!(error, AskedError::NotAdmitted(_)));
    assert!(error.to_string().contains("team/one"), "{error}");
}

#[test]
fn only_the_best_nodes_are_named_and_reasons_only_where_none_is() {
    let mut book = Book::default();
    let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        book.offer(name, offer(number, 1));
    }
    // Every tenth is in use, and so better; every fiftieth is full.
    for number in (0..200).step_by(10) {
        let memory = if number % 50 == 0 { 80_000 } else { 30_000 };
        bind(&mut book, &pod(&format!("there-{number}"), 0, memory, 50), &names[number]);
    }
    let second = asked(&pod("second", 0, 40_000, 30));
    let short = shortlist(&book, &names, &second);
    assert_eq!(short.node_names.len(), SHORTLIST);
    let in_use: Vec<&String> = names
        .iter()
        .step_by(10)
        .filter(|name| !["n0", "n50", "n100", "n150"].contains(&name.as_str()))
        .collect();
    assert_eq!(short.node_names.iter().take(16).collect::<Vec<_>>(), in_use);
    assert!(short.failed_nodes.is_empty() && short.failed_and_unresolvable_nodes.is_empty());
    // Whichever is best of all is best of these.
    let best = |nodes: &[String]| prioritize(&book, nodes, &second).into_iter().map(|one| one.score).max();
    assert_eq!(best(&short.node_names), best(&names));
    let all = filter(&book, &names, &second);
    assert!(short.node_names.iter().all(|name| all.node_names.contains(name)) && all.node_names.len() == 196);
    let whole = asked(&pod("whole", 0, 80_001, 100));
    assert_eq!(shortlist(&book, &names, &whole), filter(&book, &names, &whole));
    assert_eq!(shortlist(&book, &names, &whole).failed_nodes.len(), 200);
}
