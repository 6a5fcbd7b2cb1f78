//! The one session of the process, and the guard that every call goes through.

use crate::array::Arrays;
use crate::board::Board;
use crate::capture::Capture;
use crate::context::Contexts;
use crate::device::Device;
use crate::error::{Answer, Code};
use crate::event::Event;
use crate::graph::Graphs;
use crate::handle::{Handle, Numbered};
use crate::host::Host;
use crate::launch::Prepared;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::module::Modules;
use crate::mps_client::MpsClient;
use crate::multicast::Multicast;
use crate::physical::Virtual;
use crate::pool::Pools;
use crate::settings::{self, Fault};
use crate::stream::Streams;
use crate::trace;
use carve_gpu_host::GpuHost;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Everything behind the entries.
pub(crate) struct Session {
    pub(crate) host: Box<dyn GpuHost + Send>,
    /// Highest CUDA version of the machine's driver.
    pub(crate) cuda: (u32, u32),
    /// What this process sees; settled at `cuInit`, as the driver does.
    pub(crate) devices: Vec<Device>,
    pub(crate) limits: Limits,
    /// What this process is to the MPS daemon that its pipe directory is of.
    pub(crate) mps_client: Option<MpsClient>,
    pub(crate) fault: Option<Fault>,
    /// What the devices are to all processes.
    pub(crate) board: Board,
    pub(crate) contexts: Contexts,
    pub(crate) modules: Modules,
    pub(crate) memory: Memory,
    pub(crate) host_memory: Host,
    pub(crate) pools: Pools,
    pub(crate) mapped: Virtual,
    pub(crate) arrays: Arrays,
    /// What was set for kernels, by their handles.
    pub(crate) prepared: BTreeMap<usize, Prepared>,
    pub(crate) multicasts: Numbered<Multicast>,
    /// How often allocations were opened by handle.
    pub(crate) opened: BTreeMap<u64, u32>,
    pub(crate) streams: Streams,
    pub(crate) events: Numbered<Event>,
    pub(crate) captures: Numbered<Capture>,
    pub(crate) graphs: Graphs,
    /// The nodes that the last question about a capture was answered with; C holds a pointer to them.
    pub(crate) told_nodes: Vec<Handle>,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// A panic while holding the lock was answered with UNKNOWN; what it left is still the best state there is.
fn session() -> MutexGuard<'static, Option<Session>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs an entry: no panic leaves it, and its failure becomes a code. (A build whose panics abort ends the process
/// instead, which is the other way of not unwinding into C.)
pub(crate) fn guard(name: &str, entry: impl FnOnce() -> Answer) -> c_uint {
    let code = match catch_unwind(AssertUnwindSafe(entry)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code.0,
        Err(_) => Code::UNKNOWN.0,
    };
    trace::record(name, code);
    code
}

/// The CUDA version of the machine's driver, which can be asked for before the start.
pub(crate) fn driver_version() -> Answer<c_int> {
    let (major, minor) = match session().as_ref() {
        Some(session) => session.cuda,
        None => settings::cuda_version().map_err(|error| error.code())?,
    };
    c_int::try_from(major * 1000 + minor * 10).map_err(|_| Code::UNKNOWN)
}

/// Asks the session, if CUDA was started.
pub(crate) fn with<T>(ask: impl FnOnce(&mut Session) -> Answer<T>) -> Answer<T> {
    session().as_mut().ok_or(Code::NOT_INITIALIZED).and_then(ask)
}

/// Starts CUDA; once is enough, and more do no harm.
pub(crate) fn start(flags: c_uint) -> Answer {
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut session = session();
    if session.is_none() {
        let started = settings::from_environment().map_err(|error| {
            eprintln!("simulated CUDA: {error}");
            error.code()
        })?;
        if started.devices.is_empty() {
            return Err(Code::NO_DEVICE);
        }
        *session = Some(started);
    }
    Ok(())
}
