//! What agents and the controller say to each other, in two annotations of the Node.
//!
//! The agent's: what its GPUs hold, who uses it, and what became of the last order. The controller's: an order with a number and the whole
//! layout of every GPU that changes. A layout leaves no choice open, so an order that arrives late does no harm: what is in use
//! by then is not destroyed, and the order has failed.

use carve_gpu_model::{GpuUuid, ProfileName, ProfileTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// What the agent of a node reports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// GPUs that can be cut and answer.
    pub gpus: Vec<GpuReport>,
    /// What each product can be cut into, as its driver says.
    pub tables: BTreeMap<String, ProfileTable>,
    /// The config that a person asks for; such a node takes no orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<String>,
    /// What became of the last order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderReport>,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuReport {
    /// Its identity.
    pub uuid: GpuUuid,
    /// Its position on the node.
    pub index: u32,
    /// Its product: a key of the tables.
    pub product: String,
    /// Whether MIG is on.
    pub mig: bool,
    /// Whether somebody uses it as a whole.
    #[serde(default)]
    pub held: bool,
    /// What it is cut into.
    #[serde(default)]
    pub instances: Vec<InstanceReport>,
}

/// One instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceReport {
    /// What it is.
    #[serde(flatten)]
    pub instance: Instance,
    /// Whether anybody uses it: a pod, or a program that no pod owns.
    #[serde(default)]
    pub held: bool,
    /// Pods that hold it, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
}

/// An instance at its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its profile.
    #[serde(with = "as_text")]
    pub profile: ProfileName,
    /// Its first memory slot.
    pub start: u8,
    /// Slices of its compute instances, large to small.
    pub compute: Vec<u8>,
}

/// A profile as people write it.
mod as_text {
    use carve_gpu_model::ProfileName;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(name: &ProfileName, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(name)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ProfileName, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderReport {
    /// Its number.
    pub generation: u64,
    /// How far it is.
    pub state: OrderState,
    /// Why it is not further; what was done where it is.
    #[serde(default)]
    pub message: String,
}

/// How far an order is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OrderState {
    /// The agent is at it.
    Pending,
    /// The GPUs are as it says.
    Done,
    /// They are not, and this order is not tried again.
    Failed,
}

/// What the controller orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Its number; higher ones come later.
    pub generation: u64,
    /// Everything that each GPU is to hold; other GPUs stay as they are.
    pub gpus: BTreeMap<GpuUuid, Vec<Instance>>,
    /// Pods that are asked to go first, as `namespace/name`; nobody else is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evict: Vec<String>,
}

/// An annotation that does not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("annotation {annotation} does not read: {why}")]
pub struct WireError {
    /// Which.
    pub annotation: &'static str,
    /// Why.
    pub why: String,
}

impl NodeReport {
    /// The annotation that agents write.
    pub const ANNOTATION: &str = "carve.dev/mig.gpus";

    /// As it is written.
    pub fn to_text(&self) -> String {
        // Numbers, texts and maps with text keys can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As it is read.
    pub fn parse(text: &str) -> Result<Self, WireError> {
        let wrong = |why: String| WireError { annotation: Self::ANNOTATION, why };
        let report: NodeReport = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        match report.gpus.iter().find(|gpu| !report.tables.contains_key(&gpu.product)) {
            Some(gpu) => Err(wrong(format!("it has no table for '{}' of {}", gpu.product, gpu.uuid))),
            None => Ok(report),
        }
    }
}

impl Order {
    /// The annotation that the controller writes.
    pub const ANNOTATION: &str = "carve.dev/mig.plan";

    /// As it is written.
    pub fn to_text(&self) -> String {
        // Numbers, texts and maps with text keys can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As it is read.
    pub fn parse(text: &str) -> Result<Self, WireError> {
        let wrong = |why: String| WireError { annotation: Self::ANNOTATION, why };
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))
    }
}
