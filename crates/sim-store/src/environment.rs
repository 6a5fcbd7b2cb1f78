//! The machine that the environment describes, for every library that stands in for one of the driver's.

use crate::{DeviceNodes, SharedMachine, StoreError};
use carve_gpu_host::{Machine, MachineError, SimulatedHost};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

const MACHINE: &str = "CARVE_SIM_MACHINE";
const STATE: &str = "CARVE_SIM_STATE";

/// The machine when nothing is said: eight A100.
const DEFAULT_MACHINE: &str = "p4d.24xlarge";

/// A machine in a file, or one that this process has to itself.
#[derive(Debug)]
pub enum Described {
    /// In the file that the environment names.
    Shared(SharedMachine),
    /// In memory, because no file is named.
    Own(SimulatedHost),
}

/// What is wrong with the environment.
#[derive(Debug, Error)]
pub enum EnvironmentError {
    /// There is no such machine.
    #[error("{MACHINE}: {0}")]
    Machine(MachineError),
    /// The file that describes the machine can not be read.
    #[error("{MACHINE}: can not read {path}: {error}", path = path.display())]
    MachineFile {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file describes no machine.
    #[error("{MACHINE}: {path}: {error}", path = path.display())]
    MachineText {
        /// The file.
        path: PathBuf,
        /// Why.
        error: MachineError,
    },
    /// The file that is the machine can not be used.
    #[error("{STATE}: {0}{reason}", reason = reason(.0))]
    State(StoreError),
    /// A variable that nobody can read.
    #[error("{0}: is not UTF-8")]
    NotText(&'static str),
}

/// A sentence for a log has no place for causes of its own.
fn reason(error: &StoreError) -> String {
    std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default()
}

impl Described {
    /// The machine of `CARVE_SIM_MACHINE`, kept in the file of `CARVE_SIM_STATE` if there is one.
    pub fn from_environment() -> Result<Self, EnvironmentError> {
        let machine = filled(MACHINE)?.map(|written| read_machine(&written)).transpose()?;
        let shared = |machine: Result<SharedMachine, StoreError>| {
            machine.map(Described::Shared).map_err(EnvironmentError::State)
        };
        match (filled(STATE)?.map(PathBuf::from), machine) {
            (Some(path), Some(machine)) => shared(SharedMachine::open(&path, machine)),
            (Some(path), None) => shared(SharedMachine::attach(&path)),
            (None, Some(machine)) => Ok(Described::Own(SimulatedHost::new(machine))),
            (None, None) => {
                let machine = Machine::named(DEFAULT_MACHINE).map_err(EnvironmentError::Machine)?;
                Ok(Described::Own(SimulatedHost::new(machine)))
            }
        }
    }
}

impl DeviceNodes {
    /// The device nodes that this process has of the machine, if that matters.
    pub fn from_environment() -> Result<Option<Self>, EnvironmentError> {
        Ok(filled(DeviceNodes::VARIABLE)?.map(DeviceNodes::new))
    }
}

/// A variable, which may be set to nothing: for some that means something.
pub fn variable(name: &'static str) -> Result<Option<String>, EnvironmentError> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(EnvironmentError::NotText(name)),
    }
}

/// A variable that is set to something.
pub fn filled(name: &'static str) -> Result<Option<String>, EnvironmentError> {
    Ok(variable(name)?.filter(|text| !text.is_empty()))
}

fn read_machine(written: &str) -> Result<Machine, EnvironmentError> {
    let looks_like_a_path = written.contains('/') || written.ends_with(".yaml") || written.ends_with(".yml");
    if !looks_like_a_path {
        return Machine::named(written).map_err(EnvironmentError::Machine);
    }
    let path = Path::new(written);
    let text = std::fs::read_to_string(path)
        .map_err(|error| EnvironmentError::MachineFile { path: path.to_owned(), error })?;
    Machine::parse(&text).map_err(|error| EnvironmentError::MachineText { path: path.to_owned(), error })
}
