//! NVIDIA's device plugin and the agent, one after the other on the same kubelet, machine and configuration, with real
//! pods: kubelet offers the same, writes down the same answers, and pods see the same.

#[path = "side_by_side/cases.rs"]
mod cases;
#[path = "side_by_side/pods.rs"]
mod pods;

use carve_cluster_tests::{Cluster, GpuNode, Incumbents, Namespace, PATIENCE, Program};
use carve_conformance::side_by_side::{PLUGIN, PODS, Told, between, check_some};
use cases::{CASES, Case};
use std::collections::BTreeMap;

/// The machine of all cases; how it is cut differs.
const MACHINE: &str = "h200-141gb:2";

/// The part of a node's status that is about NVIDIA's resources, without those of which there is nothing any more.
fn offered(cluster: &Cluster) -> BTreeMap<String, String> {
    let node = cluster.get(&["node", "node0"]);
    let all = node["status"]["allocatable"].as_object().cloned().unwrap_or_default();
    all.into_iter()
        .filter(|(name, amount)| name.starts_with("nvidia.com/") && *amount != "0")
        .map(|(name, amount)| (name, amount.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// What a case is to offer, as the node's status says it.
fn wanted(case: &Case) -> BTreeMap<String, String> {
    case.offers.iter().map(|(name, amount)| ((*name).to_owned(), amount.to_string())).collect()
}

/// Everything that kubelet and pods learn in a case from whoever serves now.
fn learn(cluster: &Cluster, namespace: &Namespace, case: &Case) -> Told {
    let mut told = Told::new();
    for (resource, amount) in offered(cluster) {
        told.insert(format!("{resource} offered"), amount);
    }
    for wave in case.waves {
        pods::run(cluster, namespace, wave, &mut told);
    }
    told
}

#[test]
fn kubelet_writes_down_the_same_answers_of_both() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "side-by-side", MACHINE) else { return };
    let Some(incumbents) = Incumbents::locate() else { return };
    let namespace = cluster.namespace("side-by-side");

    let mut theirs: Vec<Told> = Vec::new();
    for case in CASES {
        node.cut_anew(MACHINE, case.cuts);
        let file = node.files("incumbent").join("config.yaml");
        std::fs::write(&file, case.config()).expect("a configuration");
        let config = file.display().to_string();
        let mut plugin =
            node.start_incumbent(&incumbents, Program::DevicePlugin, &[("CONFIG_FILE", &config)]);
        let offers = || offered(&cluster) == wanted(case);
        let what = format!("{}: NVIDIA's plugin offers {:?}", case.name, case.offers);
        cluster.until_or(&what, PATIENCE, offers, || format!("{:?}\n{}", offered(&cluster), plugin.heard()));
        theirs.push(learn(&cluster, &namespace, case));
        plugin.kill();
        cluster.until("kubelet offers nothing of a plugin that is gone", PATIENCE, || {
            offered(&cluster).is_empty()
        });
    }

    // The same documents, as named configurations between which the node's label chooses.
    namespace.apply(&cases::config_map());
    let map = format!("{}/cases", namespace.name());
    let first = CASES[0].key();
    node.cut_anew(MACHINE, CASES[0].cuts);
    let agent = node.start_agent(&namespace, &[("CARVE_CONFIG_MAP", &map), ("DEFAULT_CONFIG", &first)]);
    let mut found = Vec::new();
    let mut compared = 0;
    for (case, theirs) in CASES.iter().zip(&theirs) {
        node.cut_anew(MACHINE, case.cuts);
        cluster.label("node0", "nvidia.com/device-plugin.config", &case.key());
        agent.until(&format!("{} is in force", case.name), || {
            agent.condition("CarveConfigured").is_some_and(|condition| {
                condition["status"] == "True"
                    && condition["message"]
                        .as_str()
                        .is_some_and(|text| text.contains(&format!("'{}'", case.key())))
            }) && offered(&cluster) == wanted(case)
        });
        let ours = learn(&cluster, &namespace, case);
        compared += theirs.len();
        found.extend(between(case.name, theirs, &ours));
    }
    agent.remove();
    eprintln!("{} cases, {compared} facts compared", CASES.len());
    assert!(compared > 100, "{compared} facts are too few to prove anything: {theirs:?}");
    check_some(&found, &[PLUGIN, PODS].concat());
}
