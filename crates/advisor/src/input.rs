//! What advice is made from: machines, workloads on them, and what was seen of those.

use crate::class::Class;
use crate::observed::Ratio;
use carve_economics::{Hours, Price};
use carve_gpu_model::{Bytes, Isolation, Mebibytes, Mechanism, Mechanisms, Product};
use carve_study::Study;
use serde::{Deserialize, Serialize};

/// A cluster as it is.
#[derive(Debug, Clone, Default)]
pub struct Situation {
    /// Machines with GPUs.
    pub nodes: Vec<Node>,
    /// What runs on their GPUs.
    pub workloads: Vec<Workload>,
    /// What else runs on them.
    pub beside: Vec<Beside>,
    /// What was left out when the cluster was read, and why.
    pub notes: Vec<String>,
}

/// A machine with GPUs.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its type as its cloud calls it; empty where unknown.
    pub machine: String,
    /// Its GPUs, where carve knows the product.
    pub product: Option<&'static Product>,
    /// How many.
    pub gpus: u8,
    /// CPU that pods may have, in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory that pods may have.
    pub memory: Mebibytes,
    /// What it costs.
    pub price: Option<Price>,
    /// Whether it takes no new pods.
    pub cordoned: bool,
}

/// Pods without GPUs on a machine with GPUs; they need a place, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// `NAMESPACE/POD`.
    pub pod: String,
    /// Where it is.
    pub node: String,
    /// Whether every node has one, so that it goes with its node.
    pub every_node: bool,
    /// CPU, in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory.
    pub memory: Mebibytes,
}

/// Pods that are made alike.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Namespace.
    pub namespace: String,
    /// Kind of what makes the pods; `Pod` where nothing does.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The container that asks for the GPU.
    pub container: String,
    /// Resource names by which it asks today.
    pub resources: Vec<String>,
    /// What it asks for today, in words.
    pub today: String,
    /// Whole GPUs that each pod has; none where it has a part.
    pub whole_gpus: Option<u8>,
    /// Its pods.
    pub replicas: Vec<Replica>,
    /// Pods that wait for a node; they are told and not planned.
    pub waiting: u32,
    /// Who may share a GPU with it by means that trust each other.
    pub domain: String,
    /// What must not reach it from its neighbours.
    pub isolation: Isolation,
    /// The mechanism it names.
    pub named: Option<Mechanism>,
    /// What kind of work it is, where it says so.
    pub class: Option<Class>,
    /// Whether somebody waits for each answer, where it says so.
    pub latency_sensitive: Option<bool>,
    /// Facts of the model it runs, where it says so.
    pub model: ModelFacts,
    /// CPU of each pod, in thousandths of a core.
    pub cpu_milli: u64,
    /// Memory of each pod.
    pub memory: Mebibytes,
}

impl Workload {
    /// `NAMESPACE/KIND/NAME`.
    pub fn title(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.kind, self.name)
    }

    /// Whether somebody waits for each answer: as it says, else as its class usually is, else yes.
    pub fn is_sensitive(&self) -> bool {
        self.latency_sensitive.unwrap_or_else(|| self.class.is_none_or(Class::is_sensitive))
    }
}

/// One pod and what was seen of it.
#[derive(Debug, Clone, Default)]
pub struct Replica {
    /// Its name.
    pub pod: String,
    /// The machine it is on.
    pub node: String,
    /// GPUs it was seen on, by UUID.
    pub gpus: Vec<String>,
    /// Which part of the time its GPU was busy with it, by time.
    pub busy: Vec<Sample<Ratio>>,
    /// Memory it had, by time.
    pub memory: Vec<Sample<Bytes>>,
    /// How that is known.
    pub evidence: Option<Evidence>,
}

/// A value at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<T> {
    /// Seconds since 1970; none where nobody noted when.
    pub at: Option<i64>,
    /// The value.
    pub value: T,
}

/// How figures of a replica are known, from the best to the worst.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Evidence {
    /// Our own count for the container, with the way in which it was attributed.
    Own(String),
    /// DCGM's figure for the whole GPU, which the pod had for itself.
    Device(String),
    /// DCGM's figure for a GPU of which the pod is the only one on its machine.
    OnlyOneThere(String),
}

/// How numbers of a model are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dtype {
    /// Four bytes.
    Fp32,
    /// Two bytes.
    Fp16,
    /// Two bytes.
    Bf16,
    /// One byte.
    Int8,
    /// Half a byte.
    Int4,
}

impl Dtype {
    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Dtype::Fp32 => "fp32",
            Dtype::Fp16 => "fp16",
            Dtype::Bf16 => "bf16",
            Dtype::Int8 => "int8",
            Dtype::Int4 => "int4",
        }
    }

    /// The one of this name.
    pub fn named(word: &str) -> Option<Dtype> {
        [Dtype::Fp32, Dtype::Fp16, Dtype::Bf16, Dtype::Int8, Dtype::Int4]
            .into_iter()
            .find(|one| one.word() == word)
    }

    /// Bits of one number.
    pub const fn bits(self) -> u64 {
        match self {
            Dtype::Fp32 => 32,
            Dtype::Fp16 | Dtype::Bf16 => 16,
            Dtype::Int8 => 8,
            Dtype::Int4 => 4,
        }
    }
}

/// What a workload says of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelFacts {
    /// Parameters.
    pub parameters: Option<u64>,
    /// How they are kept.
    pub dtype: Option<Dtype>,
    /// Whether it is a transformer, where it says so.
    pub transformer: Option<bool>,
}

/// Who may share a GPU by means that do not keep strangers apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Domains {
    /// Pods of one namespace, or of one tenant where pods name theirs.
    #[default]
    Namespaces,
    /// All pods of the cluster.
    Cluster,
}

/// By what advice is made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long money is told for.
    pub hours: Hours,
    /// The least time that must have been watched, in seconds.
    pub window: i64,
    /// The least number of samples.
    pub samples: usize,
    /// Memory beyond the peak seen, in percent of it.
    pub margin_percent: u64,
    /// What the cluster has beside whole GPUs.
    pub mechanisms: Mechanisms,
    /// What was measured of ways to share on a card of the cluster.
    pub study: Option<Study>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            hours: Hours(720),
            window: 24 * 3600,
            samples: 20,
            margin_percent: 10,
            mechanisms: Mechanisms::ANY.without(Mechanism::Limiter),
            study: None,
        }
    }
}
