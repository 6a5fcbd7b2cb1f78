//! From objects to words. Nothing here asks anybody anything.

use super::devices::why_not;
use super::left::{Left, part_words};
use crate::cluster::Cluster;
use carve_admission::keys;
use carve_bookings::Slices;
use carve_extender::{Asked, filter};
use carve_formats::workloads::{MIG_RESOURCE, dialect_of_resource};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that is looked at.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The pod.
    pub pod: Value,
    /// What was told about it.
    pub events: Vec<Value>,
    /// All nodes.
    pub nodes: Vec<Value>,
    /// All pods.
    pub pods: Vec<Value>,
    /// ResourceClaims: of all namespaces, or of the pod's where others may not be seen.
    pub claims: Vec<Value>,
    /// ResourceSlices.
    pub slices: Vec<Value>,
    /// SlicePlans.
    pub plans: Vec<Value>,
    /// Who leads among the controllers; nothing where there is none.
    pub leader: Option<String>,
    /// Whether the API server asks the controller about pods.
    pub registered: bool,
}

/// A line of the story: what it is about, and the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is about; empty where it goes on.
    pub about: &'static str,
    /// The words.
    pub words: String,
}

/// What there is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// In one sentence.
    pub headline: String,
    /// What it is made of.
    pub lines: Vec<Line>,
}

impl Story {
    fn say(&mut self, about: &'static str, words: impl Into<String>) {
        self.lines.push(Line { about, words: words.into() });
    }
}

pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A condition of a pod.
fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = pod["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// What a pod asks for in all its containers, by resource.
fn requests(pod: &Value) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        let resources = &container["resources"];
        let amounts = resources["requests"].as_object().or(resources["limits"].as_object());
        for (name, amount) in amounts.into_iter().flatten() {
            let amount = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            let Ok(amount) = amount.parse::<carve_formats::workloads::Quantity>() else { continue };
            *sums.entry(name.clone()).or_insert(0) += amount.whole().unwrap_or(0);
        }
    }
    sums
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// The story of a pod.
pub fn story(evidence: &Evidence) -> Story {
    let pod = &evidence.pod;
    let name = format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
    let node = text(pod, "/spec/nodeName");
    let phase = text(pod, "/status/phase");
    let headline = match (node, phase) {
        ("", _) => format!("{name} waits for a node."),
        (node, "Running") => format!("{name} runs on {node}."),
        (node, "Succeeded") => format!("{name} has ended well, on {node}."),
        (node, "Failed") => format!("{name} has failed, on {node}."),
        (node, _) => format!("{name} is being started on {node}."),
    };
    let mut story = Story { headline, lines: Vec::new() };
    let understood = text(pod, "/metadata/annotations/carve.dev~1understood-as");
    if !understood.is_empty() {
        story.say("asks for", understood);
    }
    match text(pod, "/metadata/labels/carve.dev~1admitted") {
        "scheduler" => on_the_scheduler_road(evidence, &mut story),
        "claims" => on_the_claims_road(evidence, &mut story),
        _ => not_admitted(evidence, &mut story),
    }
    of_the_start(evidence, &mut story);
    last_events(evidence, &mut story);
    story
}

/// What the scheduler says of a pod that waits.
fn scheduler_says(pod: &Value, story: &mut Story) {
    if let Some(found) = condition(pod, "PodScheduled").filter(|found| found["status"] == "False") {
        let message = text(found, "/message");
        let message = if message.is_empty() { text(found, "/reason") } else { message };
        story.say("scheduler says", message);
    }
    for gate in pod["spec"]["schedulingGates"].as_array().into_iter().flatten() {
        story.say("held by", format!("scheduling gate {}", text(gate, "/name")));
    }
}

fn controller_says(evidence: &Evidence, story: &mut Story) {
    match (&evidence.leader, evidence.registered) {
        (Some(leader), true) => story.say("controller", format!("{leader} leads")),
        (Some(leader), false) => story.say(
            "controller",
            format!("{leader} leads, but the API server does not ask it about pods: the webhook configurations 'carve' are missing"),
        ),
        (None, _) => story.say("controller", "nobody leads: is carve's controller running? Nothing is placed without it"),
    }
}

