//! Stand-ins over a store in memory, with a Karpenter and kubelets that do as the test says.

use super::act::Provisioning;
use super::objects::Watched;
use super::tests::{Bench, START, written_at};
use crate::metrics::Metrics;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const SHARE: &str = "nvidia.com/gpu.shared";

impl Bench {
    fn stand_ins(change: impl FnOnce(&mut Value)) -> Self {
        let bench = Bench::new();
        bench.objects.lock().unwrap().listed(Watched::Pods, &BTreeSet::new());
        bench.policy_of_stand_ins(change);
        bench
    }

    fn policy_of_stand_ins(&self, change: impl FnOnce(&mut Value)) {
        self.policy("a", |spec| {
            spec["sharing"]["renamed"] = true.into();
            spec["provision"]["mode"] = "StandIns".into();
            change(spec);
        });
    }

    /// With its NodePool in use.
    async fn with_pool(mut self) -> Self {
        self.look(0).await;
        self.ready();
        self
    }

    fn share(&self, name: &str, node: Option<&str>) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "work", "uid": name},
            "spec": {
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "containers": [{"resources": {"requests": {"cpu": "250m"}, "limits": {SHARE: 1}}}],
            },
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        });
        if let Some(node) = node {
            pod["spec"]["nodeName"] = node.into();
            pod["status"] = json!({"phase": "Running"});
        }
        self.see(Watched::Pods, pod);
    }

    /// A node as Karpenter makes it, with so many devices.
    fn whole(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
        let mut node = json!({
            "metadata": {
                "name": name, "uid": name, "resourceVersion": "7", "creationTimestamp": written_at(START),
                "labels": {
                    "karpenter.sh/nodepool": "a", "karpenter.sh/registered": "true",
                    "karpenter.k8s.aws/instance-gpu-name": "t4", "karpenter.k8s.aws/instance-gpu-count": "1",
                },
            },
            "spec": {"taints": [taint("nvidia.com/gpu", "true"), taint("carve.dev/not-ready", "whole")]},
            "status": {
                "allocatable": {"cpu": "3920m", "pods": "29", "nvidia.com/gpu": "1"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        change(&mut node);
        self.memory.0.lock().unwrap().nodes.insert(name.to_owned(), node.clone());
        self.see(Watched::Nodes, node);
    }

    /// Changes a node that is there.
    fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut node = self.memory.0.lock().unwrap().nodes[name].clone();
        change(&mut node);
        self.memory.0.lock().unwrap().nodes.insert(name.to_owned(), node.clone());
        self.see(Watched::Nodes, node);
    }

    /// The scheduler binds a stand-in.
    fn bind(&self, stand_in: &str, node: &str) {
        let mut pod = self.memory.0.lock().unwrap().pods[stand_in].clone();
        pod["spec"]["nodeName"] = node.into();
        self.see(Watched::Pods, pod);
    }

    /// Another controller, which has seen nothing but what there is.
    fn anew(&mut self) {
        self.provisioning =
            Provisioning::new(self.memory.clone(), Arc::clone(&self.objects), Metrics::default());
    }
}

fn name(number: usize) -> String {
    format!("carve-stand-in-a-{number:06}")
}

#[tokio::test]
async fn a_node_comes_for_stand_ins_is_emptied_cut_and_let_in() {
    let mut bench = Bench::stand_ins(|_| {}).with_pool().await;
    assert!(bench.look(1).await.is_empty(), "nobody waits");
    assert_eq!(bench.reason("a"), "True Made");
    (0..4).for_each(|number| bench.share(&format!("share-{number}"), None));
    assert_eq!(bench.look(1).await, [format!("create {}", name(0))], "four shares are one GPU");
    let pod = bench.memory.0.lock().unwrap().pods[&name(0)].clone();
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["resources"], json!({"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}));
    assert_eq!(pod["spec"]["nodeSelector"], json!({"karpenter.sh/nodepool": "a"}));
    bench.anew();
    assert!(bench.look(1).await.is_empty(), "another controller makes nothing twice");

    bench.whole("n", |_| {});
    bench.bind(&name(0), "n");
    assert!(bench.look(1).await.is_empty(), "Karpenter still counts on a whole GPU");
    bench.change("n", |node| node["metadata"]["labels"]["karpenter.sh/initialized"] = "true".into());
    let left = format!("delete {}", name(0));
    assert_eq!(bench.look(1).await, ["n@7 is emptying".to_owned(), left]);
    bench.anew();
    assert_eq!(bench.look(1).await, ["n@7 is cutting"]);
    assert!(bench.look(1).await.is_empty(), "what is being cut is on its way");
    let (status, reason, _) = bench.said("a", "PromiseKept").expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Coming"));

    bench.change("n", |node| {
        node["status"]["allocatable"] = json!({"cpu": "3920m", "pods": "29", SHARE: "4"});
    });
    assert_eq!(bench.look(1).await, ["taints of n@7: nvidia.com/gpu", "hardware of n: true"]);
    (0..4).for_each(|number| bench.share(&format!("share-{number}"), Some("n")));
    assert!(bench.look(1).await.is_empty());
    assert!(bench.memory.0.lock().unwrap().pods.is_empty());
    bench.share("share-4", None);
    assert_eq!(bench.look(1).await, [format!("create {}", name(0))], "the node is full");
    bench.objects.lock().unwrap().gone(Watched::Pods, "work/share-4");
    assert_eq!(bench.look(1).await, [format!("delete {}", name(0))], "nobody waits");
}

#[tokio::test]
async fn mig_is_ordered_by_a_label_when_stand_ins_are_gone() {
    let mut bench = Bench::stand_ins(|spec| {
        spec["sharing"] = Value::Null;
        spec["provision"]["models"] = json!(["a100-40gb"]);
        spec["provision"]["counts"] = json!([8]);
        spec["provision"]["mig"] = json!({"all": "1g.5gb"});
    });
    bench = bench.with_pool().await;
    bench.whole("n", |node| {
        let labels = &mut node["metadata"]["labels"];
        labels["karpenter.sh/initialized"] = "true".into();
        labels["karpenter.k8s.aws/instance-gpu-name"] = "a100".into();
        labels["karpenter.k8s.aws/instance-gpu-count"] = "8".into();
        labels["node.kubernetes.io/instance-type"] = "p4d.24xlarge".into();
    });
    assert_eq!(bench.look(1).await, ["n@7 is emptying"]);
    assert_eq!(bench.look(1).await, ["n@7 is cutting all-1g.5gb"]);
}

#[tokio::test]
async fn limits_are_kept_and_what_is_beyond_them_is_said() {
    let mut bench = Bench::stand_ins(|spec| spec["provision"]["mostGpus"] = 2.into()).with_pool().await;
    (0..20).for_each(|number| bench.share(&format!("share-{number:02}"), None));
    assert_eq!(bench.look(1).await.len(), 2);
    bench.look(1).await;
    let (status, _, message) = bench.said("a", "Provisioned").expect("a condition");
    assert!(status == "True" && message.contains("12 pod(s) wait for more GPUs"), "{message}");
    // What can not be made is said, and tried again after a while.
    bench.policy_of_stand_ins(|_| {});
    bench.memory.0.lock().unwrap().refused = Some("create");
    assert_eq!(bench.look(1).await, ["apply a".to_owned(), format!("create {}", name(2))]);
    assert_eq!(bench.reason("a"), "False NotWritten");
    assert!(bench.look(1).await.is_empty());
    bench.memory.0.lock().unwrap().refused = None;
    // One of them was made although nobody said so.
    assert_eq!(bench.look(30).await.len(), 3);
}

#[tokio::test]
async fn stand_ins_of_nobody_go() {
    let mut bench = Bench::stand_ins(|_| {}).with_pool().await;
    bench.share("share", None);
    assert_eq!(bench.look(1).await.len(), 1);
    bench.policy_of_stand_ins(|spec| spec["provision"]["models"] = json!(["t5"]));
    assert!(bench.look(1).await.is_empty(), "of a policy that can not be understood nothing is touched");
    bench.objects.lock().unwrap().gone(Watched::Policies, "a");
    bench.anew();
    assert_eq!(bench.look(1).await, [format!("delete {}", name(0))]);
}

#[tokio::test]
async fn groups_of_the_cluster_autoscaler_need_no_karpenter() {
    let mut bench = Bench::stand_ins(|spec| {
        spec["provision"]["nodeClass"] = Value::Null;
        spec["provision"]["instanceTypesOf"] = "AWS".into();
    });
    for kind in [Watched::NodePools, Watched::NodeOverlays] {
        bench.objects.lock().unwrap().absent(kind, "their kind is not defined".to_owned());
    }
    bench.share("share", None);
    assert_eq!(bench.look(1).await, [format!("create {}", name(0))]);
    assert_eq!(bench.reason("a"), "True Made");
    let selector = bench.memory.0.lock().unwrap().pods[&name(0)]["spec"]["nodeSelector"].clone();
    assert_eq!(selector, json!({"carve.dev/pool": "a"}));
    bench.whole("n", |node| {
        node["metadata"]["labels"] =
            json!({"carve.dev/pool": "a", "node.kubernetes.io/instance-type": "g4dn.xlarge"});
        node["status"]["allocatable"]["nvidia.com/gpu"] = "0".into();
    });
    bench.bind(&name(0), "n");
    assert!(bench.look(1).await.is_empty(), "its GPU is not there yet");
    bench.change("n", |node| node["status"]["allocatable"]["nvidia.com/gpu"] = "1".into());
    assert_eq!(bench.look(1).await, ["n@7 is emptying".to_owned(), format!("delete {}", name(0))]);
    assert_eq!(bench.look(1).await, ["n@7 is cutting"]);
    bench.change("n", |node| {
        node["status"]["allocatable"] = json!({"cpu": "3920m", "pods": "29", SHARE: "4"});
    });
    assert_eq!(bench.look(1).await, ["taints of n@7: nvidia.com/gpu", "hardware of n: true"]);
}
