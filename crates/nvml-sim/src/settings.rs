//! Settings from the environment: which machine, where it is kept, which faults are planned.

use crate::simulation::Simulated;
use carve_gpu_host::{
    FaultInjectingHost, FaultPlan, FaultPlanError, HostFailure, Machine, MachineError, SimulatedHost, Verb,
};
use carve_sim_store::{DeviceNodes, SharedMachine, StoreError};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

const MACHINE: &str = "CARVE_SIM_MACHINE";
const STATE: &str = "CARVE_SIM_STATE";
const FAULT: &str = "CARVE_SIM_FAULT";

/// The machine when nothing is said: eight A100.
const DEFAULT_MACHINE: &str = "p4d.24xlarge";

/// What is wrong with the settings.
#[derive(Debug, Error)]
pub(crate) enum SettingsError {
    #[error("{MACHINE}: {0}")]
    Machine(MachineError),
    #[error("{MACHINE}: can not read {path}: {error}", path = path.display())]
    MachineFile { path: PathBuf, error: io::Error },
    #[error("{MACHINE}: {path}: {error}", path = path.display())]
    MachineText { path: PathBuf, error: MachineError },
    #[error("{STATE}: {0}{reason}", reason = reason(.0))]
    State(StoreError),
    #[error("{FAULT}: {0}")]
    Fault(FaultPlanError),
    #[error("{0}: is not UTF-8")]
    NotText(&'static str),
}

fn reason(error: &StoreError) -> String {
    std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default()
}

/// The machine that the environment describes, and the device nodes that this process has of it, if that matters.
pub(crate) fn from_environment() -> Result<(Box<dyn Simulated>, Option<DeviceNodes>), SettingsError> {
    let nodes = text(DeviceNodes::VARIABLE)?.map(DeviceNodes::new);
    Ok((host()?, nodes))
}

fn host() -> Result<Box<dyn Simulated>, SettingsError> {
    let machine = text(MACHINE)?.map(|written| read_machine(&written)).transpose()?;
    let state = text(STATE)?.map(PathBuf::from);
    let plan: FaultPlan = planned_faults()?.parse().map_err(SettingsError::Fault)?;
    let shared = |machine: Result<SharedMachine, StoreError>| -> Result<Box<dyn Simulated>, SettingsError> {
        let machine = machine.map_err(SettingsError::State)?;
        Ok(Box::new(FaultInjectingHost::new(machine, plan.clone(), die)))
    };
    match (state, machine) {
        (Some(path), Some(machine)) => shared(SharedMachine::open(&path, machine)),
        (Some(path), None) => shared(SharedMachine::attach(&path)),
        (None, machine) => {
            let machine = match machine {
                Some(machine) => machine,
                None => Machine::named(DEFAULT_MACHINE).map_err(SettingsError::Machine)?,
            };
            Ok(Box::new(FaultInjectingHost::new(SimulatedHost::new(machine), plan, die)))
        }
    }
}

/// The planned faults, or those in a file for the first process that comes by: one that dies of them and is started again
/// finds none.
fn planned_faults() -> Result<String, SettingsError> {
    let written = text(FAULT)?.unwrap_or_default();
    let Some(path) = written.strip_prefix('@') else { return Ok(written) };
    let taken = format!("{path}.taken");
    // Renamed first, so that of two processes only one gets it.
    match std::fs::rename(path, &taken) {
        Ok(()) => Ok(std::fs::read_to_string(&taken).unwrap_or_default().trim().to_owned()),
        Err(_) => Ok(String::new()),
    }
}

/// A variable that is set to something.
fn text(variable: &'static str) -> Result<Option<String>, SettingsError> {
    match std::env::var(variable) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(SettingsError::NotText(variable)),
    }
}

fn read_machine(written: &str) -> Result<Machine, SettingsError> {
    let looks_like_a_path = written.contains('/') || written.ends_with(".yaml") || written.ends_with(".yml");
    if !looks_like_a_path {
        return Machine::named(written).map_err(SettingsError::Machine);
    }
    let path = Path::new(written);
    let text = std::fs::read_to_string(path)
        .map_err(|error| SettingsError::MachineFile { path: path.to_owned(), error })?;
    Machine::parse(&text).map_err(|error| SettingsError::MachineText { path: path.to_owned(), error })
}

/// A planned death: the kernel ends the process here, as it would a program that was killed at this verb.
fn die(_verb: Verb) -> HostFailure {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    HostFailure::Other(crate::session::UNKNOWN)
}