fn on_the_scheduler_road(evidence: &Evidence, story: &mut Story) {
    let pod = &evidence.pod;
    let mut cluster = Cluster::default();
    evidence.nodes.iter().for_each(|node| cluster.node_seen(node));
    let held = |pod: &&Value| pod["metadata"]["annotations"][keys::SLICES].is_string();
    evidence.pods.iter().filter(held).for_each(|pod| cluster.pod_seen(pod));
    let left = Left::of(cluster.book());
    let node = text(pod, "/spec/nodeName");
    if !node.is_empty() {
        match Slices::from_annotation(text(pod, "/metadata/annotations/carve.dev~1slices")) {
            Ok(slices) => {
                let ended = has_ended(pod);
                for (container, slice) in slices.parts() {
                    let words = format!("{container}: {}", part_words(slice));
                    let gpu = left.gpu(node, &slice.gpu);
                    story.say(if ended { "had" } else { "has" }, format!("{words} of {}", gpu.shown));
                    if !ended {
                        story.say("", format!("beside it {} and {} are free", gpu.memory, gpu.compute));
                    }
                }
            }
            Err(_) => {
                story.say("has", "nothing that is written down: it was bound by somebody else than carve")
            }
        }
        return;
    }
    story.say("placed by", format!("{}, which asks carve's controller", text(pod, "/spec/schedulerName")));
    controller_says(evidence, story);
    match serde_json::from_value(pod.clone()).map(|wire| Asked::of(&wire)) {
        Ok(Ok(asked)) => {
            let names: Vec<String> =
                evidence.nodes.iter().map(|node| text(node, "/metadata/name").to_owned()).collect();
            let found = filter(cluster.book(), &names, &asked);
            let mut reasons: BTreeMap<&String, usize> = BTreeMap::new();
            for reason in found.failed_nodes.values().chain(found.failed_and_unresolvable_nodes.values()) {
                *reasons.entry(reason).or_default() += 1;
            }
            if !found.node_names.is_empty() {
                let some: Vec<&str> = found.node_names.iter().take(3).map(String::as_str).collect();
                let more = found.node_names.len().saturating_sub(some.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                story.say("would fit", format!("on {}{more}, as far as GPUs go", some.join(", ")));
            }
            for (reason, count) in reasons {
                story.say(
                    "does not fit",
                    format!("on {count} node{}: {reason}", if count == 1 { "" } else { "s" }),
                );
            }
            if found.node_names.is_empty()
                && let Some(most) = left.most()
            {
                story.say("most left", most);
            }
        }
        Ok(Err(error)) => story.say("can not be placed", error.to_string()),
        Err(error) => story.say("can not be read", error.to_string()),
    }
    scheduler_says(pod, story);
}

fn on_the_claims_road(evidence: &Evidence, story: &mut Story) {
    let pod = &evidence.pod;
    let mut waiting = false;
    let named: BTreeMap<&str, &str> = pod["status"]["resourceClaimStatuses"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| (text(one, "/name"), text(one, "/resourceClaimName")))
        .collect();
    for entry in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
        let claim = named.get(text(entry, "/name")).copied().unwrap_or_default();
        let is_it = |one: &&Value| {
            let metadata = &one["metadata"];
            metadata["name"] == claim && metadata["namespace"] == pod["metadata"]["namespace"]
        };
        let Some(claim) = evidence.claims.iter().find(is_it) else {
            let template = text(entry, "/resourceClaimTemplateName");
            story.say("claim", format!("none was made of the ResourceClaimTemplate {template} yet"));
            waiting = true;
            continue;
        };
        let results =
            claim["status"]["allocation"]["devices"]["results"].as_array().cloned().unwrap_or_default();
        if results.is_empty() {
            story.say("claim", format!("{}: nothing is allocated yet", text(claim, "/metadata/name")));
            for (about, words) in why_not(claim, &evidence.slices, &evidence.claims) {
                story.say(about, words);
            }
            waiting = true;
        }
        for result in results {
            let taken = result["consumedCapacity"].as_object().into_iter().flatten();
            let taken: Vec<String> = taken
                .map(|(name, amount)| format!("{name} {}", amount.as_str().unwrap_or_default()))
                .collect();
            let of = format!("{} of {}", text(&result, "/device"), text(&result, "/pool"));
            let taken = if taken.is_empty() { String::new() } else { format!(", {}", taken.join(", ")) };
            story.say("has", format!("{of}{taken}"));
        }
    }
    if text(pod, "/spec/nodeName").is_empty() || waiting {
        scheduler_says(pod, story);
    }
}

