//! Components that die and come back: what runs goes on, and what is asked afterwards is answered.

use carve_cluster_tests::{Cluster, PATIENCE, Pod, alone};
use std::time::Duration;

#[test]
fn the_api_server_is_killed_and_comes_back() {
    let Some(cluster) = Cluster::connect() else { return };
    // A component that starts while the API server is away gives up.
    let _alone = alone();
    let namespace = cluster.namespace("api-server-restart");
    let pod = |name: &str| Pod::sleeping(&cluster, name).manifest();
    namespace.apply(&pod("before"));
    namespace.wait_for_phase("before", "Running");
    let started = namespace.get(&["pod", "before"])["status"]["containerStatuses"][0]["containerID"].clone();
    cluster.restart("kube-apiserver");
    cluster.until("the API server answers again", PATIENCE, || {
        cluster.try_kubectl(&["get", "--raw", "/readyz"], None).is_ok_and(|answer| answer == "ok")
    });
    cluster.until("a pod can be made", PATIENCE, || namespace.try_apply(&pod("after")).is_ok());
    namespace.wait_for_phase("after", "Running");
    let status = namespace.get(&["pod", "before"])["status"]["containerStatuses"][0].clone();
    assert_eq!(status["containerID"], started, "the running pod was not touched");
    assert_eq!(status["restartCount"], 0);
}

#[test]
fn a_failure_shows_the_last_words_of_a_dead_component() {
    let Some(cluster) = Cluster::connect() else { return };
    let _alone = alone();
    // Not one that another suite of this run needs to be the same process all along.
    cluster.stop("kube-controller-manager");
    let waited = std::panic::catch_unwind(|| {
        cluster.until("something that never comes", Duration::from_secs(1), || false);
    });
    cluster.restart("kube-controller-manager");
    let said = waited.expect_err("the wait is in vain");
    let said = said.downcast_ref::<String>().expect("a failure is text");
    let (_, last) = said
        .split_once("── kube-controller-manager, which ended (signal 9)\n")
        .unwrap_or_else(|| panic!("{said}"));
    assert!(last.lines().count() >= 10, "{last}");
    assert!(last.lines().all(|line| line.starts_with("   ")), "nothing but its log follows: {last}");
}
