//! The real scheduler on a fleet of a thousand nodes with eight GPUs each.

use carve_cluster_tests::{Cluster, PATIENCE};
use carve_lab::FLEET;
use std::collections::BTreeMap;
use std::time::Instant;

const NODES: usize = 1000;
const PODS: usize = 300;

#[test]
fn pods_are_bound_across_a_thousand_nodes() {
    let Some(cluster) = Cluster::connect() else { return };
    let start = Instant::now();
    cluster.start_fleet(NODES);
    println!("{NODES} nodes after {:.1} s", start.elapsed().as_secs_f64());
    let namespace = cluster.namespace("fleet");
    let start = Instant::now();
    namespace.apply(&format!(
        "apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: many}}
spec:
  replicas: {PODS}
  selector: {{matchLabels: {{app: many}}}}
  template:
    metadata: {{labels: {{app: many}}}}
    spec:
      nodeSelector: {{{FLEET}: 'true'}}
      tolerations: [{{key: {FLEET}, operator: Exists}}]
      containers: [{{name: main, image: {}, resources: {{limits: {{nvidia.com/gpu: 3}}}}}}]
",
        cluster.probe_image()
    ));
    let bound = || {
        let words = ["get", "pods", "-n", namespace.name(), "-o", "jsonpath={.items[*].spec.nodeName}"];
        cluster.kubectl(&words).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    cluster.until("every pod is bound", PATIENCE, || bound().len() == PODS);
    let took = start.elapsed().as_secs_f64();
    println!("{PODS} pods bound after {took:.1} s");
    let mut each: BTreeMap<String, usize> = BTreeMap::new();
    for node in bound() {
        *each.entry(node).or_default() += 1;
    }
    assert!(each.keys().all(|node| node.starts_with("fleet-")), "{each:?}");
    assert!(
        each.values().all(|pods| *pods <= 2),
        "three GPUs each: at most two on a node of eight, but {each:?}"
    );
    // No kubelet will ever confirm their end.
    cluster.kubectl(&["delete", "replicaset", "many", "-n", namespace.name(), "--cascade=orphan"]);
    let force =
        ["delete", "pods", "--all", "-n", namespace.name(), "--force", "--grace-period=0", "--wait=false"];
    cluster.kubectl(&force);
}
