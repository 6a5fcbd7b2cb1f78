//! Runs our own program on the machine in a cage, through the same simulated driver library as NVIDIA's programs.

use crate::{Cage, Outcome, built};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The built `carve`, with a state directory of its own.
#[derive(Debug)]
pub struct Carve {
    folder: TempDir,
}

impl Carve {
    /// Builds `carve` if needed and makes it a home: the driver library and `nvidia-smi` under the names it looks for.
    #[allow(clippy::panic, reason = "the panic is the test's failure")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        for (file, name) in [(built::library(), "libnvidia-ml.so.1"), (built::nvidia_smi(), "nvidia-smi")] {
            std::os::unix::fs::symlink(&file, folder.path().join(name))
                .unwrap_or_else(|error| panic!("can not link {}: {error}", file.display()));
        }
        Carve { folder }
    }

    /// Runs carve on the machine in the cage.
    pub fn run(&self, cage: &Cage, arguments: &[&str]) -> Outcome {
        self.run_with(cage, arguments, &[])
    }

    /// Runs carve with more environment than usual, such as planned faults.
    #[allow(clippy::panic, reason = "the panic is the test's failure")]
    pub fn run_with(&self, cage: &Cage, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
        let output = self
            .command(cage, arguments)
            .envs(environment.iter().copied())
            .output()
            .unwrap_or_else(|error| panic!("can not run carve: {error}"));
        Outcome {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The command line, for whoever wants to time it.
    pub fn command(&self, cage: &Cage, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .env_clear()
            .env("PATH", self.folder.path())
            .env("CARVE_NVML", self.folder.path().join("libnvidia-ml.so.1"))
            .env("CARVE_SIM_STATE", cage.state_file())
            .env("CARVE_STATE_DIR", self.folder.path().join("state"))
            .stdin(Stdio::null());
        command
    }

    /// Where its journal and checkpoints are.
    pub fn state_dir(&self) -> PathBuf {
        self.folder.path().join("state")
    }
}

impl Default for Carve {
    fn default() -> Self {
        Carve::new()
    }
}

/// The built program, beside the simulated driver library.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| built::package("carve").join("carve"))
}
