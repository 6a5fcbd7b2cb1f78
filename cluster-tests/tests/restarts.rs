//! Components that die and come back: what runs goes on, and what is asked afterwards is answered.

use carve_cluster_tests::Cluster;
use std::time::Duration;

#[test]
fn the_api_server_is_killed_and_comes_back() {
    let Some(cluster) = Cluster::connect() else { return };
    let namespace = cluster.namespace("api-server-restart");
    let pod = |name: &str| {
        format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: {}, imagePullPolicy: Never, command: [/bin/sleep, infinity]}}]
",
            cluster.probe_image()
        )
    };
    namespace.apply(&pod("before"));
    namespace.wait_for_phase("before", "Running");
    let started = namespace.get(&["pod", "before"])["status"]["containerStatuses"][0]["containerID"].clone();
    cluster.restart("kube-apiserver");
    cluster.until("the API server answers again", Duration::from_secs(60), || {
        cluster.try_kubectl(&["get", "--raw", "/readyz"], None).is_ok_and(|answer| answer == "ok")
    });
    cluster
        .until("a pod can be made", Duration::from_secs(60), || namespace.try_apply(&pod("after")).is_ok());
    namespace.wait_for_phase("after", "Running");
    let status = namespace.get(&["pod", "before"])["status"]["containerStatuses"][0].clone();
    assert_eq!(status["containerID"], started, "the running pod was not touched");
    assert_eq!(status["restartCount"], 0);
}
