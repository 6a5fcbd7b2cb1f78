//! The picture at one moment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything there is to see.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Picture {
    /// Seconds since 1970.
    pub at: i64,
    /// By name.
    pub nodes: BTreeMap<String, NodePicture>,
    /// Pods that have no node, by `namespace/name`.
    pub waiting: BTreeMap<String, Waiting>,
    /// What has happened lately, the newest last.
    pub happenings: Vec<Happening>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePicture {
    /// What kind of machine it is: `p4d.24xlarge`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it answers.
    pub ready: bool,
    /// Why it does not, or what it is doing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Dollars of an hour, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dollars_per_hour: Option<f64>,
    /// Its GPUs, in the driver's order.
    pub gpus: Vec<GpuPicture>,
}

/// How a GPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GpuState {
    /// Well.
    #[default]
    Ok,
    /// Being cut anew.
    Cutting,
    /// Not given to anybody.
    Sick,
    /// Gone from the bus.
    Lost,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuPicture {
    /// Its id.
    pub uuid: String,
    /// Its place in the driver's order.
    pub index: u32,
    /// What the driver calls it.
    pub product: String,
    /// MiB there are.
    pub memory: u64,
    /// How it is.
    pub state: GpuState,
    /// Why it is not well, or what becomes of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Memory slots, where MIG divides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u8>,
    /// MIG instances, by their first slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Instance>,
    /// What containers have of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
    /// Part of its time in which it was busy, where somebody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// MiB in use.
    pub memory_used: u64,
}

/// A MIG instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its id, as containers see it.
    pub uuid: String,
    /// Its profile: `1g.5gb`.
    pub profile: String,
    /// Its first memory slot.
    pub start: u8,
    /// Its memory slots.
    pub size: u8,
    /// MiB of memory.
    pub memory: u64,
}

/// In which way a GPU, or a part of one, is shared.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Not at all.
    #[default]
    Exclusive,
    /// In turns.
    TimeSlicing,
    /// Together, through the multi-process service.
    Mps,
    /// As a device that MIG has cut.
    Mig,
    /// By a limiter in the container.
    Limiter,
}

/// How a figure is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The driver has said it of this container alone.
    Measured,
    /// The limiter has counted it.
    Limiter,
    /// What was used together is divided by what was promised.
    Quota,
    /// What was used together is divided evenly.
    Equal,
}

/// What a container has of a GPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// `namespace/name` of its pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// What made the pod: `Deployment/web`.
    pub workload: String,
    /// In which way it is shared.
    pub mechanism: Mechanism,
    /// The MIG instance that it is, or is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Part of the GPU's time that was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<f64>,
    /// MiB that were promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Part of the GPU's time that is used, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_used: Option<f64>,
    /// MiB that are used.
    pub memory_used: u64,
    /// How its use is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<Evidence>,
    /// Part of the time in which it was held back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled: f64,
    /// Since when, in seconds since 1970.
    pub since: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// A pod that has no node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// What made it.
    pub workload: String,
    /// What it asks for, in words.
    pub asks: String,
    /// Why it waits, in words.
    pub why: String,
    /// Since when, in seconds since 1970.
    pub since: i64,
}

/// Whether something is news or trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Tone {
    /// News.
    #[default]
    Normal,
    /// Trouble.
    Warning,
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Happening {
    /// Grows with every one.
    pub number: u64,
    /// When, in seconds since 1970.
    pub at: i64,
    /// Whether it is trouble.
    pub tone: Tone,
    /// What it is about: `node/p4d-1`, `pod/team/train`.
    pub about: String,
    /// One word: `Cut`, `FailedScheduling`.
    pub reason: String,
    /// In words.
    pub words: String,
}
