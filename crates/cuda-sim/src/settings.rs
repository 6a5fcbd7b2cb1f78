//! Settings from the environment: which machine, which devices of it, which limits, which fault.

use crate::board::{Board, BoardError};
use crate::device;
use crate::error::Code;
use crate::limits::{Limits, LimitsError};
use crate::mps_client::MpsClient;
use crate::session::Session;
use crate::visible::visible;
use carve_gpu_host::{GpuHost, HostError};
use carve_sim_store::environment::{filled, variable};
use carve_sim_store::{Described, DeviceNodes, EnvironmentError};
use std::path::Path;
use thiserror::Error;

const CLOCK: &str = "CARVE_SIM_CUDA_CLOCK";
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
    /// The allocation that comes at this place in the process is refused although there is room.
    AllocationFails(u64),
    /// What pools have to spare is in pieces, so that they grow at every allocation.
    PoolsInPieces,
    /// Nodes of graphs do not tell what they allocate.
    NodesUntold,
}

/// What is wrong with the settings.
#[derive(Debug, Error)]
pub(crate) enum SettingsError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("the simulated machine does not answer: {0}")]
    Host(#[from] HostError),
    #[error(
        "{FAULT}: '{0}' is no fault; expected wrong-sum, launch-fails, hang, pools-in-pieces, nodes-untold or alloc-fails:N with N from 1 on"
    )]
    Fault(String),
    #[error("{CLOCK}: {0}")]
    Board(#[from] BoardError),
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

fn machine() -> Result<Box<dyn GpuHost + Send>, SettingsError> {
    Ok(match Described::from_environment()? {
        Described::Shared(machine) => Box::new(machine),
        Described::Own(machine) => Box::new(machine),
    })
}

/// The CUDA version of the driver on the machine that the environment describes.
pub(crate) fn cuda_version() -> Result<(u32, u32), SettingsError> {
    Ok(machine()?.driver()?.cuda)
}

/// The session that the environment describes.
pub(crate) fn from_environment() -> Result<Session, SettingsError> {
    let host = machine()?;
    let fault = filled(FAULT)?.map(|text| fault(&text)).transpose()?;
    let pipe = filled(MPS_PIPE)?;
    let limits = match &pipe {
        Some(folder) => {
            let told = Limits::read(Path::new(folder)).map_err(SettingsError::Limits)?;
            told.lowered(filled(MPS_MEMORY)?.as_deref(), filled(MPS_THREADS)?.as_deref())
        }
        None => Limits::default(),
    };
    let nodes = DeviceNodes::from_environment()?;
    let machine = device::all(&*host, nodes.as_ref())?;
    let devices = visible(variable(VISIBLE)?.as_deref(), &machine).map_err(SettingsError::Visible)?;
    let cuda = host.driver()?.cuda;
    let board = match filled(CLOCK)? {
        Some(file) => Board::shared(Path::new(&file))?,
        None => Board::own(),
    };
    let mps_client = pipe.and_then(|folder| MpsClient::of(Path::new(&folder), board));
    Ok(Session {
        host,
        cuda,
        devices,
        limits,
        mps_client,
        fault,
        board,
        contexts: Default::default(),
        modules: Default::default(),
        memory: Default::default(),
        host_memory: Default::default(),
        pools: Default::default(),
        mapped: Default::default(),
        arrays: Default::default(),
        prepared: Default::default(),
        multicasts: Default::default(),
        opened: Default::default(),
        streams: Default::default(),
        events: Default::default(),
        captures: Default::default(),
        graphs: Default::default(),
        told_nodes: Default::default(),
    })
}

fn fault(text: &str) -> Result<Fault, SettingsError> {
    if let Some(place) = text.strip_prefix("alloc-fails:") {
        let place = place.parse().ok().filter(|place| *place > 0);
        return place.map(Fault::AllocationFails).ok_or_else(|| SettingsError::Fault(text.to_owned()));
    }
    match text {
        "wrong-sum" => Ok(Fault::WrongSum),
        "launch-fails" => Ok(Fault::LaunchFails),
        "hang" => Ok(Fault::Hang),
        "pools-in-pieces" => Ok(Fault::PoolsInPieces),
        "nodes-untold" => Ok(Fault::NodesUntold),
        other => Err(SettingsError::Fault(other.to_owned())),
    }
}
