//! How a verb on a host can fail: NVML's return codes, with the verb and the GPU they belong to.

use carve_gpu_model::GpuIndex;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Everything one can ask of a host, for naming it in errors and in fault plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// [`crate::GpuHost::driver`]
    Driver,
    /// [`crate::GpuHost::gpus`]
    Gpus,
    /// [`crate::GpuHost::memory`]
    Memory,
    /// [`crate::GpuHost::utilisation`]
    Utilisation,
    /// [`crate::GpuHost::readings`]
    Readings,
    /// [`crate::GpuHost::busy`]
    Busy,
    /// [`crate::GpuHost::processes`]
    Processes,
    /// [`crate::GpuHost::link`]
    Link,
    /// [`crate::GpuHost::fabric`]
    Fabric,
    /// [`crate::GpuHost::recovery_action`]
    RecoveryAction,
    /// [`crate::GpuHost::next_event`]
    NextEvent,
    /// [`crate::GpuHost::mig_mode`]
    MigMode,
    /// [`crate::GpuHost::set_mig_mode`]
    SetMigMode,
    /// [`crate::GpuHost::reset`]
    Reset,
    /// [`crate::GpuHost::profile_table`]
    ProfileTable,
    /// [`crate::GpuHost::gpu_instances`]
    GpuInstances,
    /// [`crate::GpuHost::create_gpu_instance`]
    CreateGpuInstance,
    /// [`crate::GpuHost::destroy_gpu_instance`]
    DestroyGpuInstance,
    /// [`crate::GpuHost::compute_profiles`]
    ComputeProfiles,
    /// [`crate::GpuHost::compute_instances`]
    ComputeInstances,
    /// [`crate::GpuHost::create_compute_instance`]
    CreateComputeInstance,
    /// [`crate::GpuHost::destroy_compute_instance`]
    DestroyComputeInstance,
    /// [`crate::GpuHost::mig_devices`]
    MigDevices,
}

impl Verb {
    /// Every verb with its written name.
    pub const ALL: [(Verb, &'static str); 23] = [
        (Verb::Driver, "driver"),
        (Verb::Gpus, "gpus"),
        (Verb::Memory, "memory"),
        (Verb::Utilisation, "utilisation"),
        (Verb::Readings, "readings"),
        (Verb::Busy, "busy"),
        (Verb::Processes, "processes"),
        (Verb::Link, "link"),
        (Verb::Fabric, "fabric"),
        (Verb::RecoveryAction, "recovery-action"),
        (Verb::NextEvent, "next-event"),
        (Verb::MigMode, "mig-mode"),
        (Verb::SetMigMode, "set-mig-mode"),
        (Verb::Reset, "reset"),
        (Verb::ProfileTable, "profile-table"),
        (Verb::GpuInstances, "gpu-instances"),
        (Verb::CreateGpuInstance, "create-gpu-instance"),
        (Verb::DestroyGpuInstance, "destroy-gpu-instance"),
        (Verb::ComputeProfiles, "compute-profiles"),
        (Verb::ComputeInstances, "compute-instances"),
        (Verb::CreateComputeInstance, "create-compute-instance"),
        (Verb::DestroyComputeInstance, "destroy-compute-instance"),
        (Verb::MigDevices, "mig-devices"),
    ];

    /// Whether the verb changes the machine.
    pub const fn changes_the_machine(self) -> bool {
        matches!(
            self,
            Verb::SetMigMode
                | Verb::Reset
                | Verb::CreateGpuInstance
                | Verb::DestroyGpuInstance
                | Verb::CreateComputeInstance
                | Verb::DestroyComputeInstance
        )
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Verb::ALL.iter().find(|(verb, _)| verb == self).map_or("unknown verb", |(_, name)| name);
        f.write_str(name)
    }
}

/// The text names no verb.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a verb of a host; one of {all}", all = Verb::ALL.map(|(_, name)| name).join(", "))]
pub struct ParseVerbError(pub String);

impl FromStr for Verb {
    type Err = ParseVerbError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Verb::ALL
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(verb, _)| *verb)
            .ok_or_else(|| ParseVerbError(text.to_owned()))
    }
}

