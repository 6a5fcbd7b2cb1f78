//! The agent's device plugin on a real kubelet: time-slicing as people set it up, and life's accidents.

use carve_cluster_tests::{Cluster, GpuNode, NodeFeatures, Pod};
use serde_json::Value;
use std::time::Duration;

const GPU: &str = "nvidia.com/gpu";

const REPLICAS: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: time-slicing-config-fine}
data:
  a100-four: |
    version: v1
    sharing:
      timeSlicing:
        resources:
        - name: nvidia.com/gpu
          replicas: 4
  tesla-five: |
    version: v1
    sharing:
      timeSlicing:
        resources:
        - name: nvidia.com/gpu
          replicas: 5
";

#[test]
fn a_label_chooses_the_config_and_five_replicas_run_on_one_gpu() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "time-slicing", "h200-141gb:1") else { return };
    let namespace = cluster.namespace("time-slicing");
    namespace.apply(REPLICAS);
    let map = format!("{}/time-slicing-config-fine", namespace.name());
    let agent = node.start_agent(&namespace, &[("CARVE_CONFIG_MAP", &map), ("DEFAULT_CONFIG", "a100-four")]);
    let offers = |count: u64| agent.offers(GPU, count);
    offers(4);
    cluster.label("node0", "nvidia.com/device-plugin.config", "tesla-five");
    offers(5);
    namespace.apply(&node.looking_pod("time-slicing-verification", GPU, 1).deployment(5));
    let running =
        || namespace.get(&["deployment", "time-slicing-verification"])["status"]["availableReplicas"] == 5;
    agent.until("all five replicas run", running);
    let seen = namespace.exec("deployment/time-slicing-verification", &["/carve", "gpus", "-o", "json"]);
    let seen: Value = serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{error}: {seen}"));
    assert_eq!(seen["gpus"][0]["name"], "NVIDIA H200");
    let labels = cluster.get(&["node", "node0"])["metadata"]["labels"].clone();
    assert_eq!(labels["nvidia.com/gpu.replicas"], "5");
    assert_eq!(labels["nvidia.com/gpu.product"], "NVIDIA-H200-SHARED");
    assert_eq!(labels["nvidia.com/gpu.sharing-strategy"], "time-slicing");

    // An edit of the ConfigMap holds without any restart; a bad one is refused and told.
    let edited = REPLICAS.replace("replicas: 5", "replicas: 8");
    namespace.apply(&edited);
    offers(8);
    namespace.apply(&edited.replace("replicas: 8", "replicas: many"));
    let told = || {
        let events = cluster.get(&["events", "-n", "default", "--field-selector=reason=ConfigRefused"]);
        events["items"].as_array().is_some_and(|items| {
            items.iter().any(|event| event["message"].as_str().is_some_and(|text| text.contains("replicas")))
        })
    };
    agent.until("the bad config is told", told);
    let conditions = cluster.get(&["node", "node0"])["status"]["conditions"].to_string();
    assert!(conditions.contains("CarveConfigured"), "{conditions}");
    assert_eq!(cluster.allocatable(GPU), Some(8), "the config before stays in force");
    cluster.label("node0", "nvidia.com/device-plugin.config", "no-such-config");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(cluster.allocatable(GPU), Some(8), "an unknown name changes nothing");
    cluster.kubectl(&["label", "node", "node0", "nvidia.com/device-plugin.config-"]);
    offers(4);
    agent.remove();
}

#[test]
fn accidents_disturb_no_running_pod() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "accidents", "h200-141gb:2") else { return };
    let namespace = cluster.namespace("accidents");
    let agent = node.start_agent(&namespace, &[]);
    let offers = |count: u64| agent.offers(GPU, count);
    offers(2);
    let pod = |name: &str| Pod::sleeping(&cluster, name).limit(GPU, "1").manifest();
    namespace.apply(&pod("first"));
    namespace.wait_for_phase("first", "Running");
    let container =
        || namespace.get(&["pod", "first"])["status"]["containerStatuses"][0]["containerID"].clone();
    let started = container();

    agent.kill();
    namespace.apply(&pod("second"));
    namespace.wait_for_phase("second", "Running");
    offers(2);
    cluster.restart("kubelet-node0");
    offers(2);
    assert_eq!(container(), started, "neither a killed agent nor a restarted kubelet touches a running pod");
    let own = |name: &str| {
        let devices = namespace.exec(name, &["/bin/ls", "/dev"]);
        devices
            .lines()
            .find(|line| line.starts_with("nvidia") && line.ends_with(|c: char| c.is_ascii_digit()))
            .map(str::to_owned)
    };
    let (first, second) = (own("first"), own("second"));
    assert!(
        first.is_some() && second.is_some() && first != second,
        "each has a GPU of its own: {first:?} {second:?}"
    );
    agent.remove();
}

