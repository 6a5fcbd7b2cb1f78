//! What is said of policies that want machines: whether these can come, and whether their nodes are what was promised.

use super::decide::Wanted;
use super::objects::{Objects, PolicySeen, Seen, text};
use crate::repartition::{read, written};
use carve_karpenter::{Judgement, Kind, POLICY, POOL, Steps, ToldBy};
use carve_repartition::Seconds;
use carve_slice_policy::{Condition, Provision, ProvisionMode};
use serde_json::Value;
use std::collections::BTreeMap;

/// Condition: machines can come.
pub(super) const PROVISIONED: &str = "Provisioned";
/// Condition: nodes of machines that have come offer what was promised of them.
pub(super) const PROMISE_KEPT: &str = "PromiseKept";
/// An overlay that nobody has looked at for so many seconds is looked at by nobody.
const IGNORED_AFTER: u64 = 60;
/// So many nodes are named.
const NAMED: usize = 3;

/// What is known when conditions are made.
pub(super) struct Known<'a> {
    pub(super) objects: &'a Objects,
    pub(super) wanted: &'a Wanted,
    pub(super) steps: &'a Steps,
    /// What could not be written, by policy.
    pub(super) failures: &'a BTreeMap<String, String>,
    pub(super) judged: &'a BTreeMap<String, Judgement>,
    /// Pods for which no machine is asked, by policy.
    pub(super) unserved: &'a BTreeMap<String, String>,
    pub(super) now: Seconds,
}

/// Whether it holds, why in a word, and why for people.
type Said = (bool, &'static str, String);

/// Our conditions of every policy of which something else is said.
pub(super) fn changed(known: &Known<'_>) -> Vec<(String, Vec<Condition>)> {
    let ours = |one: &&Condition| [PROVISIONED, PROMISE_KEPT].contains(&one.kind.as_str());
    let each = known.objects.policies.iter().map(|(name, policy)| {
        let said =
            [(PROVISIONED, provisioned(known, name, policy)), (PROMISE_KEPT, promise_kept(known, name))];
        let all = said.into_iter().filter_map(|(kind, said)| Some(condition(policy, kind, said?, known.now)));
        let there: Vec<Condition> = policy.conditions.iter().filter(ours).cloned().collect();
        (name.clone(), all.collect::<Vec<_>>(), there)
    });
    let sorted = |list: &[Condition]| {
        let mut list = list.to_vec();
        list.sort_by(|a, b| a.kind.cmp(&b.kind));
        list
    };
    each.filter(|(_, new, there)| sorted(new) != sorted(there)).map(|(name, new, _)| (name, new)).collect()
}

fn condition(policy: &PolicySeen, kind: &str, (holds, reason, message): Said, now: Seconds) -> Condition {
    let status = if holds { "True" } else { "False" }.to_owned();
    let before = policy.conditions.iter().find(|one| one.kind == kind && one.status == status);
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        last_transition_time: before.map_or_else(|| written(now), |one| one.last_transition_time.clone()),
        observed_generation: policy.generation,
    }
}

fn provisioned(known: &Known<'_>, name: &str, policy: &PolicySeen) -> Option<Said> {
    let no = |reason: &'static str, message: String| Some((false, reason, message));
    let Some(provision) = &policy.spec.provision else {
        let left = known.steps.left.iter().any(|pool| pool == name);
        let message =
            format!("its NodePool '{name}' is still there, because machines go with it; delete it by hand");
        return left.then_some((false, "PoolLeft", message));
    };
    if let Some(Err(refusal)) = &policy.compiled {
        return no("Refused", refusal.to_string());
    }
    if provision.mode == ProvisionMode::TagsOnly {
        let message =
            "nothing is made in the cluster; `carve karpenter tags` prints the tags of groups of machines";
        return Some((true, "TagsOnly", message.to_owned()));
    }
    if let Some(other) = known.wanted.overlapping.get(name) {
        let message = format!(
            "SlicePolicy '{other}' may use the same weights of NodeOverlays; write provision.weights in one of them"
        );
        return no("WeightsTaken", message);
    }
    let told_by = policy.compiled.as_ref()?.as_ref().ok()?.told_by;
    if told_by == ToldBy::StandInsOfGroups {
        let failed =
            known.failures.get(name).map(|why| (false, "NotWritten", format!("{why}; it is tried again")));
        let message = format!("stand-ins ask for whole GPUs on nodes with the label {POOL}={name}");
        return failed.or_else(|| Some((true, "Made", remarked(known, name, message))));
    }
    if let Seen::Absent(why) = &known.objects.pools {
        let message =
            format!("this cluster has no NodePools: {why}; install Karpenter, or write mode TagsOnly");
        return no("KarpenterMissing", message);
    }
    if let Seen::Absent(why) = &known.objects.overlays
        && !told_by.stand_ins()
    {
        let message = format!("this cluster has no NodeOverlays: {why}; bring Karpenter to 1.7 or later");
        return no("OverlaysMissing", message);
    }
    let steps = known.steps.policies.iter().find(|steps| steps.policy == name);
    if let Some(taken) = steps.and_then(|steps| steps.taken.first()) {
        let kind = if taken.kind == Kind::NodePool { "NodePool" } else { "NodeOverlay" };
        let message = format!(
            "{kind} '{}' is there and not carve's; delete it, or give the policy another name",
            taken.name
        );
        return no("NameTaken", message);
    }
    if let Some(why) = known.failures.get(name) {
        return no("NotWritten", format!("{why}; it is tried again"));
    }
    let overlays = if told_by.stand_ins() { None } else { overlays_said(known, name, provision) };
    overlays.or_else(|| pool_said(known, name, policy))
}

