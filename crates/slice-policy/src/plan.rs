//! `SlicePlan`: what is to become of the GPUs of one node, for whom, and how far it is. One for each node; the next plan replaces it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is to become of the GPUs of a node. Written by the controller; its name is that of the node.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "carve.dev",
    version = "v1alpha1",
    kind = "SlicePlan",
    doc = "What is to become of the GPUs of a node, for which pods, and how far it is",
    plural = "sliceplans",
    status = "SlicePlanStatus",
    category = "carve",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".spec.node"}"#,
    printcolumn = r#"{"name":"Plan","type":"integer","jsonPath":".spec.generation"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Serves","type":"integer","jsonPath":".spec.servesCount"}"#,
    printcolumn = r#"{"name":"Evicts","type":"integer","jsonPath":".spec.evictsCount"}"#,
    printcolumn = r#"{"name":"Destroys","type":"integer","jsonPath":".spec.destroysCount"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct SlicePlanSpec {
    /// The node.
    pub node: String,
    /// Number of the plan; the agent carries out each number once, and a later one in place of an earlier one.
    #[schemars(range(min = 1))]
    pub generation: u64,
    /// The policy that allows it.
    pub policy: String,
    /// Whether it is only shown.
    #[serde(default)]
    pub dry_run: bool,
    /// GPUs that change.
    #[serde(default)]
    pub gpus: Vec<GpuLayout>,
    /// Pods that it is made for, as `namespace/name`. Who gets an instance in the end is the scheduler's choice.
    #[serde(default)]
    pub serves: Vec<String>,
    /// How many these are.
    #[serde(default)]
    pub serves_count: u32,
    /// Pods that are asked to go first, as `namespace/name`. There is room for them afterwards, and nobody else is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicts: Vec<String>,
    /// How many these are.
    #[serde(default)]
    pub evicts_count: u32,
    /// How many instances go.
    #[serde(default)]
    pub destroys_count: u32,
}

/// What a GPU is to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuLayout {
    /// The GPU.
    pub uuid: String,
    /// Its position on the node.
    pub index: u32,
    /// Everything it holds afterwards.
    pub layout: Vec<Instance>,
    /// What stays of it, as `profile@slot`.
    #[serde(default)]
    pub keeps: Vec<String>,
    /// What is made.
    #[serde(default)]
    pub creates: Vec<String>,
    /// What goes; nobody uses it.
    #[serde(default)]
    pub destroys: Vec<String>,
    /// Whether MIG mode is switched on first.
    #[serde(default)]
    pub switches_mode_on: bool,
}

/// A MIG instance at its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its profile: `1g.5gb`.
    pub profile: String,
    /// Its first memory slot.
    pub start: u8,
    /// Slices of its compute instances.
    pub compute: Vec<u8>,
}

/// How far a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// It is only shown.
    #[default]
    Proposed,
    /// The agent was told, or is about to be.
    Cutting,
    /// The GPUs are as it says.
    Done,
    /// They are not, and the message says why; it is tried again later if it is still needed.
    Failed,
    /// It was only shown, and nobody waits for it any more.
    Withdrawn,
}

/// How far a plan is, and what the node's GPUs went through before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlicePlanStatus {
    /// How far it is.
    pub phase: Phase,
    /// Number of the plan that this is about.
    #[serde(default)]
    pub observed_generation: u64,
    /// Why it is not further; what was done where it is.
    #[serde(default)]
    pub message: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended, well or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    /// Failures since the last plan that was carried out.
    #[serde(default)]
    pub failures: u32,
    /// When each GPU was cut last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recuts: Vec<LastRecut>,
}

/// When a GPU was cut last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastRecut {
    /// The GPU.
    pub uuid: String,
    /// When.
    pub at: String,
}
