//! Settings from the environment: which machine, where it is kept, which faults are planned.

use crate::simulation::Simulated;
use carve_gpu_host::{FaultInjectingHost, FaultPlan, FaultPlanError, HostFailure, Verb};
use carve_sim_store::environment::filled;
use carve_sim_store::{Described, DeviceNodes, EnvironmentError};
use thiserror::Error;

const FAULT: &str = "CARVE_SIM_FAULT";

/// What is wrong with the settings.
#[derive(Debug, Error)]
pub(crate) enum SettingsError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("{FAULT}: {0}")]
    Fault(FaultPlanError),
}

/// The machine that the environment describes, and the device nodes that this process has of it, if that matters.
pub(crate) fn from_environment() -> Result<(Box<dyn Simulated>, Option<DeviceNodes>), SettingsError> {
    let nodes = DeviceNodes::from_environment()?;
    let described = Described::from_environment()?;
    let plan: FaultPlan = planned_faults()?.parse().map_err(SettingsError::Fault)?;
    let host: Box<dyn Simulated> = match described {
        Described::Shared(machine) => Box::new(FaultInjectingHost::new(machine, plan, die)),
        Described::Own(machine) => Box::new(FaultInjectingHost::new(machine, plan, die)),
    };
    Ok((host, nodes))
}

/// The planned faults, or those in a file for the first process that comes by: one that dies of them and is started again
/// finds none.
fn planned_faults() -> Result<String, SettingsError> {
    let written = filled(FAULT)?.unwrap_or_default();
    let Some(path) = written.strip_prefix('@') else { return Ok(written) };
    let taken = format!("{path}.taken");
    // Renamed first, so that of two processes only one gets it.
    match std::fs::rename(path, &taken) {
        Ok(()) => Ok(std::fs::read_to_string(&taken).unwrap_or_default().trim().to_owned()),
        Err(_) => Ok(String::new()),
    }
}

/// A planned death: the kernel ends the process here, as it would a program that was killed at this verb.
fn die(_verb: Verb) -> HostFailure {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    HostFailure::Other(crate::session::UNKNOWN)
}
