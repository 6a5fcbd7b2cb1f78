//! The ground floor: the library and its symbols, each of which an older driver may lack.

use crate::open::OpenError;
use nvml_wrapper_sys::bindings::NvmlLib;
use std::path::{Path, PathBuf};

/// Where the dynamic linker is asked to look, in this order, when no path is given.
const NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// Loads the library. The answer names the one that was loaded.
#[allow(unsafe_code, reason = "loading a library runs its initialisers")]
pub(crate) fn load(given: Option<&Path>) -> Result<(NvmlLib, PathBuf), OpenError> {
    let candidates: Vec<PathBuf> = match given {
        Some(path) => vec![path.to_owned()],
        None => NAMES.iter().map(PathBuf::from).collect(),
    };
    let mut refusals = Vec::new();
    for candidate in &candidates {
        // SAFETY: the library is NVIDIA's (or stands in for it), whose initialisers may run at any time; the symbols
        // are called with the types of its header.
        match unsafe { NvmlLib::new(candidate) } {
            Ok(library) => return Ok((library, candidate.clone())),
            Err(error) => refusals.push((candidate.clone(), spelled_out(&error))),
        }
    }
    Err(OpenError::LibraryNotFound { refusals })
}

/// The linker's own words; the error alone only says that it has some.
fn spelled_out(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
