//! The MIG walk-through that people follow today, with `carve gpus` where it runs nvidia-smi.

use carve_cluster_tests::{Cluster, GpuNode, PATIENCE};
use serde_json::Value;
use std::time::Duration;

fn available(deployment: &Value) -> u64 {
    deployment["status"]["availableReplicas"].as_u64().unwrap_or(0)
}

#[test]
fn a_label_cuts_eight_gpus_into_fifty_six_and_then_otherwise() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "walkthrough", "p4d.24xlarge") else { return };
    let namespace = cluster.namespace("mig-walkthrough");
    let agent = node.start_agent(&namespace, &[("MIG_STRATEGY", "mixed")]);
    let offers = |resource: &str, count: u64| agent.offers(resource, count);
    let applied = |config: &str| {
        cluster.label("node0", "nvidia.com/mig.config", config);
        agent.until(&format!("{config} is applied"), || cluster.is_cut_as("node0", config));
    };
    offers("nvidia.com/gpu", 8);

    applied("all-1g.5gb");
    offers("nvidia.com/gpu", 0);
    offers("nvidia.com/mig-1g.5gb", 56);
    let pod = node.looking_pod("mig1-5", "nvidia.com/mig-1g.5gb", 1);
    namespace.apply(&pod.deployment(1));
    agent.until("the first pod runs", || available(&namespace.get(&["deployment", "mig1-5"])) == 1);
    let seen = namespace.exec("deployment/mig1-5", &["/carve", "gpus", "-o", "json"]);
    let seen: Value = serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{error}: {seen}"));
    assert_eq!(seen["gpus"].as_array().map(Vec::len), Some(1), "{seen:#}");
    let devices = seen["gpus"][0]["mig"]["devices"].as_array().cloned().unwrap_or_default();
    assert_eq!(devices.len(), 1, "a pod sees its MIG device and no other: {seen:#}");
    assert_eq!(devices[0]["profile"], "1g.5gb");
    assert_eq!(devices[0]["memoryMiB"], 4864);

    cluster.kubectl(&["scale", "deployment", "mig1-5", "--replicas=100", "-n", namespace.name()]);
    let full = || available(&namespace.get(&["deployment", "mig1-5"])) == 56;
    cluster.until_or("56 of 100 pods run", PATIENCE, full, || agent.log());
    std::thread::sleep(Duration::from_secs(3));
    assert!(full(), "and not one more");

    cluster.kubectl(&["scale", "deployment", "mig1-5", "--replicas=0", "-n", namespace.name()]);
    let none = || namespace.get(&["pods", "-l", "app=mig1-5"])["items"].as_array().is_some_and(Vec::is_empty);
    cluster.until("all pods are gone", PATIENCE, none);
    applied("all-balanced");
    offers("nvidia.com/mig-1g.5gb", 16);
    offers("nvidia.com/mig-2g.10gb", 8);
    offers("nvidia.com/mig-3g.20gb", 8);
    offers("nvidia.com/gpu", 0);

    let labelled = || {
        let labels = cluster.get(&["node", "node0"])["metadata"]["labels"].clone();
        labels["nvidia.com/mig.strategy"] == "mixed"
            && labels["nvidia.com/mig-3g.20gb.count"] == "8"
            && labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"
    };
    agent.until("the labels say so too", labelled);

    cluster.label("node0", "nvidia.com/mig.config", "all-3g.21gb");
    let failed =
        || cluster.get(&["node", "node0"])["metadata"]["labels"]["nvidia.com/mig.config.state"] == "failed";
    agent.until("a name that means nothing fails", failed);
    let reason =
        cluster.get(&["node", "node0"])["metadata"]["annotations"]["carve.dev/mig.config.reason"].clone();
    assert!(
        reason.as_str().is_some_and(|text| text.contains("all-3g.20gb")),
        "the near name is told: {reason}"
    );
    assert_eq!(cluster.allocatable("nvidia.com/mig-3g.20gb"), Some(8), "and nothing was lost");

    applied("all-disabled");
    offers("nvidia.com/gpu", 8);
    offers("nvidia.com/mig-1g.5gb", 0);
    cluster.kubectl(&["label", "node", "node0", "nvidia.com/mig.config-"]);
    agent.remove();
}
