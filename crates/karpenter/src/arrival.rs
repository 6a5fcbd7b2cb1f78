//! Whether a node of a pool is what was promised of it, and what follows: pods are let in, or people and Karpenter's repair are told.

use crate::{Broken, Compiled, NOT_READY, POOL, Stage};
use std::collections::BTreeMap;

/// Condition of a Node that Karpenter's node repair looks at.
pub const HARDWARE_READY: &str = "AcceleratedHardwareReady";
/// Reason of the condition where a node is what was promised.
pub const KEPT: &str = "PromiseKept";
/// Reason of the condition where it is not.
pub const BROKEN: &str = "PromiseBroken";
/// For so many seconds a node may have lost what it advertised: kubelet forgets devices when it or their plugin starts anew.
pub const LOST_AFTER: u64 = 60;

/// A node of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Keys of its taints.
    pub taints: &'a [String],
    /// How far it is on its way to be cut, where that has its time.
    pub stage: Option<Stage>,
    /// What pods may have of it.
    pub advertised: &'a BTreeMap<String, u64>,
    /// Seconds since it was made.
    pub age: u64,
    /// Seconds since it was first seen to be something else than was promised, as far as anybody has looked.
    pub broken_for: u64,
    /// What its condition says: the reason, and whether it holds.
    pub condition: Option<(&'a str, bool)>,
}

/// What the condition of a node is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardwareReady {
    /// Whether it holds.
    pub ready: bool,
    /// Why.
    pub message: String,
}

/// What is found of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judgement {
    /// Whether the taint goes.
    pub let_in: bool,
    /// What it lacks, or has too much of, in words; nothing where the promise is kept.
    pub broken: Option<String>,
    /// Whether that is worth telling: a node that has just come, and says nothing yet, is not in trouble.
    pub trouble: bool,
    /// What its condition is to say, where it says something else or nothing.
    pub condition: Option<HardwareReady>,
}

/// What is to be made of a node of a pool that may take so many seconds until it is ready.
pub fn judge(pool: &Compiled, node: Arrival<'_>, ready_within: u64) -> Judgement {
    let held_back = node.taints.iter().any(|key| key == NOT_READY);
    // Karpenter puts its taints on a node when it registers it: one that is taken off earlier comes back.
    let registered = node.labels.get("karpenter.sh/registered").is_some_and(|value| value == "true")
        || node.labels.contains_key(POOL);
    let to_be_cut = matches!(node.stage, Some(Stage::Whole | Stage::Emptying));
    let Some(broken) = broken(pool, node) else {
        return Judgement {
            let_in: held_back && registered && !to_be_cut,
            condition: condition(node, true, "it advertises what was promised of it"),
            ..Judgement::default()
        };
    };
    let is_new = held_back || !registered;
    let late = if is_new { node.age >= ready_within } else { node.broken_for >= LOST_AFTER };
    let says_something = pool
        .promise_for(node.labels)
        .is_none_or(|promise| promise.capacity().keys().any(|name| amount(node, name) > 0));
    let message = if is_new {
        format!("{broken}; pods with parts of GPUs are kept off it by the taint {NOT_READY}")
    } else {
        format!("{broken}; it was what was promised before")
    };
    Judgement {
        let_in: false,
        // What has whole GPUs until it is cut does as it should.
        trouble: late || is_new && says_something && node.stage.is_none(),
        condition: if late { condition(node, false, &message) } else { None },
        broken: Some(broken),
    }
}

fn amount(node: Arrival<'_>, resource: &str) -> u64 {
    node.advertised.get(resource).copied().unwrap_or(0)
}

/// Where the promise is not kept, in words.
fn broken(pool: &Compiled, node: Arrival<'_>) -> Option<String> {
    let Some(promise) = pool.promise_for(node.labels) else {
        let machine = node.labels.get("node.kubernetes.io/instance-type").map_or("unknown", String::as_str);
        return Some(format!("nothing was promised of its type of machine, {machine}"));
    };
    let broken = promise.broken_by(node.advertised);
    let texts: Vec<String> = broken.iter().map(Broken::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// The condition, unless it says so already or is somebody else's: who also watches over GPUs would write it anew, and so would we.
fn condition(node: Arrival<'_>, ready: bool, message: &str) -> Option<HardwareReady> {
    let wanted = HardwareReady { ready, message: message.to_owned() };
    match node.condition {
        None => Some(wanted),
        Some((KEPT | BROKEN, said)) => (said != ready).then_some(wanted),
        Some(_) => None,
    }
}
