//! What is known of the cluster for provisioning: policies, Karpenter's objects, and nodes that it brought, as watches show them.

use crate::repartition::read;
use carve_formats::workloads::Quantity;
use carve_karpenter::{Compiled, HARDWARE_READY, NOT_READY, Refusal, compile};
use carve_repartition::Seconds;
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
}

impl NodeSeen {
    /// Its taints but for ours.
    pub(super) fn other_taints(&self) -> Vec<Value> {
        self.taints.iter().filter(|taint| taint["key"] != NOT_READY).cloned().collect()
    }
}

/// Kinds that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    Policies,
    Nodes,
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
    pub(super) pools: Seen,
    pub(super) overlays: Seen,
    listed: BTreeSet<Watched>,
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
            Watched::NodePools => self.pools.only(there),
            Watched::NodeOverlays => self.overlays.only(there),
        }
        self.listed.insert(kind);
    }

    /// Objects of a kind can not be had.
    pub(super) fn absent(&mut self, kind: Watched, why: String) {
        match kind {
            Watched::Policies | Watched::Nodes => {}
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
        let labels = texts(&node["metadata"]["labels"]);
        let Some(pool) = labels.get(NODE_POOL).cloned() else { return };
        let allocatable = node["status"]["allocatable"].as_object().into_iter().flatten();
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let hardware = conditions
            .find(|one| one["type"] == HARDWARE_READY)
            .map(|one| (one["reason"].as_str().unwrap_or_default().to_owned(), one["status"] == "True"));
        let seen = NodeSeen {
            uid: text(node, "uid").to_owned(),
            version: text(node, "resourceVersion").to_owned(),
            pool,
            labels,
            taints: node["spec"]["taints"].as_array().cloned().unwrap_or_default(),
            advertised: allocatable
                .filter(|(name, _)| name.contains('/'))
                .filter_map(|(name, value)| Some((name.clone(), amount(value)?)))
                .collect(),
            created: read(text(node, "creationTimestamp")).unwrap_or_default(),
            hardware,
        };
        self.nodes.insert(text(node, "name").to_owned(), seen);
    }
}
