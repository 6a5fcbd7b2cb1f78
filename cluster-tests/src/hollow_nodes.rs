//! Nodes without kubelets that a suite makes for itself: the scheduler binds pods there, and they never run.
//!
//! Unlike the lab's fleet they come and go with a test, each has a name of its own, and nobody renews a lease for them: pods that are
//! put there tolerate every taint.

use crate::Cluster;
use serde_json::{Value, json};

/// Label that says whose they are.
const LABEL: &str = "carve.lab/hollow";

/// Nodes that go when they are dropped, with the pods that are bound to them.
#[derive(Debug)]
pub struct HollowNodes {
    cluster: Cluster,
    suite: String,
}

impl HollowNodes {
    /// Makes nodes with these names, once what an interrupted run left is gone.
    pub fn new(cluster: &Cluster, suite: &str, names: &[String]) -> Self {
        let nodes = HollowNodes { cluster: cluster.clone(), suite: suite.to_owned() };
        nodes.withdraw();
        let items: Vec<Value> = names.iter().map(|name| node(name, suite)).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let made = cluster.try_kubectl(&["create", "-f", "-"], Some(&list));
        made.unwrap_or_else(|error| panic!("kubectl create nodes: {error}"));
        nodes
    }

    /// Binds a pod, or the pods of a template, to one of them: puts what it takes into their specification.
    pub fn pin(spec: &mut Value, node: &str) {
        spec["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        HollowNodes::admit(spec);
    }

    /// Lets a pod go to any node of a suite and to no other.
    pub fn allow(spec: &mut Value, suite: &str) {
        spec["nodeSelector"] = json!({LABEL: suite});
        HollowNodes::admit(spec);
    }

    fn admit(spec: &mut Value) {
        spec["tolerations"] = json!([{"operator": "Exists"}]);
        // No kubelet will ever confirm their end.
        spec["terminationGracePeriodSeconds"] = 0.into();
    }

    fn withdraw(&self) {
        let mine = format!("{LABEL}={}", self.suite);
        let words = ["delete", "nodes", "-l", &mine, "--ignore-not-found", "--wait=false"];
        let _ = self.cluster.try_kubectl(&words, None);
    }
}

impl Drop for HollowNodes {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// The size of a p4d.24xlarge. It names no GPUs: those are in ResourceSlices.
fn node(name: &str, suite: &str) -> Value {
    let size = json!({"cpu": "96", "memory": "1152Gi", "pods": "250"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {LABEL: suite, "kubernetes.io/hostname": name}},
        "status": {"capacity": size, "allocatable": size},
    })
}
