//! A record of every call, for people who want to know what a program asked of NVML.

use std::fs::OpenOptions;
use std::io::Write;

/// Where the record goes, if anywhere.
const VARIABLE: &str = "CARVE_SIM_TRACE";

/// Appends one line. A record that can not be written is no reason to fail the call.
pub(crate) fn record(name: &str, code: u32) {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else { return };
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        // One write a line, so that lines of several processes do not mix.
        let _ = file.write_all(format!("{name} -> {code}\n").as_bytes());
    }
}
