//! What is known of the cluster for MIG: nodes, pods that ask for MIG devices, policies and plans, as watches show them.

use super::read;
use super::told::ToldNode;
use carve_repartition::{Amounts, NodeReport, Order, Seconds, Taint, Whereabouts, mig_wants, taints_of};
use carve_slice_policy::{
    MigMode, Phase, SlicePlanSpec, SlicePlanStatus, SlicePolicySpec, SlicePolicyStatus,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A node.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeSeen {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    /// What pods may ask for besides GPUs.
    pub(super) allocatable: Option<Amounts>,
    pub(super) ready: bool,
    pub(super) report: Option<NodeReport>,
    pub(super) order: Option<Order>,
    /// What a policy has told its agent.
    pub(super) told: ToldNode,
}

/// A pod that asks for MIG devices and has not ended.
#[derive(Debug, Clone)]
pub(super) struct PodSeen {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) wants: BTreeMap<String, u32>,
    pub(super) besides: Amounts,
    pub(super) whereabouts: Whereabouts,
    pub(super) priority: i32,
    /// Whether somebody makes it anew when it is evicted.
    pub(super) comes_back: bool,
    /// The node it was bound to.
    pub(super) node: Option<String>,
    /// Since when the scheduler says that it can not be placed.
    pub(super) since: Option<Seconds>,
}

/// A policy.
#[derive(Debug, Clone)]
pub(super) struct PolicySeen {
    pub(super) generation: Option<i64>,
    pub(super) spec: SlicePolicySpec,
    pub(super) status: SlicePolicyStatus,
}

/// The plan of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct PlanSeen {
    pub(super) spec: SlicePlanSpec,
    pub(super) status: SlicePlanStatus,
}

impl PlanSeen {
    /// Later states of a plan are larger. What was written a moment ago is not undone by a watch that is behind.
    fn age(&self) -> (u64, u64, bool) {
        let over = !matches!(self.status.phase, Phase::Proposed | Phase::Cutting);
        (self.spec.generation, self.status.observed_generation, over)
    }

    /// Whether its agent still has to answer.
    pub(super) fn is_cutting(&self) -> bool {
        !self.spec.dry_run
            && (self.status.phase == Phase::Cutting || self.status.observed_generation < self.spec.generation)
    }
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) nodes: BTreeMap<String, NodeSeen>,
    /// By uid.
    pub(super) pods: BTreeMap<String, PodSeen>,
    pub(super) policies: BTreeMap<String, PolicySeen>,
    pub(super) plans: BTreeMap<String, PlanSeen>,
    /// What every pod on a node, whatever it is, has of it besides GPUs, by node and uid.
    used: BTreeMap<String, BTreeMap<String, Amounts>>,
    /// Kinds of which everything was seen once.
    listed: BTreeSet<&'static str>,
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let each = value.as_object().into_iter().flatten();
    each.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

impl Objects {
    /// Whether everything was seen once that matters. Before that nothing may be decided.
    pub(super) fn is_known(&self) -> bool {
        let seen = |kind: &&str| self.listed.contains(kind) || *kind == "pods" && !self.is_anything_cut();
        ["nodes", "pods", "policies", "plans"].iter().all(seen)
    }

    /// Whether a policy wants GPUs cut, or shown how they would be, or a plan is under way.
    pub(super) fn is_anything_cut(&self) -> bool {
        let cuts =
            |policy: &PolicySeen| policy.spec.mig.as_ref().is_some_and(|mig| mig.mode != MigMode::Manual);
        self.policies.values().any(cuts) || self.plans.values().any(PlanSeen::is_cutting)
    }

    /// All objects of a kind were listed: these are there, by name or by uid, and no others.
    pub(super) fn listed(&mut self, kind: &'static str, there: &BTreeSet<String>) {
        match kind {
            "nodes" => self.nodes.retain(|name, _| there.contains(name)),
            "pods" => {
                self.pods.retain(|uid, _| there.contains(uid));
                self.used.values_mut().for_each(|used| used.retain(|uid, _| there.contains(uid)));
            }
            "policies" => self.policies.retain(|name, _| there.contains(name)),
            _ => self.plans.retain(|name, _| there.contains(name)),
        }
        self.listed.insert(kind);
    }

    /// A pod has nothing of a node any more.
    fn unused(&mut self, node: &str, uid: &str) {
        if let Some(used) = self.used.get_mut(node) {
            used.remove(uid);
            if used.is_empty() {
                self.used.remove(node);
            }
        }
    }

    /// What a node has left besides GPUs.
    pub(super) fn left(&self, name: &str, node: &NodeSeen) -> Option<Amounts> {
        let mut left = node.allocatable.clone()?;
        self.used.get(name).into_iter().flat_map(BTreeMap::values).for_each(|used| left.take(used));
        Some(left)
    }

