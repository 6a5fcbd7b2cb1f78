//! Every configuration whose fate under NVIDIA's plugin is recorded, chosen one after the other on a node where a pod
//! runs: bad ones change nothing and are told, good ones hold, and the pod does not notice.

use carve_cluster_tests::{Cluster, GpuNode, Pod};
use carve_test_support::fixture_text;
use serde_json::{Map, Value, json};
use std::cell::RefCell;

const GPU: &str = "nvidia.com/gpu";
const LABEL: &str = "nvidia.com/device-plugin.config";
/// Four shares of each of two GPUs: none of the recorded cases offers as much.
const BASE: &str =
    "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n";

/// All GPUs that the node has, or those that may be given away now.
fn amount(node: &Value, field: &str) -> Option<u64> {
    node["status"][field][GPU].as_str()?.parse().ok()
}

fn condition(node: &Value) -> Value {
    let all = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["type"] == "CarveConfigured").unwrap_or_default()
}

#[test]
fn bad_ones_change_nothing_and_good_ones_hold() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "chaos-configs", "h200-141gb:2") else { return };
    let Some(text) = fixture_text("device-plugin/golden-config-errors/config-cases.json") else { return };
    let cases: Vec<Value> = serde_json::from_str(&text).expect("cases");
    let namespace = cluster.namespace("chaos-configs");
    let mut data: Map<String, Value> = Map::from_iter([("base".to_owned(), BASE.into())]);
    data.extend(
        cases.iter().map(|case| (case["case"].as_str().unwrap_or_default().to_owned(), case["yaml"].clone())),
    );
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cases"}, "data": data});
    namespace.apply(&map.to_string());
    let map = format!("{}/cases", namespace.name());
    let agent = node.start_agent(&namespace, &[("CARVE_CONFIG_MAP", &map), ("DEFAULT_CONFIG", "base")]);
    agent.offers(GPU, 8);
    namespace.apply(&Pod::sleeping(&cluster, "tenant").limit(GPU, "1").manifest());
    namespace.wait_for_phase("tenant", "Running");
    let tenant = || namespace.get(&["pod", "tenant"])["status"]["containerStatuses"][0].clone();
    let before = tenant();

    // The condition names the configuration that it is about.
    let choose = |name: &str, status: &str| -> Value {
        cluster.label("node0", LABEL, name);
        let node = RefCell::new(Value::Null);
        agent.until(&format!("configuration {name} is judged {status}"), || {
            *node.borrow_mut() = cluster.get(&["node", "node0"]);
            let found = condition(&node.borrow());
            let about = |text: &str| text.contains(&format!("'{name}'"));
            found["status"] == status && found["message"].as_str().is_some_and(about)
        });
        node.into_inner()
    };
    let named = |accepted: bool| {
        let fits = cases.iter().filter(move |case| case["accepted"] == accepted);
        fits.filter_map(|case| Some((case["case"].as_str()?, case)))
    };
    let mut bad = Vec::new();
    for (name, _) in named(false) {
        let node = choose(name, "False");
        assert_eq!(amount(&node, "capacity"), Some(8), "{name}: the configuration before stays in force");
        assert_eq!(amount(&node, "allocatable"), Some(8), "{name}: all of it may be given away");
        bad.push(name);
    }
    assert!(bad.len() >= 15, "{bad:?} are too few to prove anything");
    let told = cluster.told("ConfigRefused");
    for name in &bad {
        assert!(
            told.iter().any(|message| message.contains(&format!("'{name}'"))),
            "{name} is not told of: {told:#?}"
        );
    }
    assert_eq!(tenant(), before, "the pod was not touched by any bad one");
    assert_eq!(cluster.allocatable(GPU), Some(8), "nothing of it came late");

    let mut good = 0;
    for (name, case) in named(true) {
        choose(name, "True");
        let wanted = case["resources"][GPU].as_u64();
        agent.until(&format!("{name} holds: {wanted:?}"), || {
            amount(&cluster.get(&["node", "node0"]), "capacity") == wanted
        });
        good += 1;
    }
    assert!(good >= 5, "{good} are too few to prove anything");
    choose("base", "True");
    agent.offers(GPU, 8);
    assert_eq!(tenant(), before, "the pod was not touched by any good one");
    cluster.kubectl(&["label", "node", "node0", &format!("{LABEL}-")]);
    agent.remove();
}
