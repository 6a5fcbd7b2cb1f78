//! What is known of pods where some stand in for others: what they want of a node, who waits, and who stands in for whom.

use super::objects::text;
use carve_karpenter::Amounts;
use carve_repartition::{Whereabouts, mig_wants};
use serde_json::Value;

/// Label of a stand-in: its policy.
pub(crate) const STAND_IN: &str = "carve.dev/stand-in";

/// A pod that has a node, or waits for one.
#[derive(Debug, Clone)]
pub(super) struct PodSeen {
    pub(super) name: String,
    pub(super) uid: String,
    /// Everything that it wants, in thousandths.
    pub(super) wants: Amounts,
    pub(super) whereabouts: Whereabouts,
    /// The node it was bound to.
    pub(super) node: Option<String>,
    /// Whether the scheduler says that it can not be placed.
    pub(super) waits: bool,
    /// The policy for which it asks for whole GPUs.
    pub(super) stands_in_for: Option<String>,
    /// Whether it is over; that is kept of stand-ins only, because somebody must take them away.
    pub(super) ended: bool,
}

/// What is kept of a pod. Stand-ins are in the controller's `own` namespace.
pub(super) fn pod_seen(pod: &Value, own: &str) -> Option<PodSeen> {
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let stands_in_for = pod["metadata"]["labels"][STAND_IN].as_str();
    let stands_in_for = stands_in_for.filter(|_| text(pod, "namespace") == own).map(str::to_owned);
    let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
    let going = !pod["metadata"]["deletionTimestamp"].is_null();
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let waits = node.is_none()
        && !going
        && conditions.any(|one| {
            one["type"] == "PodScheduled" && one["status"] == "False" && one["reason"] == "Unschedulable"
        });
    // Pods that are over have nothing, and those that wait for nobody's machine are none of ours.
    if stands_in_for.is_none() && (ended || node.is_none() && !waits) {
        return None;
    }
    let besides = carve_repartition::Amounts::asked_by(&pod["spec"]);
    let mut wants: Amounts = besides
        .iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|(name, amount)| (name.to_owned(), amount))
        .collect();
    let mig = mig_wants(&pod["spec"]).into_iter();
    wants.extend(mig.map(|(profile, count)| (format!("nvidia.com/mig-{profile}"), u64::from(count) * 1000)));
    Some(PodSeen {
        name: text(pod, "name").to_owned(),
        uid: text(pod, "uid").to_owned(),
        wants,
        whereabouts: Whereabouts::of(&pod["spec"]),
        node: node.map(str::to_owned),
        waits,
        stands_in_for,
        ended,
    })
}
