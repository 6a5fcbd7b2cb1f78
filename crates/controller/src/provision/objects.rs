//! What is known of the cluster for provisioning: policies, Karpenter's objects, and nodes that it brought, as watches show them.

use super::pods::{PodSeen, pod_seen};
use crate::repartition::read;
use carve_formats::workloads::Quantity;
use carve_karpenter::{Compiled, HARDWARE_READY, NOT_READY, POOL, Refusal, Stage, compile};
use carve_repartition::{Amounts, Seconds};
use carve_slice_policy::{Condition, SlicePolicySpec, SlicePolicyStatus, in_words_of_policy};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Label of nodes: the NodePool that they were brought for.
pub(super) const NODE_POOL: &str = "karpenter.sh/nodepool";

/// Objects of a kind that the cluster may not know.
#[derive(Debug, Clone, Default)]
pub(super) enum Seen {
    /// Nobody knows yet.
    #[default]
    NotYet,
    /// They can not be had, and this is why.
    Absent(String),
    /// These, by name.
    All(BTreeMap<String, Value>),
}

impl Seen {
    pub(super) fn all(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            Seen::All(all) => Some(all),
            Seen::NotYet | Seen::Absent(_) => None,
        }
    }

    pub(super) fn put(&mut self, object: Value) {
        if !matches!(self, Seen::All(_)) {
            *self = Seen::All(BTreeMap::new());
        }
        if let Seen::All(all) = self {
            all.insert(text(&object, "name").to_owned(), object);
        }
    }

    fn remove(&mut self, name: &str) {
        if let Seen::All(all) = self {
            all.remove(name);
        }
    }

    fn only(&mut self, there: &BTreeSet<String>) {
        match self {
            Seen::All(all) => all.retain(|name, _| there.contains(name)),
            Seen::NotYet | Seen::Absent(_) => *self = Seen::All(BTreeMap::new()),
        }
    }
}

/// A policy.
#[derive(Debug, Clone)]
pub(super) struct PolicySeen {
    pub(super) generation: Option<i64>,
    pub(super) spec: SlicePolicySpec,
    /// What is made of it, if it wants machines.
    pub(super) compiled: Option<Result<Compiled, Refusal>>,
    /// Everything that is said of it.
    pub(super) conditions: Vec<Condition>,
}

/// A node of a NodePool.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeSeen {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) pool: String,
    pub(super) labels: BTreeMap<String, String>,
    /// As they are written.
    pub(super) taints: Vec<Value>,
    pub(super) advertised: BTreeMap<String, u64>,
    pub(super) created: Seconds,
    /// What is said of its hardware: the reason, and whether it is ready.
    pub(super) hardware: Option<(String, bool)>,
    /// Everything that pods may have of it.
    pub(super) allocatable: Amounts,
    pub(super) ready: bool,
    /// Whether it takes no more pods: it is on its way out.
    pub(super) going: bool,
}

impl NodeSeen {
    /// Its taints but for ours.
    pub(super) fn other_taints(&self) -> Vec<Value> {
        self.taints.iter().filter(|taint| taint["key"] != NOT_READY).cloned().collect()
    }

    /// How far it is on its way to be cut, where that has its time.
    pub(super) fn stage(&self) -> Option<Stage> {
        Stage::of(&self.taints)
    }

    /// Its taints with another stage.
    pub(super) fn taints_at(&self, stage: Stage) -> Vec<Value> {
        let mut taints = self.other_taints();
        taints.push(stage.taint());
        taints
    }
}

/// Kinds that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    Policies,
    Nodes,
    Pods,
    NodePools,
    NodeOverlays,
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) policies: BTreeMap<String, PolicySeen>,
    /// Policies of which nobody knows what they want.
    pub(super) unread: BTreeSet<String>,
    pub(super) nodes: BTreeMap<String, NodeSeen>,
    /// Pods that have a node, or wait for one, by namespace and name; known where a policy wants stand-ins.
    pub(super) pods: BTreeMap<String, PodSeen>,
    pub(super) pools: Seen,
    pub(super) overlays: Seen,
    listed: BTreeSet<Watched>,
    /// Where stand-ins are.
    namespace: String,
}

pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn amount(value: &Value) -> Option<u64> {
    value.as_str()?.parse::<Quantity>().ok()?.whole()
}

impl Objects {
    /// Nothing yet, for a controller in this namespace.
    pub(super) fn of(namespace: &str) -> Self {
        Objects { namespace: namespace.to_owned(), ..Objects::default() }
    }

    /// Whether a policy wants stand-ins, or did and some are left.
    pub(super) fn has_stand_ins(&self) -> bool {
        let wants =
            |policy: &PolicySeen| matches!(&policy.compiled, Some(Ok(made)) if made.told_by.stand_ins());
        self.policies.values().any(wants) || self.pods.values().any(|pod| pod.stands_in_for.is_some())
    }

    /// Whether all pods were seen once. Before that nobody knows which stand-ins there are.
    pub(super) fn knows_pods(&self) -> bool {
        self.listed.contains(&Watched::Pods)
    }

    /// Whether enough was seen to decide anything.
    pub(super) fn is_known(&self) -> bool {
        [Watched::Policies, Watched::Nodes].iter().all(|kind| self.listed.contains(kind))
            && ![&self.pools, &self.overlays].iter().any(|seen| matches!(seen, Seen::NotYet))
    }

