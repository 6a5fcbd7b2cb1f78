//! The compute mode of a GPU, for those who want no process to get past the MPS daemon.

use crate::{DaemonError, MpsSettings};
use carve_slicing::PartId;
use std::process::Stdio;
use tokio::process::Command;
use tokio::time::timeout;

/// Who may use a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComputeMode {
    /// One process, which is then the MPS server.
    ExclusiveProcess,
    /// Everybody.
    Default,
}

impl ComputeMode {
    fn name(self) -> &'static str {
        match self {
            ComputeMode::ExclusiveProcess => "EXCLUSIVE_PROCESS",
            ComputeMode::Default => "DEFAULT",
        }
    }
}

/// Sets the mode of a whole GPU, if settings ask for it. A MIG device has none of its own and keeps that of its GPU.
pub(crate) async fn set(settings: &MpsSettings, part: &PartId, mode: ComputeMode) -> Result<(), DaemonError> {
    if !settings.set_compute_mode || part.as_str().starts_with("MIG-") {
        return Ok(());
    }
    let failed = |output: String| DaemonError::ComputeMode {
        mode: mode.name(),
        program: settings.smi_program.clone(),
        output,
    };
    let run = Command::new(&settings.smi_program)
        .args(["-i", part.as_str(), "-c", mode.name()])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match timeout(settings.answer_timeout, run).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Err(_) => return Err(failed("it did not end".to_owned())),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(failed(String::from_utf8_lossy(&said).trim().to_owned()))
}
