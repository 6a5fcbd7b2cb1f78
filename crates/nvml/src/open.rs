//! Opening the library, and why that can fail.

use crate::call::Calls;
use crate::sys;
use carve_gpu_host::HostFailure;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Where the parts of a driver installation are. The defaults are those of an ordinary machine; in a container they
/// may be elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmlPaths {
    /// The library; `None` leaves the search to the dynamic linker.
    pub library: Option<PathBuf>,
    /// The program that resets GPUs, which NVML itself can not do.
    pub nvidia_smi: PathBuf,
    /// Where that program finds its libraries, when the loader does not know by itself.
    pub smi_libraries: Option<PathBuf>,
    /// Where the kernel tells about PCI devices (`/sys/bus/pci/devices`).
    pub pci_devices: PathBuf,
}

impl Default for NvmlPaths {
    fn default() -> Self {
        NvmlPaths {
            library: None,
            nvidia_smi: PathBuf::from("nvidia-smi"),
            smi_libraries: None,
            pci_devices: PathBuf::from("/sys/bus/pci/devices"),
        }
    }
}

/// Why the machine's GPUs can not be reached.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No library could be loaded.
    #[error(
        "the NVIDIA management library could not be loaded (tried {tried}); is the NVIDIA driver installed, and \
         visible in this container?",
        tried = refusals.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect::<Vec<_>>().join("; ")
    )]
    LibraryNotFound {
        /// What was tried, and what the linker said.
        refusals: Vec<(PathBuf, String)>,
    },
    /// A library was loaded, but it is none that carve can work with.
    #[error(
        "{library} lacks the function {symbol}; it is no NVIDIA management library, or one older than R450",
        library = library.display()
    )]
    SymbolMissing {
        /// The library.
        library: PathBuf,
        /// The first function that is missing.
        symbol: &'static str,
    },
    /// The kernel module is not there.
    #[error(
        "the NVIDIA kernel driver is not loaded; try `modprobe nvidia`, or look into dmesg for why it did not load"
    )]
    DriverNotLoaded,
    /// The device nodes may not be opened.
    #[error("no permission to talk to the NVIDIA driver; /dev/nvidiactl must be readable and writable")]
    NoPermission,
    /// Library and kernel module are of different versions.
    #[error(
        "the NVIDIA library and the loaded kernel driver are of different versions; reload the driver or reboot"
    )]
    VersionMismatch,
    /// Something else.
    #[error("the NVIDIA management library does not start: {0}")]
    Refused(HostFailure),
}

impl OpenError {
    fn from_init(failure: HostFailure) -> Self {
        match failure {
            HostFailure::DriverNotLoaded => OpenError::DriverNotLoaded,
            HostFailure::NoPermission => OpenError::NoPermission,
            HostFailure::Other(18) => OpenError::VersionMismatch,
            failure => OpenError::Refused(failure),
        }
    }
}

/// Loads the library and starts NVML.
pub(crate) fn open(library: Option<&Path>) -> Result<Calls, OpenError> {
    let (symbols, path) = sys::load(library)?;
    let calls = Calls::new(symbols);
    if let Some(symbol) = calls.missing() {
        return Err(OpenError::SymbolMissing { library: path, symbol });
    }
    calls.init().map_err(OpenError::from_init)?;
    Ok(calls)
}