    pub(super) fn node_seen(&mut self, node: &Value) {
        let name = text(node, "name");
        let annotations = texts(&node["metadata"]["annotations"]);
        let warn =
            |error: &dyn std::fmt::Display| tracing::warn!(node = name, %error, "its GPUs are not cut");
        let report = annotations.get(NodeReport::ANNOTATION).map(|text| NodeReport::parse(text));
        let order = annotations.get(Order::ANNOTATION).map(|text| Order::parse(text));
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|one| one["type"] == "Ready");
        let seen = NodeSeen {
            labels: texts(&node["metadata"]["labels"]),
            taints: taints_of(node),
            allocatable: Some(&node["status"]["allocatable"])
                .filter(|list| list.is_object())
                .map(Amounts::of),
            ready: ready.any(|one| one["status"] == "True") && node["spec"]["unschedulable"] != true,
            report: report.and_then(|report| report.inspect_err(|error| warn(error)).ok()),
            told: ToldNode::of(&annotations),
            order: order.and_then(|order| order.inspect_err(|error| warn(error)).ok()),
        };
        self.nodes.insert(name.to_owned(), seen);
    }

    pub(super) fn pod_seen(&mut self, pod: &Value) {
        let uid = text(pod, "uid").to_owned();
        let wants = mig_wants(&pod["spec"]);
        let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let going = !pod["metadata"]["deletionTimestamp"].is_null();
        let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
        let besides = Amounts::asked_by(&pod["spec"]);
        if let Some(node) = node {
            if ended {
                self.unused(node, &uid);
            } else {
                self.used.entry(node.to_owned()).or_default().insert(uid.clone(), besides.clone());
            }
        }
        // One that goes and runs nowhere waits for nothing.
        if wants.is_empty() || ended || going && node.is_none() {
            self.pods.remove(&uid);
            return;
        }
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut unplaced = conditions.filter(|one| {
            one["type"] == "PodScheduled" && one["status"] == "False" && one["reason"] == "Unschedulable"
        });
        let since = unplaced.find_map(|one| read(one["lastTransitionTime"].as_str()?));
        let owners = pod["metadata"]["ownerReferences"].as_array();
        let priority = pod["spec"]["priority"].as_i64().and_then(|one| i32::try_from(one).ok());
        let seen = PodSeen {
            namespace: text(pod, "namespace").to_owned(),
            name: text(pod, "name").to_owned(),
            uid: uid.clone(),
            wants,
            besides,
            whereabouts: Whereabouts::of(&pod["spec"]),
            priority: priority.unwrap_or(0),
            comes_back: owners.is_some_and(|owners| owners.iter().any(|one| one["controller"] == true)),
            node: node.map(str::to_owned),
            since,
        };
        self.pods.insert(uid, seen);
    }

    pub(super) fn policy_seen(&mut self, policy: &Value) {
        let name = text(policy, "name").to_owned();
        let spec = match serde_json::from_value(policy["spec"].clone()) {
            Ok(spec) => spec,
            Err(error) => {
                tracing::warn!(policy = name, %error, "it does not read, and does not count");
                self.policies.remove(&name);
                return;
            }
        };
        let status = serde_json::from_value(policy["status"].clone()).unwrap_or_default();
        let generation = policy["metadata"]["generation"].as_i64();
        self.policies.insert(name, PolicySeen { generation, spec, status });
    }

    pub(super) fn plan_seen(&mut self, plan: &Value) {
        let name = text(plan, "name").to_owned();
        let spec = match serde_json::from_value(plan["spec"].clone()) {
            Ok(spec) => spec,
            Err(error) => return tracing::warn!(plan = name, %error, "it does not read, and does not count"),
        };
        let status = serde_json::from_value(plan["status"].clone()).unwrap_or_default();
        let seen = PlanSeen { spec, status };
        if self.plans.get(&name).is_none_or(|known| known.age() <= seen.age()) {
            self.plans.insert(name, seen);
        }
    }

    /// An object of a kind is gone.
    pub(super) fn gone(&mut self, kind: &'static str, object: &Value) {
        let name = text(object, "name");
        match kind {
            // Its pods go by themselves, or are there when it comes back.
            "nodes" => drop(self.nodes.remove(name)),
            "pods" => {
                let uid = text(object, "uid");
                self.pods.remove(uid);
                self.unused(object["spec"]["nodeName"].as_str().unwrap_or_default(), uid);
            }
            "policies" => drop(self.policies.remove(name)),
            _ => drop(self.plans.remove(name)),
        }
    }
}
