//! Checks from objects of the API server alone that no GPU is given out twice. It shares no code with whoever decides.
//!
//! Memory is in MiB. Compute is in tenths of a percent: a GPU has 1000.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Something that must never be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint(pub String);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    memory: u64,
    compute: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    name: String,
    node: String,
    parts: BTreeMap<String, Amount>,
}

/// Every GPU and whoever holds something of it.
#[derive(Debug, Default)]
pub struct PartsLedger {
    /// Memory of each GPU of each node.
    nodes: BTreeMap<String, BTreeMap<String, u64>>,
    pods: BTreeMap<String, Holder>,
    /// What is held of each GPU, by node and id.
    held: BTreeMap<(String, String), Amount>,
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn annotation(object: &Value, name: &str) -> Option<Value> {
    serde_json::from_str(object["metadata"]["annotations"][name].as_str()?).ok()
}

/// What a pod has of each GPU: main containers and sidecars at once, init containers one after the other before them.
fn parts(slices: &Value) -> BTreeMap<String, Amount> {
    let (mut always, mut most): (BTreeMap<String, Amount>, BTreeMap<String, Amount>) = Default::default();
    for container in slices["containers"].as_array().into_iter().flatten() {
        for part in container["slices"].as_array().into_iter().flatten() {
            let gpu = text(part, "/gpu").to_owned();
            let (memory, compute) = (part["memory"].as_u64(), part["compute"].as_u64());
            let (memory, compute) = (memory.unwrap_or(u64::MAX / 4), compute.unwrap_or(u64::MAX / 4));
            if container["stage"] == "init" {
                let before = always.get(&gpu).copied().unwrap_or_default();
                let entry = most.entry(gpu).or_default();
                entry.memory = entry.memory.max(before.memory + memory);
                entry.compute = entry.compute.max(before.compute + compute);
            } else {
                let entry = always.entry(gpu).or_default();
                entry.memory += memory;
                entry.compute += compute;
            }
        }
    }
    for (gpu, amount) in always {
        let entry = most.entry(gpu).or_default();
        entry.memory = entry.memory.max(amount.memory);
        entry.compute = entry.compute.max(amount.compute);
    }
    most
}

impl PartsLedger {
    /// A node is there, or has changed.
    pub fn node_seen(&mut self, node: &Value) {
        let Some(offer) = annotation(node, "carve.dev/gpus") else { return };
        let gpus = offer["gpus"].as_array().into_iter().flatten();
        let gpus = gpus.map(|gpu| (text(gpu, "/uuid").to_owned(), gpu["memory"].as_u64().unwrap_or(0)));
        self.nodes.insert(text(node, "/metadata/name").to_owned(), gpus.collect());
    }

    /// A pod is there, or has changed.
    pub fn pod_seen(&mut self, pod: &Value) -> Vec<Complaint> {
        let uid = text(pod, "/metadata/uid");
        let node = text(pod, "/spec/nodeName");
        let over = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
        let Some(slices) = annotation(pod, "carve.dev/slices").filter(|_| !node.is_empty() && !over) else {
            let tokens = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
            let asks = tokens.into_iter().any(|one| !one["resources"]["limits"]["carve.dev/slice"].is_null());
            self.gone(uid);
            let name = text(pod, "/metadata/name");
            return match asks && !node.is_empty() && !over {
                true => vec![Complaint(format!("{name} is bound to {node} and has no parts"))],
                false => Vec::new(),
            };
        };
        let name = format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        let holder = Holder { name, node: node.to_owned(), parts: parts(&slices) };
        match self.pods.get(uid) {
            Some(known) if *known == holder => return Vec::new(),
            Some(known) => {
                let words = format!("what {} was given has changed: {known:?}, then {holder:?}", known.name);
                return vec![Complaint(words)];
            }
            None => {}
        }
        self.take(uid, holder)
    }

    fn take(&mut self, uid: &str, holder: Holder) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let offered = self.nodes.get(&holder.node).cloned().unwrap_or_default();
        for (gpu, amount) in &holder.parts {
            let Some(memory) = offered.get(gpu) else {
                complaints.push(Complaint(format!(
                    "{} has a part of {gpu}, which {} has not",
                    holder.name, holder.node
                )));
                continue;
            };
            let held = self.held.entry((holder.node.clone(), gpu.clone())).or_default();
            held.memory += amount.memory;
            held.compute += amount.compute;
            if held.memory > *memory || held.compute > 1000 {
                let others = self
                    .pods
                    .values()
                    .filter(|other| other.node == holder.node && other.parts.contains_key(gpu));
                let names: Vec<&str> = others.map(|other| other.name.as_str()).collect();
                complaints.push(Complaint(format!(
                    "{gpu} of {} is given out twice: {} MiB of {memory} and {} of 1000, when {} came to {names:?}",
                    holder.node, held.memory, held.compute, holder.name
                )));
            }
        }
        self.pods.insert(uid.to_owned(), holder);
        complaints
    }

