//! Settings from the environment: which machine, which devices of it, which limits, which fault.

use crate::context::Contexts;
use crate::device;
use crate::error::Code;
use crate::limits::{Limits, LimitsError};
use crate::module::Modules;
use crate::session::Session;
use crate::visible::visible;
use carve_gpu_host::{GpuHost, HostError};
use carve_sim_store::environment::{filled, variable};
use carve_sim_store::{Described, DeviceNodes, EnvironmentError};
use std::path::Path;
use thiserror::Error;

const FAULT: &str = "CARVE_SIM_CUDA_FAULT";
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
const MPS_PIPE: &str = "CUDA_MPS_PIPE_DIRECTORY";
const MPS_MEMORY: &str = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
const MPS_THREADS: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

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
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("the simulated machine does not answer: {0}")]
    Host(#[from] HostError),
    #[error("{FAULT}: '{0}' is no fault; expected wrong-sum, launch-fails or hang")]
    Fault(String),
    #[error("{MPS_PIPE}: {0}")]
    Limits(LimitsError),
    #[error("{VISIBLE}: names a device twice")]
    Visible(Code),
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

/// The session that the environment describes.
pub(crate) fn from_environment() -> Result<Session, SettingsError> {
    let host: Box<dyn GpuHost + Send> = match Described::from_environment()? {
        Described::Shared(machine) => Box::new(machine),
        Described::Own(machine) => Box::new(machine),
    };
    let fault = filled(FAULT)?.map(|text| fault(&text)).transpose()?;
    let limits = match filled(MPS_PIPE)? {
        Some(folder) => {
            let told = Limits::read(Path::new(&folder)).map_err(SettingsError::Limits)?;
            told.lowered(filled(MPS_MEMORY)?.as_deref(), filled(MPS_THREADS)?.as_deref())
        }
        None => Limits::default(),
    };
    let nodes = DeviceNodes::from_environment()?;
    let machine = device::all(&*host, nodes.as_ref())?;
    let devices = visible(variable(VISIBLE)?.as_deref(), &machine).map_err(SettingsError::Visible)?;
    let cuda = host.driver()?.cuda;
    let (contexts, modules) = (Contexts::default(), Modules::default());
    Ok(Session { host, cuda, devices, limits, fault, contexts, modules })
}

fn fault(text: &str) -> Result<Fault, SettingsError> {
    match text {
        "wrong-sum" => Ok(Fault::WrongSum),
        "launch-fails" => Ok(Fault::LaunchFails),
        "hang" => Ok(Fault::Hang),
        other => Err(SettingsError::Fault(other.to_owned())),
    }
}
