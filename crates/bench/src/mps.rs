//! An MPS daemon of this run alone, in a folder of its own.

use crate::CellError;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a new daemon may take to listen.
const START: Duration = Duration::from_secs(20);
/// How long it may take to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(5);
const KNOCK: Duration = Duration::from_millis(10);

/// A daemon that runs.
#[derive(Debug)]
pub(crate) struct MpsDaemon {
    way: Way,
    child: Child,
}

/// How to reach a daemon.
#[derive(Debug, Clone)]
struct Way {
    program: PathBuf,
    pipe: PathBuf,
    log: PathBuf,
    device: Option<String>,
}

impl MpsDaemon {
    /// Starts one for a device, and waits until it listens.
    pub(crate) fn start(program: &Path, folder: &Path, device: &str) -> Result<Self, CellError> {
        let way = Way {
            program: program.to_owned(),
            pipe: folder.join("mps"),
            log: folder.join("mps-log"),
            device: Some(device.to_owned()),
        };
        for path in [&way.pipe, &way.log] {
            fs::create_dir_all(path).map_err(|source| CellError::Folder { path: path.clone(), source })?;
        }
        let mut command = way.command();
        command.arg("-f").process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = command.spawn();
        let child =
            started.map_err(|source| CellError::NotStarted { program: way.program.clone(), source })?;
        let mut daemon = MpsDaemon { way, child };
        let deadline = Instant::now() + START;
        while daemon.way.ask("get_server_list").is_none() {
            if let Ok(Some(status)) = daemon.child.try_wait() {
                return Err(CellError::Mps(format!(
                    "the daemon ended at once ({status}); another may have the GPU"
                )));
            }
            if Instant::now() >= deadline {
                return Err(CellError::Mps(format!(
                    "the daemon does not listen after {} s",
                    START.as_secs()
                )));
            }
            sleep(KNOCK);
        }
        Ok(daemon)
    }

    /// What clients need.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("CUDA_MPS_PIPE_DIRECTORY", self.way.pipe.display().to_string()),
            ("CUDA_MPS_LOG_DIRECTORY", self.way.log.display().to_string()),
        ]
    }
}

impl Drop for MpsDaemon {
    /// Ends it and its servers, by asking and then by force.
    fn drop(&mut self) {
        let servers = self.way.servers();
        let _ = self.way.ask("quit");
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(KNOCK);
        }
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
        end(&servers);
        let _ = fs::remove_dir_all(&self.way.pipe);
    }
}

/// Servers that outlive their daemon hold the GPU.
fn end(servers: &[Pid]) {
    let deadline = Instant::now() + PATIENCE;
    while servers.iter().any(|server| test_kill_process(*server).is_ok()) && Instant::now() < deadline {
        sleep(KNOCK);
    }
    for server in servers {
        let _ = kill_process(*server, Signal::KILL);
    }
}

/// Ends a daemon that an earlier run left in a folder.
pub(crate) fn end_left_behind(program: &Path, folder: &Path) {
    let (pipe, log) = (folder.join("mps"), folder.join("mps-log"));
    if !pipe.exists() {
        return;
    }
    let way = Way { program: program.to_owned(), pipe, log, device: None };
    let servers = way.servers();
    let _ = way.ask("quit");
    end(&servers);
}

impl Way {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("CUDA_MPS_PIPE_DIRECTORY", &self.pipe).env("CUDA_MPS_LOG_DIRECTORY", &self.log);
        command.envs(self.device.as_ref().map(|device| ("CUDA_VISIBLE_DEVICES", device)));
        command
    }

    fn servers(&self) -> Vec<Pid> {
        let told = self.ask("get_server_list").unwrap_or_default();
        told.lines().filter_map(|line| line.trim().parse().ok()).filter_map(Pid::from_raw).collect()
    }

    /// The answer to a command; none where no daemon answers.
    fn ask(&self, question: &str) -> Option<String> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        if let Some(mut input) = child.stdin.take() {
            // One that ends before it reads has no daemon; its exit code says so.
            let _ = input.write_all(format!("{question}\n").as_bytes());
        }
        let deadline = Instant::now() + PATIENCE;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = child.kill();
            }
            sleep(Duration::from_millis(2));
        }
        let output = child.wait_with_output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