#[test]
fn a_runtime_without_cdi_is_served_the_older_way() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "without-cdi", "h200-141gb:2") else { return };
    let namespace = cluster.namespace("without-cdi");
    // What containerd 1.7 does unless told otherwise.
    std::fs::write(node.files("tests").join("containerd.toml"), "version = 2\n").expect("a config");
    let agent = node.start_agent(&namespace, &[("CONTAINERD_CONFIG", "/tests/containerd.toml")]);
    agent.until("two GPUs", || cluster.allocatable(GPU) == Some(2));
    namespace.apply(&node.looking_pod("looker", GPU, 1).manifest());
    namespace.wait_for_phase("looker", "Running");
    let seen = namespace.exec("looker", &["/carve", "gpus", "-o", "json"]);
    let seen: Value = serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{error}: {seen}"));
    assert_eq!(seen["gpus"].as_array().map(Vec::len), Some(1), "its own GPU and no other: {seen:#}");
    let events = cluster.get(&["events", "-n", "default", "--field-selector=reason=Cdi"]).to_string();
    assert!(events.contains("from kubelet instead"), "{events}");
    agent.remove();
}

#[test]
fn a_node_proves_itself_on_demand_and_labels_of_others_are_left_alone() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "validate", "h200-141gb:1") else { return };
    let namespace = cluster.namespace("validate");
    // Somebody else says what the product is.
    cluster.kubectl(&[
        "label",
        "node",
        "node0",
        "--overwrite",
        "--field-manager=nfd-master",
        "nvidia.com/gpu.product=Something-Else",
    ]);
    let agent = node.start_agent(&namespace, &[]);
    let told = || {
        let events =
            cluster.get(&["events", "-n", "default", "--field-selector=reason=LabelsHeld"]).to_string();
        events.contains("nfd-master")
    };
    agent.until("who holds the label is told", told);
    let product = || cluster.get(&["node", "node0"])["metadata"]["labels"]["nvidia.com/gpu.product"].clone();
    assert_eq!(product(), "Something-Else");
    // The pod of a test before this one may hold the GPU for a while yet.
    let proves = || {
        let agent = ["exec", "-n", namespace.name(), "daemonset/carve-agent", "--"];
        let validated = cluster.try_kubectl(&[&agent[..], &["/carve", "agent", "validate"]].concat(), None);
        let steps = ["driver   passed", "cdi      passed", "plugin   passed", "cuda     passed"];
        validated.is_ok_and(|validated| steps.iter().all(|step| validated.contains(step)))
    };
    agent.until("the node proves itself", proves);
    let files = cluster.on_node(&["ls", "/run/nvidia/validations"]);
    for file in ["driver-ready", "toolkit-ready", "plugin-ready", "cuda-ready"] {
        assert!(files.contains(file), "{files}");
    }
    agent.remove();
    cluster.kubectl(&["label", "node", "node0", "nvidia.com/gpu.product-"]);
}

#[test]
fn labels_go_through_node_feature_discovery_where_it_is() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "nfd", "h200-141gb:1") else { return };
    let namespace = cluster.namespace("nfd");
    let _features = NodeFeatures::serve(&cluster);
    let agent = node.start_agent(&namespace, &[]);
    let feature = || namespace.get(&["nodefeature", "nvidia-features-for-node0"]);
    let labelled = || feature()["spec"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H200";
    agent.until("the NodeFeature is there", labelled);
    assert_eq!(feature()["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"], "node0");
    agent.remove();
}
