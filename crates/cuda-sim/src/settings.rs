//! Settings from the environment: which machine, which devices of it, which limits, which fault.

use crate::context::Contexts;
use crate::device;
use crate::error::Code;
use crate::limits::{Limits, LimitsError};
use crate::module::Modules;
use crate::session::Session;
use crate::visible::visible;
use carve_gpu_host::{GpuHost, HostError, Machine, MachineError, SimulatedHost};
use carve_sim_store::{DeviceNodes, SharedMachine, StoreError};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

const MACHINE: &str = "CARVE_SIM_MACHINE";
const STATE: &str = "CARVE_SIM_STATE";
const FAULT: &str = "CARVE_SIM_CUDA_FAULT";
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
const MPS_PIPE: &str = "CUDA_MPS_PIPE_DIRECTORY";

/// The machine when nothing is said, the same as for the simulated NVML.
const DEFAULT_MACHINE: &str = "p4d.24xlarge";

/// What goes wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A kernel writes one number that is not right.
    WrongSum,
    /// A kernel dies; waiting for it tells.
    LaunchFails,
    /// A kernel never ends.
    Hang,
}

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
    #[error("the simulated machine does not answer: {0}")]
    Host(#[from] HostError),
    #[error("{FAULT}: '{0}' is no fault; expected wrong-sum, launch-fails or hang")]
    Fault(String),
    #[error("{MPS_PIPE}: {0}")]
    Limits(LimitsError),
    #[error("{VISIBLE}: names a device twice")]
    Visible(Code),
    #[error("{0}: is not UTF-8")]
    NotText(&'static str),
}

impl SettingsError {
    /// What `cuInit` answers.
    pub(crate) fn code(&self) -> Code {
        match self {
            SettingsError::Limits(_) => Code::MPS_CONNECTION_FAILED,
            SettingsError::Visible(code) => *code,
            _ => Code::UNKNOWN,
        }
    }
}

fn reason(error: &StoreError) -> String {
    std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default()
}

/// The session that the environment describes.
pub(crate) fn from_environment() -> Result<Session, SettingsError> {
    let host = host()?;
    let fault = text(FAULT)?.filter(|text| !text.is_empty()).map(|text| fault(&text)).transpose()?;
    let limits = match text(MPS_PIPE)?.filter(|text| !text.is_empty()) {
        Some(folder) => Limits::read(Path::new(&folder)).map_err(SettingsError::Limits)?,
        None => Limits::default(),
    };
    let nodes = text(DeviceNodes::VARIABLE)?.filter(|text| !text.is_empty()).map(DeviceNodes::new);
    let machine = device::all(&*host, nodes.as_ref())?;
    let devices = visible(text(VISIBLE)?.as_deref(), &machine).map_err(SettingsError::Visible)?;
    let cuda = host.driver()?.cuda;
    let (contexts, modules) = (Contexts::default(), Modules::default());
    Ok(Session { host, cuda, devices, limits, fault, contexts, modules })
}

fn host() -> Result<Box<dyn GpuHost + Send>, SettingsError> {
    let given = |variable| text(variable).map(|text| text.filter(|text| !text.is_empty()));
    let machine = given(MACHINE)?.map(|written| read_machine(&written)).transpose()?;
    Ok(match (given(STATE)?.map(PathBuf::from), machine) {
        (Some(path), Some(machine)) => {
            Box::new(SharedMachine::open(&path, machine).map_err(SettingsError::State)?)
        }
        (Some(path), None) => Box::new(SharedMachine::attach(&path).map_err(SettingsError::State)?),
        (None, Some(machine)) => Box::new(SimulatedHost::new(machine)),
        (None, None) => {
            Box::new(SimulatedHost::new(Machine::named(DEFAULT_MACHINE).map_err(SettingsError::Machine)?))
        }
    })
}

/// A variable, which may be set to nothing: that means something for `CUDA_VISIBLE_DEVICES`.
fn text(variable: &'static str) -> Result<Option<String>, SettingsError> {
    match std::env::var(variable) {
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

fn fault(text: &str) -> Result<Fault, SettingsError> {
    match text {
        "wrong-sum" => Ok(Fault::WrongSum),
        "launch-fails" => Ok(Fault::LaunchFails),
        "hang" => Ok(Fault::Hang),
        other => Err(SettingsError::Fault(other.to_owned())),
    }
}
