//! A record of every call, for people who want to know what a program asked of CUDA, in one file with the simulated NVML's.

use carve_sim_store::environment::filled;
use std::ffi::c_uint;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;

/// Where the record goes, if anywhere.
const VARIABLE: &str = "CARVE_SIM_TRACE";

fn file() -> Option<&'static File> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let open = || {
        let path = filled(VARIABLE).ok().flatten()?;
        OpenOptions::new().create(true).append(true).open(path).ok()
    };
    FILE.get_or_init(open).as_ref()
}

/// Appends one line. A record that can not be written is no reason to fail the call.
pub(crate) fn record(name: &str, code: c_uint) {
    if let Some(mut file) = file() {
        // One write a line, so that lines of several threads and processes do not mix.
        let _ = file.write_all(format!("{name} -> {code}\n").as_bytes());
    }
}
