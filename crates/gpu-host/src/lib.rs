//! A machine's GPUs behind one trait, a simulated machine that behaves like a driver, and a wrapper that makes any
//! host fail where a test wants it to.
//!
//! Pure: the simulated machine lives in memory and its time is the order of calls. Keeping it in a file that several
//! processes share is the business of `sim-store`; the C interface in front of it is that of `nvml-sim`.
#![warn(clippy::disallowed_methods)]

mod capabilities;
mod error;
mod fabric;
mod facts;
mod faults;
mod host;
pub mod machine;
mod recovery;
mod simulated;

pub use capabilities::{
    MIG_CONFIG_MINOR, MIG_MONITOR_MINOR, compute_instance_minor, gpu_instance_minor, mig_minors,
};
pub use error::{HostError, HostFailure, HostResult, ParseFailureError, ParseVerbError, Verb};
pub use fabric::{CliqueId, ClusterUuid, Fabric, ParseClusterError};
pub use facts::{
    BusyPart, ComputeInstance, Driver, Gpu, GpuEvent, GpuInstance, GpuProcess, Link, MemoryUse, MigDevice,
    MigMode, ModeOutcome, PciPath, ProcessKind, Readings, RemappedRows, Utilisation,
};
pub use faults::{FaultInjectingHost, FaultPlan, FaultPlanError, FaultReaction, FaultWhen, InjectedFault};
pub use host::GpuHost;
pub use machine::{Machine, MachineError};
pub use recovery::RecoveryAction;
pub use simulated::{SimulatedHost, SimulatedState};
