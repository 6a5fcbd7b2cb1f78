//! The middle floor: each C function as a Rust function that answers a `Result`. All that is unsafe is here.
//!
//! Two things are relied upon throughout. The symbols have the types of NVIDIA's header, because they come from a
//! library of that name and NVIDIA never changes a symbol's type. And handles are only ever those that the library
//! itself gave out; it checks them, and answers with an error for those that have gone stale.
#![allow(unsafe_code, reason = "calling C")]

mod compute_instance;
mod device;
mod event;
mod field;
mod gpm;
mod gpu_instance;
mod process;
mod reading;
mod topology;

pub(crate) use gpm::Sample;

use carve_gpu_host::HostFailure;
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlComputeInstance_t, nvmlDevice_t, nvmlEventSet_t, nvmlGpuInstance_t,
};
use std::ffi::{CStr, c_char};
use std::fmt;

/// What a call answers.
pub(crate) type Answer<T = ()> = Result<T, HostFailure>;

/// A GPU or a MIG device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Device(nvmlDevice_t);

/// A GPU instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instance(nvmlGpuInstance_t);

/// A compute instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part(nvmlComputeInstance_t);

/// A set of watched GPUs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventSet(nvmlEventSet_t);

// SAFETY: handles are names that only the library follows, and NVML may be called from any thread.
unsafe impl Send for Device {}
// SAFETY: as for `Device`.
unsafe impl Send for EventSet {}

/// The library's functions.
pub(crate) struct Calls {
    symbols: NvmlLib,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calls")
    }
}

/// A return code as a `Result`.
fn check(code: u32) -> Answer {
    if code == 0 { Ok(()) } else { Err(HostFailure::from_code(code)) }
}

/// Calls a function that an older library may lack.
macro_rules! call {
    ($calls:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match &$calls.symbols.$name {
            // SAFETY: the arguments have the types of the header, pointers are to live values that are large enough
            // for what the function writes, and handles come from the library (see the module's text).
            Ok(function) => crate::call::check(unsafe { function($($argument),*) }),
            Err(_) => Err(carve_gpu_host::HostFailure::FunctionNotFound),
        }
    };
}
use call;

/// The second way where the library lacks the first.
fn or_older<T>(newer: Answer<T>, older: impl FnOnce() -> Answer<T>) -> Answer<T> {
    match newer {
        Err(HostFailure::FunctionNotFound) => older(),
        answer => answer,
    }
}

/// A text that the library wrote into a buffer.
fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().map(|byte| *byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

/// NVML's answer to a struct whose version it does not know.
const VERSION_MISMATCH: HostFailure = HostFailure::Other(25);

/// The version word at the head of a versioned struct.
const fn struct_version<T>(version: u32) -> u32 {
    size_of::<T>() as u32 | (version << 24)
}

impl Calls {
    /// Takes the symbols over.
    pub(crate) fn new(symbols: NvmlLib) -> Self {
        Calls { symbols }
    }

    /// The first function that is missing of those without which nothing can be done.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        let symbols = &self.symbols;
        [
            ("nvmlInit_v2", symbols.nvmlInit_v2.is_err()),
            ("nvmlShutdown", symbols.nvmlShutdown.is_err()),
            ("nvmlDeviceGetCount_v2", symbols.nvmlDeviceGetCount_v2.is_err()),
            ("nvmlDeviceGetHandleByIndex_v2", symbols.nvmlDeviceGetHandleByIndex_v2.is_err()),
        ]
        .into_iter()
        .find_map(|(name, missing)| missing.then_some(name))
    }

    /// Starts NVML; counted by the library.
    pub(crate) fn init(&self) -> Answer {
        call!(self, nvmlInit_v2())
    }

    /// Takes one start back.
    pub(crate) fn shutdown(&self) -> Answer {
        call!(self, nvmlShutdown())
    }

    /// Version of the driver.
    pub(crate) fn driver_version(&self) -> Answer<String> {
        let mut buffer: [c_char; 80] = [0; 80];
        call!(self, nvmlSystemGetDriverVersion(buffer.as_mut_ptr(), buffer.len() as u32))?;
        Ok(text(&buffer))
    }

    /// Highest CUDA version the driver serves.
    pub(crate) fn cuda_version(&self) -> Answer<(u32, u32)> {
        let mut version = 0;
        or_older(call!(self, nvmlSystemGetCudaDriverVersion_v2(&mut version)), || {
            call!(self, nvmlSystemGetCudaDriverVersion(&mut version))
        })?;
        let version = version.unsigned_abs();
        Ok((version / 1000, version % 1000 / 10))
    }
}
