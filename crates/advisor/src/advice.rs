//! The advice itself, as it is printed and read again: evidence, rules, machines, money, files.

use crate::observed::Observed;
use serde::{Deserialize, Serialize};

/// What is advised for a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    /// `carve.dev/v1alpha1`.
    pub api_version: String,
    /// `Advice`.
    pub kind: String,
    /// Every workload on GPUs.
    pub workloads: Vec<WorkloadAdvice>,
    /// The machines.
    pub fleet: Fleet,
    /// What to apply.
    pub diffs: Vec<Diff>,
    /// What was left out, and what would tell more.
    pub notes: Vec<String>,
}

/// What an advice is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Basis {
    /// What was seen of the workload.
    Observed,
    /// What usually suits its class; nothing was seen of it.
    ClassDefault,
    /// Too little to say anything.
    Nothing,
}

/// Words, and the rule that they follow from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Short name of the rule; docs/design/advisor.md lists them.
    pub rule: String,
    /// What it says here.
    pub words: String,
}

/// What a workload should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Advised {
    /// Whether that is something else than it has.
    pub change: bool,
    /// `exclusive`, `MIG`, `MPS`, `limiter`, `time-slicing`, or `as it is`.
    pub mechanism: String,
    /// Whole GPUs of each pod, for whole ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u8>,
    /// The MIG profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Percent of a GPU's compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_percent: Option<u16>,
    /// Memory of each pod, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Pods that take turns on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// All of it in a few words.
    pub words: String,
}

/// Advice for one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAdvice {
    /// Namespace.
    pub namespace: String,
    /// Kind of what makes its pods.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its pods that run.
    pub pods: u32,
    /// Its pods that wait for a node, which are not planned.
    pub waiting: u32,
    /// What it asks for today.
    pub today: String,
    /// What was seen.
    pub observed: Option<Observed>,
    /// What the advice is based on.
    pub basis: Basis,
    /// What it should have.
    pub advised: Advised,
    /// Why.
    pub reasons: Vec<Reason>,
    /// What it can not have, and why.
    pub refused: Vec<Reason>,
    /// What can go wrong.
    pub risks: Vec<String>,
    /// What would bring it into a smaller part.
    pub remedies: Vec<Remedy>,
}

/// A change of the program or its model that makes it smaller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// `half precision`, …
    pub name: String,
    /// The arithmetic with what is known, or the formula with what is not.
    pub words: String,
    /// Whether the arithmetic shows that it is enough; unknown where facts are missing.
    pub enough: Option<bool>,
}

/// The machines now and then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// By type.
    pub machines: Vec<MachineRow>,
    /// Machines that stay, with what is on each.
    pub kept: Vec<NodeThen>,
    /// Machines that are not needed.
    pub freed: Vec<String>,
    /// The money.
    pub money: FleetMoney,
    /// Types that would do as well and cost less.
    pub cheaper: Vec<Cheaper>,
}

/// Machines of one type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineRow {
    /// The type.
    pub machine: String,
    /// GPUs of each.
    pub gpus: u8,
    /// `$0.752`, where known.
    pub price_per_hour: Option<String>,
    /// Who says so.
    pub price_source: Option<String>,
    /// How many there are.
    pub now: u32,
    /// How many are needed.
    pub then: u32,
}

/// A machine that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeThen {
    /// Its name.
    pub name: String,
    /// Its type.
    pub machine: String,
    /// Its GPUs; empty where it stays as it is.
    pub gpus: Vec<GpuThen>,
}

/// A GPU then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuThen {
    /// `exclusive`, `MIG`, `MPS`, `limiter`, `time-slicing`, or `free`.
    pub mechanism: String,
    /// The pods on it.
    pub parts: Vec<PartThen>,
}

/// A pod on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartThen {
    /// `NAMESPACE/KIND/NAME`.
    pub workload: String,
    /// The pod as it is called today.
    pub pod: String,
    /// The MIG profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Percent of compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_percent: Option<u16>,
    /// Memory it may have, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
}

/// Money in whole cents, half a cent up; what is saved is the difference of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetMoney {
    /// For how many hours.
    pub hours: u32,
    /// Now.
    pub now_cents: i64,
    /// Then.
    pub then_cents: i64,
    /// The difference, never below nothing.
    pub saved_cents: i64,
    /// How it is reckoned, line by line.
    pub arithmetic: Vec<String>,
    /// Machine types without a price, which are not in the sums.
    pub without_price: Vec<String>,
}

/// A type of machine that would do as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cheaper {
    /// Machines that stay by this advice.
    pub nodes: Vec<String>,
    /// Their type.
    pub from: String,
    /// The type that would do.
    pub to: String,
    /// What that saves beyond the rest, in the same hours.
    pub saved_cents: i64,
    /// Why it would do.
    pub words: String,
}

/// Something to apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// Name of the file.
    pub file: String,
    /// How it is applied.
    pub apply: String,
    /// What is in it.
    pub text: String,
}
