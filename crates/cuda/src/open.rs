//! Opening the library, and why that can fail.

use crate::call::Calls;
use crate::device::Device;
use crate::error::{CudaCode, CudaError};
use crate::sys;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why CUDA can not be used here.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No library could be loaded.
    #[error(
        "the CUDA driver library could not be loaded (tried {tried}); is the NVIDIA driver installed, and was this \
         container given its libraries?",
        tried = refusals.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect::<Vec<_>>().join("; ")
    )]
    LibraryNotFound {
        /// What was tried, and what the linker said.
        refusals: Vec<(PathBuf, String)>,
    },
    /// A library was loaded, but it is none that carve can work with.
    #[error(
        "{library} lacks the function {symbol}; it is no CUDA driver library, or one older than CUDA 11.4",
        library = library.display()
    )]
    SymbolMissing {
        /// The library.
        library: PathBuf,
        /// The first function that is missing.
        symbol: &'static str,
    },
    /// The library works and sees no device.
    #[error(
        "CUDA sees no device; look at CUDA_VISIBLE_DEVICES, at the /dev/nvidia* that this container was given, and, \
         if the GPU is in MIG mode, whether it has MIG devices"
    )]
    NoDevice,
    /// The library does not start.
    #[error(transparent)]
    Refused(#[from] CudaError),
}

/// The CUDA driver interface of this process.
#[derive(Debug)]
pub struct Cuda {
    calls: Calls,
    library: PathBuf,
}

impl Cuda {
    /// Loads the library and starts CUDA; without a path the dynamic linker looks for `libcuda.so.1`.
    ///
    /// The library stays loaded until the process ends.
    pub fn open(library: Option<&Path>) -> Result<Self, OpenError> {
        let (symbols, green, library) = sys::load(library)?;
        let calls = Calls::new(symbols, green);
        match calls.init() {
            Ok(()) => Ok(Cuda { calls, library }),
            Err(CudaCode::NO_DEVICE) => Err(OpenError::NoDevice),
            Err(code) => Err(OpenError::Refused(calls.error(code, "start"))),
        }
    }

    /// The library that was loaded, as it was asked for.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// Highest CUDA version the driver serves.
    pub fn version(&self) -> Result<(u32, u32), CudaError> {
        let version =
            self.calls.driver_version().map_err(|code| self.calls.error(code, "tell its version"))?;
        Ok((version / 1000, version % 1000 / 10))
    }

    /// How many devices this process sees.
    pub fn count(&self) -> Result<u32, CudaError> {
        self.calls.count().map_err(|code| self.calls.error(code, "count the devices"))
    }

    /// One of them, counted from 0.
    pub fn device(&self, ordinal: u32) -> Result<Device<'_>, CudaError> {
        Device::at(&self.calls, ordinal)
    }
}
