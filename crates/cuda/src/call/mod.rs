//! The middle floor: each C function as a Rust function that answers a `Result`. Nearly all that is unsafe is here.
//!
//! Three things are relied upon throughout. The symbols have the types of NVIDIA's header (see `sys`). Handles are
//! only ever those that the library itself gave out, and it is told of each one's end once: the floor above owns
//! them. And every function may be called from any thread; which context it works on is the thread's own affair.
#![allow(unsafe_code, reason = "calling C")]

mod device;
mod execution;
mod green;
mod memory;

pub(crate) use device::{ContextHandle, DeviceHandle};
pub(crate) use execution::{FunctionHandle, ModuleHandle, StreamHandle};
pub(crate) use green::GreenHandle;

use crate::error::{CudaCode, CudaError};
use crate::sys::{GreenSymbols, Symbols};
use std::ffi::{CStr, c_char, c_uint};
use std::ptr::null;

/// What a call answers.
pub(crate) type Reply<T = ()> = Result<T, CudaCode>;

/// The library's functions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    symbols: Symbols,
    green: Option<GreenSymbols>,
}

/// A return code as a `Result`.
fn check(code: c_uint) -> Reply {
    if code == 0 { Ok(()) } else { Err(CudaCode(code)) }
}

/// Calls a function.
macro_rules! call {
    ($calls:expr, $name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the arguments have the types of the header, pointers are to live values that are large enough for
        // what the function reads or writes, and handles come from the library (see the module's text).
        crate::call::check(unsafe { ($calls.symbols.$name)($($argument),*) })
    };
}
use call;

/// A text that the library keeps for as long as it is loaded.
fn kept_text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and then a NUL-terminated constant of the library, which is never unloaded.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

impl Calls {
    /// Takes the symbols over.
    pub(crate) fn new(symbols: Symbols, green: Option<GreenSymbols>) -> Self {
        Calls { symbols, green }
    }

    /// Starts the driver interface for this process.
    pub(crate) fn init(&self) -> Reply {
        call!(self, cuInit(0))
    }

    /// Highest CUDA version the driver serves, as `1000 * major + 10 * minor`.
    pub(crate) fn driver_version(&self) -> Reply<u32> {
        let mut version = 0;
        call!(self, cuDriverGetVersion(&mut version))?;
        Ok(version.unsigned_abs())
    }

    /// A code with the library's own words, and what was being done.
    pub(crate) fn error(&self, code: CudaCode, doing: impl Into<String>) -> CudaError {
        let (mut name, mut text) = (null(), null());
        // A code that the library does not know leaves null behind.
        let _ = call!(self, cuGetErrorName(code.0, &mut name));
        let _ = call!(self, cuGetErrorString(code.0, &mut text));
        CudaError {
            doing: doing.into(),
            code,
            name: kept_text(name).unwrap_or_else(|| "an error without a name".to_owned()),
            text: kept_text(text).unwrap_or_else(|| "the library has no words for it".to_owned()),
        }
    }
}
