//! What a workload asks for, whatever dialect it was written in.

use carve_gpu_model::{Mebibytes, Mechanisms};
use std::fmt;

/// Thousandths of a GPU's compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GpuMilli(pub u16);

/// A whole GPU.
pub const WHOLE: GpuMilli = GpuMilli(1000);

/// Thousandths of a CPU core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuMilli(pub u64);

impl CpuMilli {
    /// The same in cores.
    pub fn cores(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl fmt::Display for CpuMilli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cores", self.cores())
    }
}

/// A GPU model, by its number in the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(pub u8);

/// A set of GPU models; a fleet has at most 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Models(u64);

impl Models {
    /// Every model there is, and every model to come.
    pub const ANY: Models = Models(u64::MAX);
    /// No model at all: nothing of the fleet will do.
    pub const NONE: Models = Models(0);

    /// The set with one more model.
    #[must_use]
    pub fn with(self, model: ModelId) -> Self {
        Models(self.0 | 1 << model.0)
    }

    /// Whether a model is in the set.
    pub fn contains(self, model: ModelId) -> bool {
        self.0 >> model.0 & 1 == 1
    }

    /// Whether the set says anything.
    pub fn is_any(self) -> bool {
        self == Models::ANY
    }
}

/// How close the GPUs of one claim must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Together {
    /// On one node.
    #[default]
    Node,
    /// On one NUMA node of it.
    Numa,
    /// Connected by NVLink.
    NvLink,
}

/// What a workload asks for. Two claims that are equal are placed by the same rules, whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// How many GPUs, or parts of different GPUs. None for work on CPUs alone.
    pub gpus: u8,
    /// Compute of each. With several GPUs, each is taken whole.
    pub compute: GpuMilli,
    /// GPU memory of each.
    pub gpu_memory: Mebibytes,
    /// The models that will do.
    pub models: Models,
    /// The mechanisms that will do.
    pub mechanisms: Mechanisms,
    /// How close the GPUs must be.
    pub together: Together,
    /// CPU.
    pub cpu: CpuMilli,
    /// Memory of the machine.
    pub memory: Mebibytes,
}

impl Claim {
    /// CPU alone.
    pub const fn cpu_only(cpu: CpuMilli, memory: Mebibytes) -> Self {
        Claim {
            gpus: 0,
            compute: GpuMilli(0),
            gpu_memory: Mebibytes(0),
            models: Models::ANY,
            mechanisms: Mechanisms::ANY,
            together: Together::Node,
            cpu,
            memory,
        }
    }

    /// Whole GPUs.
    pub const fn whole(gpus: u8, cpu: CpuMilli, memory: Mebibytes) -> Self {
        Claim { gpus, compute: WHOLE, ..Claim::cpu_only(cpu, memory) }
    }

    /// A part of one GPU.
    pub const fn part(compute: GpuMilli, cpu: CpuMilli, memory: Mebibytes) -> Self {
        Claim { gpus: 1, compute, ..Claim::cpu_only(cpu, memory) }
    }

    /// Whether it shares its GPU with others.
    pub const fn is_part(&self) -> bool {
        self.gpus == 1 && self.compute.0 < WHOLE.0
    }

    /// Compute of all its GPUs.
    pub const fn total(&self) -> u64 {
        self.gpus as u64 * self.compute.0 as u64
    }
}