    /// An object is there, or has changed.
    pub(super) fn seen(&mut self, kind: Watched, object: Value) {
        match kind {
            Watched::Policies => self.policy_seen(&object),
            Watched::Nodes => self.node_seen(&object),
            Watched::Pods => {
                let name = format!("{}/{}", text(&object, "namespace"), text(&object, "name"));
                match pod_seen(&object, &self.namespace) {
                    Some(pod) => drop(self.pods.insert(name, pod)),
                    None => drop(self.pods.remove(&name)),
                }
            }
            Watched::NodePools => self.pools.put(object),
            Watched::NodeOverlays => self.overlays.put(object),
        }
    }

    /// An object is gone.
    pub(super) fn gone(&mut self, kind: Watched, name: &str) {
        match kind {
            Watched::Policies => {
                self.policies.remove(name);
                self.unread.remove(name);
            }
            Watched::Nodes => drop(self.nodes.remove(name)),
            Watched::Pods => drop(self.pods.remove(name)),
            Watched::NodePools => self.pools.remove(name),
            Watched::NodeOverlays => self.overlays.remove(name),
        }
    }

    /// All objects of a kind were listed: these are there and no others.
    pub(super) fn listed(&mut self, kind: Watched, there: &BTreeSet<String>) {
        match kind {
            Watched::Policies => {
                self.policies.retain(|name, _| there.contains(name));
                self.unread.retain(|name| there.contains(name));
            }
            Watched::Nodes => self.nodes.retain(|name, _| there.contains(name)),
            Watched::Pods => self.pods.retain(|name, _| there.contains(name)),
            Watched::NodePools => self.pools.only(there),
            Watched::NodeOverlays => self.overlays.only(there),
        }
        self.listed.insert(kind);
    }

    /// Objects of a kind can not be had.
    pub(super) fn absent(&mut self, kind: Watched, why: String) {
        match kind {
            Watched::Policies | Watched::Nodes | Watched::Pods => {}
            Watched::NodePools => self.pools = Seen::Absent(why),
            Watched::NodeOverlays => self.overlays = Seen::Absent(why),
        }
    }

    fn policy_seen(&mut self, policy: &Value) {
        let name = text(policy, "name").to_owned();
        let spec: SlicePolicySpec = match serde_json::from_value(policy["spec"].clone()) {
            Ok(spec) => spec,
            Err(error) => {
                tracing::warn!(policy = name, %error, "it does not read; what is there stays as it is");
                self.policies.remove(&name);
                self.unread.insert(name);
                return;
            }
        };
        self.unread.remove(&name);
        let generation = policy["metadata"]["generation"].as_i64();
        let same = self.policies.get(&name).filter(|known| known.spec == spec);
        let compiled = match same {
            Some(known) => known.compiled.clone(),
            None => spec.pool(&name).map(|pool| pool.and_then(|pool| compile(&pool))),
        };
        let compiled = compiled.map(|result| result.map_err(in_words_of_policy));
        let status: SlicePolicyStatus = serde_json::from_value(policy["status"].clone()).unwrap_or_default();
        self.policies.insert(name, PolicySeen { generation, spec, compiled, conditions: status.conditions });
    }

    fn node_seen(&mut self, node: &Value) {
        let mut labels = texts(&node["metadata"]["labels"]);
        let Some(pool) = labels.get(NODE_POOL).or_else(|| labels.get(POOL)).cloned() else {
            self.nodes.remove(text(node, "name"));
            return;
        };
        // Kinds of machines are told apart by Karpenter's words, whoever brought them.
        labels.entry(NODE_POOL.to_owned()).or_insert_with(|| pool.clone());
        let allocatable = node["status"]["allocatable"].as_object().into_iter().flatten();
        let condition = |kind: &str| {
            let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
            conditions.find(|one| one["type"] == kind)
        };
        let hardware = condition(HARDWARE_READY)
            .map(|one| (one["reason"].as_str().unwrap_or_default().to_owned(), one["status"] == "True"));
        // What was written a moment ago is not undone by a watch that is behind.
        let number = |version: &str| version.parse::<u64>().ok();
        let behind = |known: &NodeSeen| {
            let versions = number(&known.version).zip(number(text(node, "resourceVersion")));
            known.uid == text(node, "uid") && versions.is_some_and(|(known, new)| new < known)
        };
        if self.nodes.get(text(node, "name")).is_some_and(behind) {
            return;
        }
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let seen = NodeSeen {
            uid: text(node, "uid").to_owned(),
            version: text(node, "resourceVersion").to_owned(),
            pool,
            labels,
            taints: taints.clone(),
            advertised: allocatable
                .filter(|(name, _)| name.contains('/'))
                .filter_map(|(name, value)| Some((name.clone(), amount(value)?)))
                .collect(),
            created: read(text(node, "creationTimestamp")).unwrap_or_default(),
            hardware,
            allocatable: Amounts::of(&node["status"]["allocatable"]),
            ready: condition("Ready").is_some_and(|one| one["status"] == "True"),
            going: !node["metadata"]["deletionTimestamp"].is_null()
                || node["spec"]["unschedulable"] == true
                || taints.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted"),
        };
        self.nodes.insert(text(node, "name").to_owned(), seen);
    }
}
