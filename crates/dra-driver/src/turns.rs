//! How long the turns of containers on a GPU are, set through the driver's own program.

use carve_gpu_model::GpuUuid;
use std::fmt::Debug;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Sets the length of turns on a GPU.
pub trait SetTurns: Debug + Send + Sync {
    /// Sets it, as the driver counts it: 0 is its own choice, 1 short, 2 medium, 3 long.
    fn set(&self, gpu: &GpuUuid, interval: u32) -> Result<(), String>;
}

/// Through `nvidia-smi`, because NVML has no call for it.
#[derive(Debug, Clone)]
pub struct SmiTurns {
    /// The program.
    pub program: PathBuf,
    /// Its environment besides that of this process.
    pub environment: Vec<(String, String)>,
}

/// How long the program may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl SetTurns for SmiTurns {
    fn set(&self, gpu: &GpuUuid, interval: u32) -> Result<(), String> {
        let program = self.program.display();
        let mut command = Command::new(&self.program);
        command.args(["compute-policy", "-i", &gpu.0, &format!("--set-timeslice={interval}")]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{program} can not be run: {error}"))?;
        let give_up = Instant::now() + PATIENCE;
        loop {
            match child.try_wait() {
                Ok(Some(_)) => break,
                Ok(None) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(2)),
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(format!("{program} does not answer within {} s", PATIENCE.as_secs()));
                }
                Err(error) => return Err(format!("{program} can not be waited for: {error}")),
            }
        }
        let output = child.wait_with_output().map_err(|error| format!("{program}: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(format!("{program} compute-policy: {}", String::from_utf8_lossy(&said).trim()))
    }
}