/// What NVML answers instead of success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
pub enum HostFailure {
    /// NVML was not initialised.
    #[error("the driver library is not initialised")]
    Uninitialized,
    /// An argument names nothing that exists, or is malformed.
    #[error("the driver does not accept the argument")]
    InvalidArgument,
    /// The GPU or the driver can not do this.
    #[error("not supported by this GPU, driver or mode")]
    NotSupported,
    /// Root (or a capability device) is needed.
    #[error("permission denied; changing GPUs needs root or the matching capability device")]
    NoPermission,
    /// No such thing.
    #[error("not found")]
    NotFound,
    /// The caller's buffer was too small.
    #[error("the buffer handed to the driver is too small")]
    InsufficientSize,
    /// The kernel module is not loaded.
    #[error("the NVIDIA kernel driver is not loaded")]
    DriverNotLoaded,
    /// The driver did not answer in time.
    #[error("the driver did not answer in time")]
    Timeout,
    /// The library is not there.
    #[error("the NVIDIA management library was not found")]
    LibraryNotFound,
    /// The library lacks a function.
    #[error("the installed driver library lacks this function")]
    FunctionNotFound,
    /// The GPU fell off the bus.
    #[error("the GPU is lost (fell off the bus); it needs a reset or a reboot")]
    GpuLost,
    /// The GPU must be reset first.
    #[error("the GPU must be reset first")]
    ResetRequired,
    /// Somebody uses it.
    #[error("in use by a process")]
    InUse,
    /// No room for it.
    #[error("not enough free slots or engines on the GPU")]
    InsufficientResources,
    /// Anything else, by its code.
    #[error("driver error {0}")]
    Other(u32),
}

impl HostFailure {
    const CODES: [(HostFailure, u32); 14] = [
        (HostFailure::Uninitialized, 1),
        (HostFailure::InvalidArgument, 2),
        (HostFailure::NotSupported, 3),
        (HostFailure::NoPermission, 4),
        (HostFailure::NotFound, 6),
        (HostFailure::InsufficientSize, 7),
        (HostFailure::DriverNotLoaded, 9),
        (HostFailure::Timeout, 10),
        (HostFailure::LibraryNotFound, 12),
        (HostFailure::FunctionNotFound, 13),
        (HostFailure::GpuLost, 15),
        (HostFailure::ResetRequired, 16),
        (HostFailure::InUse, 19),
        (HostFailure::InsufficientResources, 23),
    ];

    /// NVML's return code for this failure.
    pub fn code(self) -> u32 {
        if let HostFailure::Other(code) = self {
            return code;
        }
        Self::CODES.iter().find(|(failure, _)| *failure == self).map_or(999, |(_, code)| *code)
    }

    /// The failure behind a non-zero NVML return code.
    pub fn from_code(code: u32) -> Self {
        Self::CODES
            .iter()
            .find(|(_, known)| *known == code)
            .map_or(HostFailure::Other(code), |(failure, _)| *failure)
    }
}

/// The text names no failure.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a failure; use an NVML return code such as 19 (in use) or 23 (insufficient resources)")]
pub struct ParseFailureError(pub String);

impl FromStr for HostFailure {
    type Err = ParseFailureError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<u32>() {
            Ok(code) if code > 0 => Ok(HostFailure::from_code(code)),
            _ => Err(ParseFailureError(text.to_owned())),
        }
    }
}

/// A verb that failed, where, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostError {
    /// What was asked.
    pub verb: Verb,
    /// Of which GPU, if of one.
    pub gpu: Option<GpuIndex>,
    /// What the driver answered.
    pub failure: HostFailure,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gpu {
            Some(gpu) => write!(f, "{} on GPU {gpu}: {}", self.verb, self.failure),
            None => write!(f, "{}: {}", self.verb, self.failure),
        }
    }
}

impl std::error::Error for HostError {}

/// What every verb answers.
pub type HostResult<T> = Result<T, HostError>;
