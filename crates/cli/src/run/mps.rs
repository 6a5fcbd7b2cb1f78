//! Whether an MPS daemon is there, and what its clients are told to stay within a share.

use carve_limiter_host::Limits;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "nvidia-cuda-mps-control";
/// One that takes longer hangs, and a command would too.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a daemon would listen.
pub(crate) fn pipe() -> PathBuf {
    let named = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").filter(|path| !path.is_empty());
    named.map_or_else(|| PathBuf::from("/tmp/nvidia-mps"), PathBuf::from)
}

/// Asks the daemon; the reason where none answers.
pub(crate) fn ask() -> Result<(), String> {
    let pipe = pipe();
    if !pipe.exists() {
        return Err(format!("no MPS daemon listens in {}", pipe.display()));
    }
    let mut child = Command::new(PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{PROGRAM} can not be run: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends before it reads has no daemon; its exit code says so.
        let _ = stdin.write_all(b"get_server_list\n");
    }
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(None) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(10)),
            Ok(Some(_)) => return Err(format!("no MPS daemon listens in {}", pipe.display())),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the MPS daemon in {} does not answer", pipe.display()));
            }
        }
    }
}

/// What a client of the daemon is told to use no more multiprocessors than its share.
pub(crate) fn environment(limits: &Limits) -> Vec<(&'static str, OsString)> {
    let percentage = (limits.compute > 0).then(|| (f64::from(limits.compute) / 100.0).to_string());
    percentage.map(|told| ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", told.into())).into_iter().collect()
}

/// What it is told to use no more memory, where nobody else holds it to that. The only device that it sees is its number 0, and what the driver
/// takes for its context comes out of this.
pub(crate) fn memory(limits: &Limits) -> (&'static str, OsString) {
    ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", format!("0={}M", limits.memory >> 20).into())
}
