//! How policies are: for how many nodes each counts, and which ones contradict each other.

use super::facts::rules;
use super::objects::{NodeSeen, Objects};
use super::told::ToldNode;
use super::written;
use carve_karpenter::Stage;
use carve_repartition::{Assigned, Rules, Seconds, assign};
use carve_slice_policy::{Condition, SlicePolicyStatus};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes whose agents are to be told something else than a policy told them before.
pub(super) fn configs(objects: &Objects) -> Vec<(String, ToldNode)> {
    let all: Vec<Rules> = objects.policies.iter().map(|(name, policy)| rules(name, &policy.spec)).collect();
    // Who brought the node counts on its whole GPUs; it is cut later.
    let whole =
        |node: &NodeSeen| node.taints.iter().any(|taint| Stage::keeps_whole(&taint.key, &taint.value));
    let wanted = |node: &NodeSeen| match assign(&all, &node.labels) {
        _ if whole(node) => ToldNode::default(),
        Assigned::To(rules) => {
            let policy = objects.policies.get(&rules.name);
            policy.map(|policy| ToldNode::by(&rules.name, &policy.spec)).unwrap_or_default()
        }
        Assigned::Nobody => ToldNode::default(),
        // Nothing is taken away or given while nobody knows which counts.
        Assigned::Conflict(_) => node.told.clone(),
    };
    let each = objects.nodes.iter().map(|(name, node)| (name, node, wanted(node)));
    each.filter(|(_, node, wanted)| node.told != *wanted)
        .map(|(name, _, wanted)| (name.clone(), wanted))
        .collect()
}

/// The status of every policy whose status is another one than it has.
pub(super) fn changed(objects: &Objects, now: Seconds) -> Vec<(String, SlicePolicyStatus)> {
    let all: Vec<Rules> = objects.policies.iter().map(|(name, policy)| rules(name, &policy.spec)).collect();
    let mut nodes: BTreeMap<&str, u32> = BTreeMap::new();
    let mut cutting: BTreeMap<&str, u32> = BTreeMap::new();
    let mut conflicts: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for (node, seen) in &objects.nodes {
        match assign(&all, &seen.labels) {
            Assigned::Nobody => {}
            Assigned::To(rules) => *nodes.entry(&rules.name).or_default() += 1,
            Assigned::Conflict(several) => {
                for one in &several {
                    let others = several.iter().filter(|other| other.name != one.name);
                    let pairs = others.map(|other| (other.name.as_str(), node.as_str()));
                    conflicts.entry(&one.name).or_default().extend(pairs);
                }
            }
        }
    }
    for plan in objects.plans.values().filter(|plan| plan.is_cutting()) {
        *cutting.entry(&plan.spec.policy).or_default() += 1;
    }
    let status = |name: &String, policy: &super::objects::PolicySeen| {
        let conflict = conflicts.get(name.as_str()).and_then(|pairs| pairs.first());
        let wrong = policy.spec.namespaces.iter().find_map(|one| one.limits.to_admission().err());
        let (ready, reason, message) = match (conflict, wrong) {
            (_, Some(why)) => (false, "Invalid", format!("limits of a namespace can not be used: {why}")),
            (Some((other, node)), None) => (
                false,
                "Conflict",
                format!(
                    "SlicePolicy '{other}' has the same priority and is for node {node} too; on such nodes neither counts"
                ),
            ),
            (None, None) => (true, "InForce", "it is in force".to_owned()),
        };
        let condition = |kind: &str, holds: bool| {
            let status = if holds { "True" } else { "False" }.to_owned();
            let before = policy.status.conditions.iter().find(|one| one.kind == kind && one.status == status);
            Condition {
                kind: kind.to_owned(),
                status,
                reason: reason.to_owned(),
                message: message.clone(),
                last_transition_time: before
                    .map_or_else(|| written(now), |before| before.last_transition_time.clone()),
                observed_generation: policy.generation,
            }
        };
        SlicePolicyStatus {
            observed_generation: policy.generation,
            nodes: nodes.get(name.as_str()).copied().unwrap_or(0),
            cutting: cutting.get(name.as_str()).copied().unwrap_or(0),
            conditions: vec![condition("Ready", ready), condition("Conflict", reason == "Conflict")],
        }
    };
    // What others say of it, such as whether machines can come, is theirs.
    let said = |status: &SlicePolicyStatus, new: &SlicePolicyStatus| {
        let ours = |one: &&Condition| new.conditions.iter().any(|other| other.kind == one.kind);
        SlicePolicyStatus {
            conditions: status.conditions.iter().filter(ours).cloned().collect(),
            ..status.clone()
        }
    };
    let each = objects.policies.iter().map(|(name, policy)| (name, policy, status(name, policy)));
    each.filter(|(_, policy, status)| said(&policy.status, status) != *status)
        .map(|(name, _, status)| (name.clone(), status))
        .collect()
}
