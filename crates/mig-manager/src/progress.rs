//! What is being done, told while it is done, for a progress line or a log.

use carve_gpu_model::{GpuIndex, ProfileName};
use std::fmt;

/// One thing that is about to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A hook runs.
    Hook(String),
    /// MIG mode changes.
    Mode(GpuIndex, bool),
    /// GPUs are reset.
    Reset(Vec<GpuIndex>),
    /// An instance goes.
    Destroy(GpuIndex, ProfileName, u8),
    /// An instance comes.
    Create(GpuIndex, ProfileName, u8),
    /// An instance is divided anew.
    Divide(GpuIndex, ProfileName, u8),
    /// The result is compared with the plan.
    Verify,
    /// The old layout is put back.
    RollBack,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Hook(name) => write!(f, "running {name} hooks"),
            Step::Mode(gpu, on) => write!(f, "GPU {gpu}: switching MIG {}", if *on { "on" } else { "off" }),
            Step::Reset(gpus) => {
                let gpus: Vec<String> = gpus.iter().map(ToString::to_string).collect();
                write!(f, "resetting GPU {}", gpus.join(", "))
            }
            Step::Destroy(gpu, name, start) => write!(f, "GPU {gpu}: removing {name} at slot {start}"),
            Step::Create(gpu, name, start) => write!(f, "GPU {gpu}: creating {name} at slot {start}"),
            Step::Divide(gpu, name, start) => write!(f, "GPU {gpu}: dividing {name} at slot {start}"),
            Step::Verify => f.write_str("verifying"),
            Step::RollBack => f.write_str("putting the old layout back"),
        }
    }
}

/// Somebody who wants to know.
pub trait Progress {
    /// A step begins.
    fn step(&mut self, step: &Step);
}

/// Nobody wants to know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _step: &Step) {}
}