/// What Karpenter makes of the overlays, where it is not what it should be.
fn overlays_said(known: &Known<'_>, name: &str, provision: &Provision) -> Option<Said> {
    let all = known.objects.overlays.all()?;
    let band = provision.weights.first..=provision.weights.last;
    for (other, overlay) in all {
        let owner = overlay["metadata"]["labels"][POLICY].as_str();
        let weight = overlay["spec"]["weight"].as_u64().and_then(|weight| u16::try_from(weight).ok());
        if owner.is_none() && weight.is_some_and(|weight| band.contains(&weight)) {
            let message = format!(
                "NodeOverlay '{other}' is not carve's and has a weight between {} and {}; where both are about one machine, one counts for nothing",
                band.start(),
                band.end()
            );
            return Some((false, "WeightsTaken", message));
        }
    }
    let mine = all.iter().filter(|(_, overlay)| overlay["metadata"]["labels"][POLICY] == name);
    let mut waiting = None;
    for (overlay, object) in mine {
        match ready(object) {
            Ready::Yes => {}
            Ready::No(why) => {
                let message = format!("Karpenter does not use NodeOverlay '{overlay}': {why}");
                return Some((false, "OverlayRefused", message));
            }
            Ready::NotSaid => {
                let created = read(text(object, "creationTimestamp")).unwrap_or(known.now);
                let unseen = object["status"]["conditions"].as_array().is_none_or(Vec::is_empty);
                if unseen && known.now.0.saturating_sub(created.0) >= IGNORED_AFTER {
                    let message = format!(
                        "Karpenter does not look at NodeOverlay '{overlay}'; switch its gate on (FEATURE_GATES=NodeOverlay=true); until then a NodePool would bring too many machines, and none is made"
                    );
                    return Some((false, "OverlaysIgnored", message));
                }
                waiting = Some((
                    false,
                    "Waiting",
                    format!("Karpenter has not looked at NodeOverlay '{overlay}' yet"),
                ));
            }
        }
    }
    waiting
}

/// What Karpenter makes of the pool.
fn pool_said(known: &Known<'_>, name: &str, policy: &PolicySeen) -> Option<Said> {
    let compiled = policy.compiled.as_ref()?.as_ref().ok()?;
    let with = match compiled.told_by.stand_ins() {
        true => "is in use, and stand-ins ask for its machines".to_owned(),
        false => format!("and {} NodeOverlay(s) are in use", compiled.overlays.len()),
    };
    let Some(pool) = known.objects.pools.all()?.get(name) else {
        return Some((false, "Waiting", format!("NodePool '{name}' is not written yet")));
    };
    Some(match ready(pool) {
        Ready::Yes => (true, "Made", remarked(known, name, format!("NodePool '{name}' {with}"))),
        Ready::No(why) => {
            (false, "NodePoolNotReady", format!("Karpenter does not use NodePool '{name}': {why}"))
        }
        Ready::NotSaid => (false, "Waiting", format!("Karpenter has not looked at NodePool '{name}' yet")),
    })
}

/// With what is to be said of pods for which no machine is asked.
fn remarked(known: &Known<'_>, name: &str, message: String) -> String {
    match known.unserved.get(name) {
        Some(remark) => format!("{message}; {remark}"),
        None => message,
    }
}

/// Whether Karpenter uses everything that it was told for a policy.
pub(super) fn overlays_in_use(objects: &Objects, policy: &str) -> bool {
    let mine = |overlay: &&Value| overlay["metadata"]["labels"][POLICY] == policy;
    let all = objects.overlays.all();
    all.is_some_and(|all| all.values().filter(mine).all(|overlay| matches!(ready(overlay), Ready::Yes)))
}

enum Ready {
    Yes,
    No(String),
    NotSaid,
}

fn ready(object: &Value) -> Ready {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    match conditions.find(|one| one["type"] == "Ready") {
        Some(one) if one["status"] == "True" => Ready::Yes,
        Some(one) if one["status"] == "False" => {
            let word = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            Ready::No([word("reason"), word("message")].join(": "))
        }
        _ => Ready::NotSaid,
    }
}

fn promise_kept(known: &Known<'_>, name: &str) -> Option<Said> {
    let of_pool = |node: &&String| known.objects.nodes.get(*node).is_some_and(|node| node.pool == name);
    let nodes: Vec<(&String, &Judgement)> = known.judged.iter().filter(|(node, _)| of_pool(node)).collect();
    let count = nodes.len();
    let broken: Vec<String> = nodes
        .iter()
        .filter(|(_, judgement)| judgement.trouble)
        .map(|(node, judgement)| format!("{node} ({})", judgement.broken.as_deref().unwrap_or_default()))
        .collect();
    let coming = nodes.iter().filter(|(_, judgement)| judgement.broken.is_some()).count() - broken.len();
    if !broken.is_empty() {
        let named = broken.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
        let message = format!("{} of {count} node(s) do not offer what was promised: {named}", broken.len());
        return Some((false, "Broken", message));
    }
    if coming > 0 {
        return Some((false, "Coming", format!("{coming} of {count} node(s) are not ready yet")));
    }
    (count > 0).then(|| (true, "Kept", format!("{count} node(s) offer what was promised")))
}
