//! The scheduler's words, as its package `extender/v1` writes them: names of fields are capitalised, and what is empty may be null.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Null where a list or map is empty, as Go writes it.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A reason without percent signs: the scheduler takes what it tells in events for a format, and `40 %;` comes out as `40 %!;(MISSING)`.
fn in_words<S: Serializer>(reason: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&reason.replace('%', "percent"))
}

/// The same for each node.
fn each_in_words<S: Serializer>(reasons: &BTreeMap<String, String>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(reasons.iter().map(|(node, reason)| (node, reason.replace('%', "percent"))))
}

/// What is read of a pod. The rest of it is of no interest here.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Who it is.
    pub metadata: Metadata,
    /// What it says of itself.
    pub spec: PodSpec,
}

/// What is read of a pod's metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
    /// Its annotations.
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
}

/// What is read of a pod's spec.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct PodSpec {
    /// Its priority.
    pub priority: Option<i32>,
}

/// Asked by filter and prioritize. Nodes come by name alone (`nodeCacheCapable`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Args {
    /// The pod to be placed.
    pub pod: Pod,
    /// The nodes in question; null where the scheduler was told to send whole nodes.
    pub node_names: Option<Vec<String>>,
}

/// Answered to filter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult {
    /// Nodes on which it fits.
    pub node_names: Vec<String>,
    /// Nodes on which it would fit if somebody went, and why not now.
    #[serde(serialize_with = "each_in_words")]
    pub failed_nodes: BTreeMap<String, String>,
    /// Nodes on which it would not.
    #[serde(serialize_with = "each_in_words")]
    pub failed_and_unresolvable_nodes: BTreeMap<String, String>,
    /// Why nothing can be said.
    #[serde(serialize_with = "in_words")]
    pub error: String,
}

/// Answered to prioritize, for each node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostPriority {
    /// The node.
    pub host: String,
    /// Zero to ten.
    pub score: u8,
}

/// A pod by its uid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MetaPod {
    /// The uid.
    #[serde(rename = "UID")]
    pub uid: String,
}

/// Who has to go from a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MetaVictims {
    /// The pods.
    #[serde(deserialize_with = "or_default")]
    pub pods: Vec<MetaPod>,
    /// Disruption budgets that this breaks.
    #[serde(rename = "NumPDBViolations")]
    pub broken_budgets: i64,
}

/// Asked by preempt.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionArgs {
    /// The pod to be placed.
    pub pod: Pod,
    /// Nodes and who would go there already.
    #[serde(deserialize_with = "or_default")]
    pub node_name_to_meta_victims: BTreeMap<String, MetaVictims>,
}

/// Answered to preempt: nodes that remain, and everybody who has to go there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionResult {
    /// The nodes.
    pub node_name_to_meta_victims: BTreeMap<String, MetaVictims>,
}

/// Asked by bind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindingArgs {
    /// The pod's name.
    pub pod_name: String,
    /// Its namespace.
    pub pod_namespace: String,
    /// Its uid.
    #[serde(rename = "PodUID")]
    pub pod_uid: String,
    /// Where to.
    pub node: String,
}

/// Answered to bind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindingResult {
    /// Why it was not bound; empty where it was.
    #[serde(serialize_with = "in_words")]
    pub error: String,
}
