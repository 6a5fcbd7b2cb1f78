//! Nodes without kubelets that a suite makes for itself: the scheduler binds pods there, and they never run.
//!
//! Unlike the lab's fleet they come and go with a test, each has a name of its own, and nobody renews a lease for them: pods that are
//! put there tolerate every taint.

use crate::inside::create_all;
use crate::parts_pods::MOST_WORDS;
use crate::{Cluster, plain_name};
use carve_cluster_api::names;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
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
        HollowNodes::made(cluster, suite, &names.iter().map(|name| node(name, suite)).collect::<Vec<_>>())
    }

    /// Makes so many nodes with so many GPUs each, as an agent that gives out parts describes them.
    pub fn with_gpus(cluster: &Cluster, suite: &str, count: usize, gpus: usize, memory: u64) -> Self {
        let nodes = (0..count).map(|number| {
            let name = format!("{suite}-{number:04}");
            let mut node = node(&name, suite);
            describe(&mut node, &name, gpus, memory);
            node
        });
        HollowNodes::made(cluster, suite, &nodes.collect::<Vec<_>>())
    }

    fn made(cluster: &Cluster, suite: &str, items: &[Value]) -> Self {
        let nodes = HollowNodes { cluster: cluster.clone(), suite: suite.to_owned() };
        nodes.withdraw();
        let objects: Vec<Node> =
            items.iter().filter_map(|item| serde_json::from_value(item.clone()).ok()).collect();
        let made = cluster.within(|client| create_all(Api::<Node>::all(client), objects));
        made.unwrap_or_else(|error| panic!("nodes can not be made: {error}"));
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
        // All at once: one after the other, a thousand would take kubectl half a minute.
        let mine = format!("/api/v1/nodes?labelSelector={LABEL}%3D{}", self.suite);
        let _ = self.cluster.try_kubectl(&["delete", "--raw", &mine], None);
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

/// Adds GPUs in every form that somebody counts them in, and says of the node from the start what would be said of it after a minute without
/// a kubelet: nobody changes it while a suite measures.
fn describe(node: &mut Value, name: &str, gpus: usize, memory: u64) {
    let gpu = |number| json!({"uuid": format!("GPU-{name}-{number}"), "product": "NVIDIA A100-SXM4-80GB", "memory": memory});
    let offer = json!({"v": 1, "gpus": (0..gpus).map(gpu).collect::<Vec<_>>()});
    node["metadata"]["annotations"] = json!({names::GPUS: offer.to_string()});
    let sums =
        [("slice", gpus as u64 * 16), ("memory", gpus as u64 * memory), ("compute", gpus as u64 * 100)];
    for (which, sum) in sums {
        for name in [format!("carve.dev/{which}"), plain_name(which)] {
            for list in ["capacity", "allocatable"] {
                node["status"][list][&name] = sum.to_string().into();
            }
        }
    }
    for number in 0..MOST_WORDS {
        for list in ["capacity", "allocatable"] {
            node["status"][list][plain_name(&format!("word-{number}"))] = "100000".into();
        }
    }
    let unknown = |kind: &str| json!({"type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated", "message": "it has no kubelet"});
    let conditions = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map(unknown);
    node["status"]["conditions"] = conditions.to_vec().into();
    let taint = |effect: &str| json!({"key": "node.kubernetes.io/unreachable", "effect": effect});
    node["spec"] = json!({"taints": [taint("NoSchedule"), taint("NoExecute")]});
}