    fn gone(&mut self, uid: &str) {
        let Some(holder) = self.pods.remove(uid) else { return };
        for (gpu, amount) in holder.parts {
            if let Some(held) = self.held.get_mut(&(holder.node.clone(), gpu)) {
                held.memory -= amount.memory;
                held.compute -= amount.compute;
            }
        }
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, pod: &Value) {
        self.gone(text(pod, "/metadata/uid"));
    }

    /// All pods were listed: no others are there.
    pub fn pods_listed(&mut self, uids: &BTreeSet<String>) {
        let gone: Vec<String> = self.pods.keys().filter(|uid| !uids.contains(*uid)).cloned().collect();
        for uid in gone {
            self.gone(&uid);
        }
    }

    /// How many pods hold something.
    pub fn holders(&self) -> usize {
        self.pods.len()
    }

    /// Of the GPUs of nodes whose names begin so: those of which something is held, those of which all memory or all compute is, and all.
    pub fn gpus(&self, nodes: &str) -> (usize, usize, usize) {
        let (mut used, mut full, mut all) = (0, 0, 0);
        for (node, gpus) in self.nodes.iter().filter(|(node, _)| node.starts_with(nodes)) {
            for (gpu, memory) in gpus {
                let held = self.held.get(&(node.clone(), gpu.clone())).copied().unwrap_or_default();
                used += usize::from(held != Amount::default());
                full += usize::from(held.memory >= *memory || held.compute >= 1000);
                all += 1;
            }
        }
        (used, full, all)
    }
}

#[cfg(test)]
mod tests {
    use super::PartsLedger;
    use serde_json::{Value, json};

    fn node() -> Value {
        let gpus = json!({"v": 1, "gpus": [{"uuid": "GPU-1", "product": "x", "memory": 1000}]});
        json!({"metadata": {"name": "a", "annotations": {"carve.dev/gpus": gpus.to_string()}}})
    }

    fn pod(uid: &str, gpu: &str, memory: u64, compute: u64) -> Value {
        let part = json!({"gpu": gpu, "memory": memory, "compute": compute});
        let slices = json!({"v": 1, "containers": [{"name": "main", "stage": "main", "slices": [part]}]});
        json!({
            "metadata": {"name": uid, "namespace": "n", "uid": uid, "annotations": {"carve.dev/slices": slices.to_string()}},
            "spec": {"nodeName": "a", "containers": [{"resources": {"limits": {"carve.dev/slice": "1"}}}]},
        })
    }

    #[test]
    fn too_much_of_anything_is_noticed() {
        let mut ledger = PartsLedger::default();
        ledger.node_seen(&node());
        assert_eq!(ledger.pod_seen(&pod("one", "GPU-1", 600, 300)), []);
        assert_eq!(ledger.pod_seen(&pod("one", "GPU-1", 600, 300)), [], "seen again");
        assert_eq!(ledger.pod_seen(&pod("two", "GPU-1", 400, 700)), []);
        assert_eq!(ledger.gpus("a"), (1, 1, 1));
        let said = |complaints: Vec<super::Complaint>| {
            complaints.first().map(|one| one.0.clone()).unwrap_or_default()
        };
        assert!(said(ledger.pod_seen(&pod("three", "GPU-1", 1, 0))).contains("given out twice"));
        ledger.pod_gone(&pod("three", "GPU-1", 1, 0));
        assert!(said(ledger.pod_seen(&pod("four", "GPU-1", 0, 1))).contains("given out twice"));
        assert!(said(ledger.pod_seen(&pod("five", "GPU-9", 1, 1))).contains("which a has not"));
        assert!(said(ledger.pod_seen(&pod("one", "GPU-1", 1, 1))).contains("has changed"));
        let mut without = pod("six", "GPU-1", 1, 1);
        without["metadata"]["annotations"] = json!({});
        assert!(said(ledger.pod_seen(&without)).contains("has no parts"));
    }

    #[test]
    fn what_is_over_or_gone_is_free_again() {
        let mut ledger = PartsLedger::default();
        ledger.node_seen(&node());
        ledger.pod_seen(&pod("one", "GPU-1", 1000, 1000));
        let mut over = pod("one", "GPU-1", 1000, 1000);
        over["status"] = json!({"phase": "Succeeded"});
        ledger.pod_seen(&over);
        assert_eq!(ledger.pod_seen(&pod("two", "GPU-1", 1000, 1000)), []);
        ledger.pods_listed(&Default::default());
        assert_eq!((ledger.holders(), ledger.gpus("a")), (0, (0, 0, 1)));
    }
}
