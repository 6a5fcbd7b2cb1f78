//! Workloads make pods: Deployments by ReplicaSets, StatefulSets, Jobs.

mod deployments;
mod jobs;
mod replicas;

use crate::happening::Teller;
use crate::objects::{is_ending, is_over, keeper, name_of, namespace_of, now, uid_of};
use carve_fleet_picture::Tone;
use carve_object_api::{Kind, ObjectApi, kind_named};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How soon a pod that was refused is tried again.
const AGAIN: i64 = 5_000;

/// A kind that is always there.
pub(crate) fn kind(name: &str) -> &'static Kind {
    kind_named(name).unwrap_or(&carve_object_api::KINDS[0])
}

/// Keeps workloads.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    /// Owners whose pods were refused, and until when they wait.
    refused: BTreeMap<String, i64>,
    /// Kinds that are not served and were said so.
    told: BTreeSet<String>,
}

/// Pods by the uid of their keeper.
type Owned = BTreeMap<String, Vec<Arc<Value>>>;

impl Workloads {
    /// Looks at all of them.
    pub(crate) async fn look(&mut self, api: &ObjectApi, teller: &Teller) {
        self.say_what_is_not_served(api, teller);
        let mut sets: Owned = BTreeMap::new();
        for set in api.list(kind("replicasets.apps"), None) {
            if let Some(owner) = keeper(&set) {
                let uid = owner["uid"].as_str().unwrap_or_default().to_owned();
                sets.entry(uid).or_default().push(Arc::clone(&set));
            }
        }
        for deployment in api.list(kind("deployments.apps"), None) {
            if !is_ending(&deployment) {
                let own = sets.remove(uid_of(&deployment)).unwrap_or_default();
                deployments::keep(api, &deployment, &own).await;
            }
        }
        let mut pods: Owned = BTreeMap::new();
        for pod in api.list(kind("pods"), None) {
            if let Some(owner) = keeper(&pod) {
                let uid = owner["uid"].as_str().unwrap_or_default().to_owned();
                pods.entry(uid).or_default().push(pod);
            }
        }
        for plural in ["replicasets.apps", "statefulsets.apps"] {
            for set in api.list(kind(plural), None) {
                let own = pods.remove(uid_of(&set)).unwrap_or_default();
                if !is_ending(&set) && self.may(&set) {
                    let kept = replicas::keep(api, kind(plural), &set, &own).await;
                    self.note(api, teller, &set, kept);
                }
            }
        }
        for job in api.list(kind("jobs.batch"), None) {
            let own = pods.remove(uid_of(&job)).unwrap_or_default();
            if !is_ending(&job) && self.may(&job) {
                let kept = jobs::keep(api, &job, &own).await;
                self.note(api, teller, &job, kept);
            }
        }
    }

    fn may(&self, owner: &Value) -> bool {
        self.refused.get(uid_of(owner)).is_none_or(|until| now() >= *until)
    }

    fn note(&mut self, api: &ObjectApi, teller: &Teller, owner: &Value, kept: Result<(), String>) {
        match kept {
            Ok(()) => drop(self.refused.remove(uid_of(owner))),
            Err(why) => {
                self.refused.insert(uid_of(owner).to_owned(), now() + AGAIN);
                teller.tell(
                    api,
                    owner,
                    Tone::Warning,
                    "FailedCreate",
                    &format!("a pod can not be made: {why}"),
                );
            }
        }
    }

    fn say_what_is_not_served(&mut self, api: &ObjectApi, teller: &Teller) {
        for plural in ["daemonsets.apps", "cronjobs.batch"] {
            for object in api.list(kind(plural), None) {
                if self.told.insert(uid_of(&object).to_owned()) {
                    let words = "carve up runs Pods, Deployments, ReplicaSets, StatefulSets and Jobs; of this kind it only keeps the object";
                    teller.tell(api, &object, Tone::Warning, "NotServed", words);
                }
            }
        }
    }
}

/// A pod after a template.
fn pod_of(owner: &Value, owner_kind: &Kind, template: &Value, more_labels: &Value) -> Value {
    let mut metadata = template["metadata"].clone();
    if !metadata.is_object() {
        metadata = json!({});
    }
    for (label, value) in more_labels.as_object().into_iter().flatten() {
        metadata["labels"][label.as_str()] = value.clone();
    }
    metadata["namespace"] = namespace_of(owner).into();
    metadata["ownerReferences"] = json!([{
        "apiVersion": owner_kind.api_version(), "kind": owner_kind.kind, "name": name_of(owner), "uid": uid_of(owner),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// Whether a pod counts as one of those that are wanted.
fn is_active(pod: &Value) -> bool {
    !is_over(pod) && !is_ending(pod)
}

fn is_ready(pod: &Value) -> bool {
    is_active(pod) && pod["status"]["phase"] == "Running"
}
