//! From objects to what is to be done: which documents policies want, which of them are held back, and what is found of nodes.

use super::objects::{NodeSeen, Objects, PolicySeen};
use carve_karpenter::{Arrival, Compiled, Judgement, POLICY, ToldBy, Want, judge};
use carve_repartition::Seconds;
use carve_slice_policy::{Provision, ProvisionMode, Weights};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What policies want of Karpenter.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) wants: Vec<Want>,
    /// Policies of which nothing is touched.
    pub(super) held: BTreeSet<String>,
    /// Policies that may use weights of another one, which was there first.
    pub(super) overlapping: BTreeMap<String, String>,
}

/// A policy that wants machines and of which they can be told.
pub(super) fn understood(policy: &PolicySeen) -> Option<(&Provision, &Compiled)> {
    let compiled = policy.compiled.as_ref()?.as_ref().ok()?;
    let provision = policy.spec.provision.as_ref()?;
    (provision.mode != ProvisionMode::TagsOnly).then_some((provision, compiled))
}

/// What policies want of Karpenter.
pub(super) fn wanted(objects: &Objects) -> Wanted {
    let mut wanted = Wanted { held: objects.unread.clone(), ..Wanted::default() };
    let mut understood_ones = Vec::new();
    for (name, policy) in &objects.policies {
        if matches!(policy.compiled, Some(Err(_))) {
            wanted.held.insert(name.clone());
        }
        if let Some((provision, compiled)) = understood(policy) {
            let there = objects.pools.all().and_then(|pools| pools.get(name));
            let is_new = there.is_none_or(|pool| pool["metadata"]["labels"][POLICY] != name.as_str());
            understood_ones.push((is_new, name, provision, compiled));
        }
    }
    // Whoever has a pool already keeps its weights.
    understood_ones.sort_by_key(|(is_new, name, _, _)| (*is_new, *name));
    let mut bands: Vec<(&String, Weights)> = Vec::new();
    for (_, name, provision, compiled) in understood_ones {
        let documents: Vec<Value> = compiled.documents().cloned().collect();
        let want = Want { policy: name.clone(), documents, remove: provision.remove };
        // Without overlays there are no weights.
        if compiled.told_by.stand_ins() {
            wanted.wants.push(want);
            continue;
        }
        let overlaps = |(_, other): &&(&String, Weights)| {
            other.first <= provision.weights.last && provision.weights.first <= other.last
        };
        if let Some((other, _)) = bands.iter().find(overlaps) {
            wanted.overlapping.insert(name.clone(), (*other).clone());
            wanted.held.insert(name.clone());
            continue;
        }
        bands.push((name, provision.weights));
        wanted.wants.push(want);
    }
    wanted
}

/// Whether nodes with the name of a policy are its own: somebody else's NodePool may be called the same.
pub(super) fn is_ours(objects: &Objects, policy: &str, compiled: &Compiled) -> bool {
    let pool = || objects.pools.all()?.get(policy);
    compiled.told_by == ToldBy::StandInsOfGroups
        || pool().is_some_and(|pool| pool["metadata"]["labels"][POLICY] == policy)
}

/// What is found of nodes of the policies' pools, by name. `since` says when a node was first seen to be something else than was promised.
pub(super) fn judged(
    objects: &Objects,
    since: &BTreeMap<String, Seconds>,
    now: Seconds,
) -> BTreeMap<String, Judgement> {
    let one = |(name, node): (&String, &NodeSeen)| {
        let (provision, compiled) = understood(objects.policies.get(&node.pool)?)?;
        if !is_ours(objects, &node.pool, compiled) {
            return None;
        }
        let taints: Vec<String> =
            node.taints.iter().filter_map(|taint| taint["key"].as_str()).map(str::to_owned).collect();
        let arrival = Arrival {
            labels: &node.labels,
            taints: &taints,
            stage: node.stage(),
            advertised: &node.advertised,
            age: now.0.saturating_sub(node.created.0),
            broken_for: since.get(name).map_or(0, |since| now.0.saturating_sub(since.0)),
            condition: node.hardware.as_ref().map(|(reason, ready)| (reason.as_str(), *ready)),
        };
        Some((name.clone(), judge(compiled, arrival, u64::from(provision.ready_within_seconds))))
    };
    objects.nodes.iter().filter_map(one).collect()
}
