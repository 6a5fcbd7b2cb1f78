//! What a workload asks for, whatever dialect it was written in.

use carve_gpu_model::Mebibytes;
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

/// A way of dividing a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// The whole GPU for one container.
    Exclusive,
    /// Containers take turns.
    TimeSlicing,
    /// Containers run at once, under limits of CUDA's multi-process service.
    Mps,
    /// A part of the hardware.
    Mig,
    /// A library in the container holds it to its share.
    Limiter,
}

impl Mechanism {
    /// All of them, from the strictest to the loosest.
    pub const ALL: [Mechanism; 5] =
        [Mechanism::Exclusive, Mechanism::Mig, Mechanism::Mps, Mechanism::Limiter, Mechanism::TimeSlicing];

    /// As it is written in output and configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Exclusive => "exclusive",
            Mechanism::TimeSlicing => "time-slicing",
            Mechanism::Mps => "MPS",
            Mechanism::Mig => "MIG",
            Mechanism::Limiter => "limiter",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of mechanisms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mechanisms(u8);

impl Mechanisms {
    /// Every mechanism.
    pub const ANY: Mechanisms = Mechanisms(u8::MAX);
    /// None.
    pub const NONE: Mechanisms = Mechanisms(0);

    /// The set with one more.
    #[must_use]
    pub const fn with(self, mechanism: Mechanism) -> Self {
        Mechanisms(self.0 | 1 << mechanism as u8)
    }

    /// What both sets hold.
    #[must_use]
    pub const fn and(self, other: Mechanisms) -> Self {
        Mechanisms(self.0 & other.0)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether one is in the set.
    pub const fn contains(self, mechanism: Mechanism) -> bool {
        self.0 >> mechanism as u8 & 1 == 1
    }

    /// Those in the set, from the strictest to the loosest.
    pub fn iter(self) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL.into_iter().filter(move |one| self.contains(*one))
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
