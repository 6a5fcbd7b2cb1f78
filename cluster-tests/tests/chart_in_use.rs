//! A release that goes while a pod has a share over MPS: its daemon and its files stay and are named, everything else goes.

use carve_cluster_tests::{Cluster, Everything, GpuNode, PATIENCE, Release};
use serde_json::Value;

/// Lines of processes of MPS daemons.
fn daemons(cluster: &Cluster) -> usize {
    cluster.on_node(&["pgrep", "-a", "-f", "nvidia-cuda-mps-control"]).lines().count()
}

#[test]
fn a_pod_keeps_its_share_when_the_release_goes() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "chart-in-use", "a100-40gb:2") else { return };
    let Some(release) = Release::new(&cluster, &node) else { return };
    let namespace = cluster.namespace("chart-in-use");
    let before = Everything::now(&cluster);
    release.install(&["devicePlugin.config.default=mps-4"]);
    let offers = || cluster.allocatable("nvidia.com/gpu") == Some(8);
    release.until("two GPUs are shared by four each", offers);
    let both = daemons(&cluster);
    assert!(both >= 2, "each GPU has a daemon");
    namespace.apply(&node.looking_pod("share", "nvidia.com/gpu", 1).manifest());
    namespace.wait_for_phase("share", "Running");
    let container = || namespace.get(&["pod", "share"])["status"]["containerStatuses"][0].clone();
    let id = container()["containerID"].clone();
    let gpu = gpu_of(&namespace.exec("share", &["/carve", "gpus", "-o", "json"]));

    let said = release.uninstall().unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));
    let daemon = format!("/run/nvidia/mps/{gpu}");
    for left in ["test-chart-in-use/share", "/var/run/cdi/", "/var/lib/carve/bin/carve", &daemon] {
        assert!(said.contains(left), "{left} is not named:\n{said}");
    }
    assert_eq!(daemons(&cluster) * 2, both, "the daemon that nobody needs has ended");
    let files = Everything::now(&cluster).beyond(&before);
    let named = |line: &String| {
        let path = line.trim_start_matches("file ");
        said.contains(path) || path.starts_with(&daemon)
    };
    let unnamed: Vec<_> = files.iter().filter(|line| line.starts_with("file ") && !named(line)).collect();
    assert!(unnamed.is_empty(), "{unnamed:#?} is left and not named:\n{said}");
    assert!(files.iter().all(|line| !line.starts_with("node ")), "{files:#?}");
    assert_eq!(container()["containerID"], id, "the pod goes on");

    // When its container ends, it starts again with what it had.
    cluster.on_node(&["pkill", "-KILL", "-x", "-f", "/bin/sleep infinity"]);
    let again =
        || container()["restartCount"].as_u64() >= Some(1) && container()["state"]["running"].is_object();
    cluster.until("the container starts again", PATIENCE, again);
    assert_eq!(gpu_of(&namespace.exec("share", &["/carve", "gpus", "-o", "json"])), gpu);

    namespace.delete_pod("share");
    release.install(&[]);
    let said = release.uninstall().unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));
    before.until_back(&cluster, &said);
}

/// The one GPU that a pod sees.
fn gpu_of(seen: &str) -> String {
    let seen: Value = serde_json::from_str(seen).unwrap_or_else(|error| panic!("{error}: {seen}"));
    assert_eq!(seen["gpus"].as_array().map(Vec::len), Some(1), "{seen:#}");
    seen["gpus"][0]["uuid"].as_str().unwrap_or_default().to_owned()
}
