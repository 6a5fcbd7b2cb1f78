//! MPS from one end to the other on a real kubelet: daemons with limits before anything is offered, pods connected to
//! their own GPU's daemon and to no other, and daemons that outlive the agent.

use carve_cluster_tests::{Cluster, GpuNode, Pod};

const GPU: &str = "nvidia.com/gpu";
const FOUR: &str = "version: v1
sharing:
  mps:
    resources: [{name: nvidia.com/gpu, replicas: 4}]
";

#[test]
fn pods_share_a_gpu_through_its_own_daemon() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "mps", "h200-141gb:2") else { return };
    let namespace = cluster.namespace("mps");
    std::fs::write(node.files("tests").join("config.yaml"), FOUR).expect("a config");
    let agent = node.start_agent(&namespace, &[("CONFIG_FILE", "/tests/config.yaml")]);
    let offers = |resource: &str, count: u64| agent.offers(resource, count);
    offers(GPU, 8);
    let daemons = || {
        let listed = cluster.on_node(&["pgrep", "-f", "nvidia-cuda-mps-control -f"]);
        listed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let started = daemons();
    assert_eq!(started.len(), 2, "a daemon for each GPU: {started:?}");

    namespace.apply(&node.looking_pod("tenant", GPU, 1).manifest());
    namespace.wait_for_phase("tenant", "Running");
    let pipe = namespace.env("tenant", "CUDA_MPS_PIPE_DIRECTORY").expect("the way to the daemon");
    let part = namespace.env("tenant", "CUDA_VISIBLE_DEVICES").expect("its GPU and no other");
    assert_eq!(pipe, format!("/mps/{part}/pipe"));
    assert!(!namespace.exec("tenant", &["/bin/ls", &pipe]).is_empty(), "the daemon's pipe is there");
    // What a CUDA program sees in there: a quarter of the GPU.
    let seen = namespace.exec("tenant", &["/carve", "cuda-probe", "look"]);
    let seen: serde_json::Value =
        serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{error}: {seen}"));
    let free = seen["answer"]["look"]["free"].as_u64().unwrap_or_default() >> 20;
    assert!((30_000..36_000).contains(&free), "{free} MiB of 143,771 among four: {seen:#}");

    // More than one share is refused, with the reason.
    namespace.apply(&Pod::sleeping(&cluster, "greedy").limit(GPU, "2").manifest());
    let refused = || {
        let status = namespace.get(&["pod", "greedy"])["status"].clone();
        status["message"]
            .as_str()
            .is_some_and(|text| text.contains("maximum request size for shared resources is 1"))
    };
    agent.until("two shares are refused", refused);

    // The agent is killed, container and all; the daemons and the pod do not notice.
    agent.kill();
    offers(GPU, 8);
    assert_eq!(daemons(), started, "the same daemons");
    assert_eq!(namespace.phase("tenant"), "Running");

    // A daemon that dies is started again, with its limits, and meanwhile its GPU is not offered.
    cluster.on_node(&["kill", "-9", &started[0]]);
    let other = || daemons().iter().any(|pid| !started.contains(pid)) && daemons().len() == 2;
    agent.until("a new daemon is there", other);
    offers(GPU, 8);

    // Back to whole GPUs: the tenant keeps its daemon until it is gone, and its GPU is not given whole before.
    let new = node.files("tests").join("config.new");
    std::fs::write(&new, "version: v1\n").expect("a config");
    std::fs::rename(&new, node.files("tests").join("config.yaml")).expect("a config");
    offers(GPU, 1);
    cluster.kubectl(&["delete", "pod", "tenant", "greedy", "-n", namespace.name()]);
    offers(GPU, 2);
    agent.until("the daemons end", || daemons().is_empty());
    agent.remove();
}

#[test]
fn mig_devices_are_shared_by_mps_too() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "mps-mig", "h200-141gb:1") else { return };
    let namespace = cluster.namespace("mps-mig");
    let config = "version: v1
flags: {migStrategy: mixed}
sharing:
  mps:
    resources: [{name: nvidia.com/mig-3g.71gb, replicas: 3}]
";
    std::fs::write(node.files("tests").join("config.yaml"), config).expect("a config");
    let environment = [("CONFIG_FILE", "/tests/config.yaml"), ("DEFAULT_MIG_CONFIG", "all-3g.71gb")];
    let agent = node.start_agent(&namespace, &environment);
    let six = || cluster.allocatable("nvidia.com/mig-3g.71gb") == Some(6);
    agent.until("two MIG devices with three shares each", six);
    namespace.apply(&node.looking_pod("tenant", "nvidia.com/mig-3g.71gb", 1).manifest());
    namespace.wait_for_phase("tenant", "Running");
    let part = namespace.env("tenant", "CUDA_VISIBLE_DEVICES").expect("its MIG device");
    assert!(part.starts_with("MIG-"), "{part}");
    let labelled = || {
        let labels = cluster.get(&["node", "node0"])["metadata"]["labels"].clone();
        labels["nvidia.com/mig-3g.71gb.sharing-strategy"] == "mps"
            && labels["nvidia.com/mig-3g.71gb.replicas"] == "3"
    };
    agent.until("the labels say so too", labelled);
    cluster.kubectl(&["delete", "pod", "tenant", "-n", namespace.name()]);
    agent.remove();
}