/// A pod that carve did not admit.
fn not_admitted(evidence: &Evidence, story: &mut Story) {
    let pod = &evidence.pod;
    let asked = requests(pod);
    let gpus: Vec<(&String, u64)> = asked
        .iter()
        .filter(|(name, _)| dialect_of_resource(name).is_some())
        .map(|(name, amount)| (name, *amount))
        .collect();
    if gpus.is_empty() {
        story.say("asks for", "no GPU, in no words that carve knows");
        scheduler_says(pod, story);
        return;
    }
    let parts = gpus.iter().any(|(name, _)| {
        let of_nodes = name.as_str() == "nvidia.com/gpu"
            || name.as_str() == "nvidia.com/gpu.shared"
            || name.starts_with(MIG_RESOURCE);
        !of_nodes
    });
    if parts {
        story.say("not admitted", "it asks for parts of GPUs and was created while carve's webhook was away, or in a namespace that is left out; create it again");
        controller_says(evidence, story);
        return;
    }
    for (name, amount) in &gpus {
        story.say("asks for", format!("{name}: {amount}, which is the device plugin's to give"));
        if text(pod, "/spec/nodeName").is_empty() {
            story.say("", free_of(evidence, name, *amount));
        }
    }
    for plan in &evidence.plans {
        let me = format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        let served = plan["spec"]["serves"].as_array().into_iter().flatten();
        if served.into_iter().any(|one| one.as_str() == Some(me.as_str())) {
            let (name, node) = (text(plan, "/metadata/name"), text(plan, "/spec/node"));
            let (phase, message) = (text(plan, "/status/phase"), text(plan, "/status/message"));
            let phase = if phase.is_empty() { "not begun" } else { phase };
            story.say(
                "planned for",
                format!("SlicePlan {name} cuts {node} for it: {phase}. {message}").trim_end().to_owned(),
            );
        }
    }
    scheduler_says(pod, story);
}

/// Where so many of a resource are free.
fn free_of(evidence: &Evidence, resource: &str, wanted: u64) -> String {
    let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
    for pod in evidence.pods.iter().filter(|pod| !has_ended(pod)) {
        let node = text(pod, "/spec/nodeName");
        if let Some(amount) = requests(pod).get(resource).filter(|_| !node.is_empty()) {
            *taken.entry(node).or_default() += amount;
        }
    }
    let (mut nodes, mut all, mut free, mut enough) = (0, 0, 0, BTreeSet::new());
    for node in &evidence.nodes {
        let amount = node["status"]["allocatable"][resource]
            .as_str()
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0);
        if amount == 0 {
            continue;
        }
        let name = text(node, "/metadata/name");
        let left = amount.saturating_sub(taken.get(name).copied().unwrap_or(0));
        (nodes, all, free) = (nodes + 1, all + amount, free + left);
        if left >= wanted {
            enough.insert(name);
        }
    }
    match (nodes, enough.first()) {
        (0, _) => format!("no node offers {resource}"),
        (_, None) => format!("{free} of {all} are free on {nodes} nodes, and no node has {wanted} of them"),
        (_, Some(first)) => format!("{free} of {all} are free on {nodes} nodes; {first} has enough"),
    }
}

/// Why a pod that has a node does not run.
fn of_the_start(evidence: &Evidence, story: &mut Story) {
    let status = &evidence.pod["status"];
    for list in ["initContainerStatuses", "containerStatuses"] {
        for container in status[list].as_array().into_iter().flatten() {
            let waiting = &container["state"]["waiting"];
            if waiting.is_object() {
                let words = [text(waiting, "/reason"), text(waiting, "/message")];
                let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
                story.say("not started", format!("{}: {}", text(container, "/name"), words.join(": ")));
            }
        }
    }
    let message = text(&evidence.pod, "/status/message");
    if !message.is_empty() {
        story.say("kubelet says", message);
    }
}

/// The last warnings; the scheduler's own stand elsewhere.
fn last_events(evidence: &Evidence, story: &mut Story) {
    let at = |event: &Value| {
        let last = text(event, "/lastTimestamp");
        if last.is_empty() { text(event, "/eventTime").to_owned() } else { last.to_owned() }
    };
    let told = |event: &&Value| event["type"] == "Warning" && event["reason"] != "FailedScheduling";
    let mut warnings: Vec<&Value> = evidence.events.iter().filter(told).collect();
    warnings.sort_by_key(|event| at(event));
    for event in warnings.iter().rev().take(3).rev() {
        story.say("warning", format!("{}: {}", text(event, "/reason"), text(event, "/message").trim()));
    }
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;
