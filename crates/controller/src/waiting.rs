//! Pods that ask for GPUs and have no node: how many there are and how long the oldest waits, for whoever is to be woken.
//!
//! Every way of asking counts: pods that were admitted on a road, pods with devices of plugins, and pods with claims. Who is held back by a
//! scheduling gate waits for whoever put it there, and not for a GPU.

use crate::kubernetes::{Told, follow};
use crate::repartition::read;
use carve_admission::keys;
use carve_repartition::Seconds;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// Resources of device plugins that are GPUs or parts of them.
const PLUGIN: &str = "nvidia.com/";

/// Who waits, and on which road.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) namespace: String,
    /// `scheduler`, `claims` or `devices`.
    pub(crate) road: String,
}

/// All pods that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// By uid: whose it is, and since when it waits.
    pods: BTreeMap<String, (Group, Seconds)>,
}

impl Waiting {
    /// How many wait in each group, and how long the oldest of them has.
    pub(crate) fn groups(&self, now: Seconds) -> BTreeMap<Group, (u64, u64)> {
        let mut groups: BTreeMap<Group, (u64, u64)> = BTreeMap::new();
        for (group, since) in self.pods.values() {
            let (pods, oldest) = groups.entry(group.clone()).or_default();
            *pods += 1;
            *oldest = (*oldest).max(now.0.saturating_sub(since.0));
        }
        groups
    }

    pub(crate) fn seen(&mut self, pod: &Value) {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        match waits(pod) {
            Some(waiting) => drop(self.pods.insert(uid, waiting)),
            None => drop(self.pods.remove(&uid)),
        }
    }

    fn gone(&mut self, pod: &Value) {
        self.pods.remove(pod["metadata"]["uid"].as_str().unwrap_or_default());
    }

    fn listed(&mut self, pods: &[Value]) {
        let there: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["metadata"]["uid"].as_str()).collect();
        self.pods.retain(|uid, _| there.contains(uid.as_str()));
    }
}

/// Whose pod it is and since when it waits for a GPU, if it does.
pub(crate) fn waits(pod: &Value) -> Option<(Group, Seconds)> {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    let is_on_a_node = spec["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let is_held = spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    let is_over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if is_on_a_node || is_held || is_over || !metadata["deletionTimestamp"].is_null() {
        return None;
    }
    let group = Group {
        namespace: metadata["namespace"].as_str().unwrap_or_default().to_owned(),
        road: road(metadata, spec)?.to_owned(),
    };
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut refused =
        conditions.filter(|one| one["type"] == "PodScheduled" && one["reason"] == "Unschedulable");
    let since = refused.find_map(|one| read(one["lastTransitionTime"].as_str()?));
    let since = since.or_else(|| read(metadata["creationTimestamp"].as_str()?))?;
    Some((group, since))
}

/// The way in which a pod asks for GPUs, if it does.
fn road<'a>(metadata: &'a Value, spec: &Value) -> Option<&'a str> {
    if let Some(road) = metadata["labels"][keys::ADMITTED].as_str() {
        return Some(road);
    }
    if spec["resourceClaims"].as_array().is_some_and(|claims| !claims.is_empty()) {
        return Some("claims");
    }
    let containers = ["containers", "initContainers"].into_iter();
    let mut containers = containers.flat_map(|list| spec[list].as_array().into_iter().flatten());
    let asks = |container: &Value| {
        let limits = container["resources"]["limits"].as_object().into_iter().flatten();
        limits.into_iter().any(|(name, _)| name.starts_with(PLUGIN))
    };
    containers.any(asks).then_some("devices")
}

/// Keeps them known for as long as this runs. Only pods without a node are watched, which are few.
pub(crate) async fn follow_waiting(client: Client, waiting: &Mutex<Waiting>) {
    const PODS: Told<Waiting> = Told {
        asked: |_| {},
        seen: Waiting::seen,
        gone: Waiting::gone,
        listed: |waiting, pods| waiting.listed(pods),
    };
    let pods: Api<Pod> = Api::all(client);
    follow(pods, watcher::Config::default().fields("spec.nodeName="), waiting, PODS).await;
}

#[cfg(test)]
mod tests {
    use super::{Group, Waiting};
    use carve_repartition::Seconds;
    use serde_json::{Value, json};

    fn pod(uid: &str, labels: Value, spec: Value, since: Option<&str>) -> Value {
        let refused = since.map(|at| {
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": at})
        });
        json!({
            "metadata": {"uid": uid, "namespace": "team", "labels": labels, "creationTimestamp": "1970-01-01T00:01:00Z"},
            "spec": spec,
            "status": {"phase": "Pending", "conditions": refused.into_iter().collect::<Vec<_>>()},
        })
    }

    fn devices() -> Value {
        json!({"containers": [{"resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}]})
    }

    fn found(waiting: &Waiting) -> Vec<(String, u64, u64)> {
        let groups = waiting.groups(Seconds(200)).into_iter();
        groups.map(|(Group { road, .. }, (pods, oldest))| (road, pods, oldest)).collect()
    }

    #[test]
    fn every_way_of_asking_counts_and_nobody_else() {
        let mut waiting = Waiting::default();
        let none = json!({});
        waiting.seen(&pod("a", json!({"carve.dev/admitted": "scheduler"}), none.clone(), None));
        waiting.seen(&pod("b", none.clone(), devices(), Some("1970-01-01T00:02:00Z")));
        waiting.seen(&pod("c", none.clone(), devices(), Some("1970-01-01T00:03:00Z")));
        waiting.seen(&pod("d", none.clone(), json!({"resourceClaims": [{"name": "gpu"}]}), None));
        waiting.seen(&pod(
            "e",
            none.clone(),
            json!({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}),
            None,
        ));
        let mut held = devices();
        held["schedulingGates"] = json!([{"name": "queue"}]);
        waiting.seen(&pod("f", none, held, None));
        let expected = [("claims", 1, 140), ("devices", 2, 80), ("scheduler", 1, 140)];
        assert_eq!(found(&waiting), expected.map(|(road, pods, oldest)| (road.to_owned(), pods, oldest)));
    }

    #[test]
    fn who_has_a_node_or_is_gone_waits_no_longer() {
        let mut waiting = Waiting::default();
        for uid in ["a", "b", "c"] {
            waiting.seen(&pod(uid, json!({}), devices(), None));
        }
        let mut placed = devices();
        placed["nodeName"] = "node-1".into();
        waiting.seen(&pod("a", json!({}), placed, None));
        waiting.gone(&pod("b", json!({}), devices(), None));
        assert_eq!(found(&waiting), [("devices".to_owned(), 1, 140)]);
        waiting.listed(&[]);
        assert_eq!(found(&waiting), []);
    }
}
