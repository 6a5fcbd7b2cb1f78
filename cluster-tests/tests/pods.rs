//! The lab itself: pods run, limits hold, our image starts as it would in production.

use carve_cluster_tests::{Cluster, PATIENCE, Pod};
use serde_json::json;

#[test]
fn a_pod_with_limits_runs_and_sees_them() {
    let Some(cluster) = Cluster::connect() else { return };
    let namespace = cluster.namespace("pod-with-limits");
    let pod = Pod::sleeping(&cluster, "limited")
        .container("env", json!([{"name": "GREETING", "value": "hello"}]))
        .limit("cpu", "200m")
        .limit("memory", "64Mi");
    namespace.apply(&pod.manifest());
    namespace.wait_for_phase("limited", "Running");
    assert_eq!(namespace.env("limited", "GREETING").as_deref(), Some("hello"));
    let limit =
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max";
    assert_eq!(namespace.exec("limited", &["/bin/sh", "-c", limit]).trim(), (64 << 20).to_string());
}

#[test]
fn an_impossible_pod_stays_pending_and_says_why() {
    let Some(cluster) = Cluster::connect() else { return };
    let namespace = cluster.namespace("impossible-pod");
    namespace.apply(&Pod::sleeping(&cluster, "greedy").limit("example.com/unicorn", "1").manifest());
    cluster.until("the scheduler says why", PATIENCE, || {
        let conditions = namespace.get(&["pod", "greedy"])["status"]["conditions"].to_string();
        conditions.contains("Insufficient example.com/unicorn")
    });
    assert_eq!(namespace.phase("greedy"), "Pending");
}

#[test]
fn a_daemon_set_of_our_image_runs_on_every_node() {
    let Some(cluster) = Cluster::connect() else { return };
    let namespace = cluster.namespace("daemon-set");
    namespace.apply(&format!(
        "apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: looker}}
spec:
  selector: {{matchLabels: {{app: looker}}}}
  template:
    metadata: {{labels: {{app: looker}}}}
    spec:
      terminationGracePeriodSeconds: 0
      initContainers:
      - name: look
        image: {carve}
        imagePullPolicy: Never
        args: [--machine, h200, --state-dir, /tmp/state, gpus]
      containers:
      - name: stay
        image: {probe}
        imagePullPolicy: Never
        command: [/bin/sleep, infinity]
",
        carve = cluster.carve_image(),
        probe = cluster.probe_image()
    ));
    cluster.until("the daemon runs on every node", PATIENCE, || {
        namespace.get(&["daemonset", "looker"])["status"]["numberReady"] == cluster.nodes().len()
    });
    let said = cluster.kubectl(&["logs", "-n", namespace.name(), "daemonset/looker", "-c", "look"]);
    assert!(said.contains("NVIDIA H200"), "{said}");
    assert!(said.contains("simulated machine h200"), "{said}");
}

#[test]
fn a_label_leads_a_pod_to_its_node() {
    let Some(cluster) = Cluster::connect() else { return };
    let node = cluster.nodes().last().expect("a lab has nodes").clone();
    cluster.label(&node, "carve.test/chosen", "yes");
    let namespace = cluster.namespace("node-label");
    let pod = Pod::sleeping(&cluster, "led").spec("nodeSelector", json!({"carve.test/chosen": "yes"}));
    namespace.apply(&pod.manifest());
    namespace.wait_for_phase("led", "Running");
    assert_eq!(namespace.get(&["pod", "led"])["spec"]["nodeName"], node.as_str());
}
