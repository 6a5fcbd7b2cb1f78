//! `SlicePolicy`: which nodes divide their GPUs how, and within which bounds they are cut anew.

use crate::{Limits, Mig, Provision, Sharing};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How GPUs of some nodes are divided, what namespaces may ask for, and how much may change at once.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "carve.dev",
    version = "v1beta1",
    kind = "SlicePolicy",
    doc = "How the GPUs of some nodes are divided, what namespaces may ask for of them, and how much may change at once. An example, by which the nodes with the label pool=inference offer each GPU four times through MPS: {apiVersion: carve.dev/v1beta1, kind: SlicePolicy, metadata: {name: inference}, spec: {nodeSelector: {pool: inference}, sharing: {mechanism: MPS, replicas: 4}}}",
    plural = "slicepolicies",
    status = "SlicePolicyStatus",
    category = "carve",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Priority","type":"integer","jsonPath":".spec.priority"}"#,
    printcolumn = r#"{"name":"MIG","type":"string","jsonPath":".spec.mig.mode"}"#,
    printcolumn = r#"{"name":"Nodes","type":"integer","jsonPath":".status.nodes"}"#,
    printcolumn = r#"{"name":"Cutting","type":"integer","jsonPath":".status.cutting"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.defragmentation) || !self.defragmentation.enabled || self.budgets.podsEvictedAtOnce > 0",
        "message": "defragmentation moves pods by evicting them; say in budgets.podsEvictedAtOnce how many at once",
    },
    {
        "rule": "!has(self.defragmentation) || !self.defragmentation.enabled || (has(self.mig) && self.mig.mode in ['DryRun', 'Automatic'])",
        "message": "defragmentation is for GPUs that are cut on demand; write mig.mode DryRun or Automatic",
    },
    {
        "rule": "!has(self.provision) || (has(self.sharing) ? 1 : 0) + (has(self.provision.mig) ? 1 : 0) + (self.provision.parts ? 1 : 0) == 1",
        "message": "provision: say in one way how GPUs of new machines are cut: by sharing, provision.mig or provision.parts",
    },
]))]
pub struct SlicePolicySpec {
    /// For which nodes it is: those that have all these labels. Without any it is for every node. Where several policies are for a node, `priority` decides.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Of several policies for a node the one with the highest number counts, whole: nothing is mixed. Equal numbers are a conflict: none of them counts on such nodes, and
    /// the condition `Conflict` names the other one. Give the policy for every node a negative number, and special ones a higher.
    #[serde(default)]
    pub priority: i32,
    /// How GPUs of these nodes are offered several times through the device plugin, as `sharing` in a configuration of NVIDIA's device plugin says it. Without it each GPU is
    /// offered once. The label `nvidia.com/device-plugin.config` on a node wins over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    /// How GPUs of these nodes are cut by MIG. A label `nvidia.com/mig.config` on a node wins over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<Mig>,
    /// What pods of which namespaces may ask for, wherever they run; the first entry that fits a namespace counts, and of several policies with such an entry the one with the
    /// highest priority. Namespaces that nobody names may ask for everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub namespaces: Vec<NamespaceRules>,
    /// How much may change at once where GPUs are cut on demand.
    #[serde(default)]
    pub budgets: Budgets,
    /// Whether pods are moved so that others get in for which there is room, but not in one piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defragmentation: Option<Defragmentation>,
    /// Machines that Karpenter or the cluster autoscaler bring for pods that find no room, and that are cut as this policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provision: Option<Provision>,
}

/// What some namespaces may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.names) != has(self.selector)",
    "message": "write either names or a selector: one of them says which namespaces are meant",
}]))]
pub struct NamespaceRules {
    /// Names of namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub names: Vec<String>,
    /// Labels that a namespace must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<BTreeMap<String, String>>,
    /// What their pods may ask for.
    pub limits: Limits,
}

impl NamespaceRules {
    /// Whether a namespace is meant.
    pub fn fits(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        let selected = |selector: &BTreeMap<String, String>| {
            selector.iter().all(|(label, value)| labels.get(label) == Some(value))
        };
        self.names.iter().any(|known| known == name) || self.selector.as_ref().is_some_and(selected)
    }
}

/// What pods of a namespace may ask for: of all policies with an entry for it the one with the highest priority counts, and of equal ones the
/// first by name, so that there is always one answer.
pub fn limits_of<'a>(
    policies: impl IntoIterator<Item = (&'a str, &'a SlicePolicySpec)>,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> Option<&'a Limits> {
    let entry = |spec: &'a SlicePolicySpec| spec.namespaces.iter().find(|one| one.fits(namespace, labels));
    let fitting =
        policies.into_iter().filter_map(|(name, spec)| Some((spec.priority, name, &entry(spec)?.limits)));
    let best = fitting.min_by_key(|(priority, name, _)| (std::cmp::Reverse(*priority), *name));
    best.map(|(_, _, limits)| limits)
}

/// How much may change at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Budgets {
    /// Nodes that are cut at the same time.
    #[schemars(range(min = 1))]
    pub nodes_at_once: u32,
    /// Pods that are asked to go at the same time, by eviction, which their disruption budgets may refuse. For 0 nobody ever is.
    pub pods_evicted_at_once: u32,
    /// How long an instance stays after its GPU was cut, used or not. What only adds instances need not wait.
    pub pause_seconds: u32,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets { nodes_at_once: 1, pods_evicted_at_once: 0, pause_seconds: 60 }
    }
}

/// Room by moving pods. Only pods that somebody makes anew are moved, only where they have a place on the same node afterwards, and only for
/// pods of at least their priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Defragmentation {
    /// Whether pods are moved.
    pub enabled: bool,
    /// How many waiting pods must get in for each pod that moves.
    #[schemars(range(min = 1))]
    pub least_gain: u32,
}

impl Default for Defragmentation {
    fn default() -> Self {
        Defragmentation { enabled: false, least_gain: 1 }
    }
}

/// How a policy is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlicePolicyStatus {
    /// Which writing of the policy this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Nodes for which it counts.
    #[serde(default)]
    pub nodes: u32,
    /// Nodes that are being cut.
    #[serde(default)]
    pub cutting: u32,
    /// `Ready`: it is in force. `Conflict`: another policy of the same priority is for the same nodes. `Provisioned`: machines can come for
    /// it. `PromiseKept`: nodes of its machines offer what was promised of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Something that holds, or does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Since when.
    pub last_transition_time: String,
    /// Which writing of the object this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::{SlicePolicySpec, limits_of};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn policy(priority: i32, entry: Value, most: u32) -> SlicePolicySpec {
        let mut entry = entry;
        entry["limits"] = json!({"mostGpus": most});
        serde_json::from_value(json!({"priority": priority, "namespaces": [entry]})).expect("a policy")
    }

    #[test]
    fn the_highest_priority_that_means_a_namespace_counts() {
        let one = policy(0, json!({"names": ["team", "other"]}), 1);
        let two = policy(1, json!({"selector": {"tier": "gold"}}), 2);
        let three = policy(1, json!({"selector": {"tier": "gold"}}), 3);
        let all = [("z-three", &three), ("two", &two), ("one", &one)];
        let most = |namespace: &str, tier: &str| {
            let labels = BTreeMap::from([("tier".to_owned(), tier.to_owned())]);
            limits_of(all, namespace, &labels).and_then(|limits| limits.most_gpus)
        };
        assert_eq!(most("team", "none"), Some(1));
        assert_eq!(most("team", "gold"), Some(2), "of equal ones the first by name");
        assert_eq!(most("nobody", "none"), None);
    }
}
