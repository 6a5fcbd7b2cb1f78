//! A machine without a GPU for tests: the stand-in for the control program, and a root of its own for every test.

#[path = "../../../nvml-sim/tests/support/built.rs"]
mod built;

use carve_gpu_model::Mebibytes;
use carve_mps::{Mps, MpsSettings, PartState, PartStatus};
use carve_slicing::PartId;
use carve_slicing::mps::MpsLimits;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::sync::watch;

/// Far longer than anything takes; only a test that fails waits so long.
const AT_MOST: Duration = Duration::from_secs(180);

/// A root for daemons, which end with it.
pub(crate) struct Machine {
    root: tempfile::TempDir,
    program: PathBuf,
}

/// Statuses of all parts.
pub(crate) type Statuses = watch::Receiver<BTreeMap<PartId, PartStatus>>;

#[allow(dead_code, reason = "not every test that includes this file needs everything")]
impl Machine {
    pub(crate) fn new() -> Self {
        let program = built::package("carve-nvml-sim").join("nvidia-cuda-mps-control");
        // Unix sockets have short names, so the root is not below a long target folder.
        Machine { root: tempfile::tempdir().unwrap(), program }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Settings that try again soon, so that tests need not wait.
    pub(crate) fn settings(&self) -> MpsSettings {
        settings(self.root(), &self.program)
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    fn folder(&self, part: &PartId) -> PathBuf {
        self.root().join(part.as_str())
    }

    /// What the daemons of a part were told, in order; `start` stands before the commands of each.
    pub(crate) fn commands(&self, part: &PartId) -> Vec<String> {
        let text = fs::read_to_string(self.folder(part).join("log/commands")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn log_file(&self, part: &PartId, name: &str) -> String {
        fs::read_to_string(self.folder(part).join("log").join(name)).unwrap()
    }

    /// The process of a part's daemon.
    pub(crate) fn pid(&self, part: &PartId) -> Pid {
        let text = fs::read_to_string(self.folder(part).join("pipe/nvidia-cuda-mps-control.pid")).unwrap();
        Pid::from_raw(text.parse().unwrap()).unwrap()
    }

    /// Speaks to the daemon of a part as somebody else.
    pub(crate) fn tell(&self, part: &PartId, command: &str) -> String {
        let mut child = Command::new(&self.program)
            .env_clear()
            .env("CUDA_MPS_PIPE_DIRECTORY", self.folder(part).join("pipe"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(command.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    /// Makes something go wrong from now on.
    pub(crate) fn break_at(&self, part: &PartId, fault: &str) {
        let pipe = self.folder(part).join("pipe");
        fs::create_dir_all(&pipe).unwrap();
        fs::write(pipe.join("fault.new"), fault).unwrap();
        fs::rename(pipe.join("fault.new"), pipe.join("fault")).unwrap();
    }

    pub(crate) fn repair(&self, part: &PartId) {
        fs::remove_file(self.folder(part).join("pipe/fault")).unwrap();
    }

    /// An `nvidia-smi` that writes down what it is told.
    pub(crate) fn recording_smi(&self) -> (PathBuf, PathBuf) {
        use std::os::unix::fs::PermissionsExt;
        let (program, record) = (self.root().join("smi"), self.root().join("smi.record"));
        fs::write(&program, format!("#!/bin/sh\necho \"$*\" >> {}\n", record.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        (program, record)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let entries = fs::read_dir(self.root.path()).into_iter().flatten().flatten();
        for entry in entries {
            let file = entry.path().join("pipe/nvidia-cuda-mps-control.pid");
            let pid = fs::read_to_string(file).ok().and_then(|text| Pid::from_raw(text.parse().ok()?));
            // A daemon that was killed leaves its number behind, which another process may have by now.
            let is_daemon = |pid: &Pid| {
                fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).ok()
                    == self.program.canonicalize().ok()
            };
            if let Some(pid) = pid.filter(is_daemon) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

pub(crate) fn settings(root: &Path, program: &Path) -> MpsSettings {
    MpsSettings {
        mount_shm: false,
        look_interval: Duration::from_millis(30),
        first_backoff: Duration::from_millis(10),
        longest_backoff: Duration::from_millis(40),
        ..MpsSettings::new(root, program)
    }
}

#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn lives(pid: Pid) -> bool {
    test_kill_process(pid).is_ok()
}

#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
}

pub(crate) fn part(name: &str) -> PartId {
    PartId::new(name)
}

pub(crate) fn limits(memory: u64, percentage: u32) -> MpsLimits {
    MpsLimits { pinned_memory: Mebibytes(memory), active_thread_percentage: percentage }
}

/// Wants one part alone.
pub(crate) fn want(mps: &mut Mps, part: &PartId, limits: MpsLimits) {
    mps.ensure(&BTreeMap::from([(part.clone(), limits)]));
}

/// Waits until the status of a part is as wished, and fails with the last one otherwise.
pub(crate) async fn until(
    statuses: &mut Statuses,
    part: &PartId,
    mut wish: impl FnMut(&PartStatus) -> bool,
) -> PartStatus {
    let found = tokio::time::timeout(
        AT_MOST,
        statuses.wait_for(|statuses| statuses.get(part).is_some_and(&mut wish)),
    )
    .await
    .map(|found| found.unwrap().get(part).cloned().unwrap());
    found.unwrap_or_else(|_| {
        panic!("it did not come to that; the last was {:#?}", statuses.borrow().get(part))
    })
}

pub(crate) async fn ready(statuses: &mut Statuses, part: &PartId) -> PartStatus {
    until(statuses, part, PartStatus::is_ready).await
}

/// Waits until a part is told of no longer.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) async fn gone(statuses: &mut Statuses, part: &PartId) {
    let found =
        tokio::time::timeout(AT_MOST, statuses.wait_for(|statuses| !statuses.contains_key(part))).await;
    assert!(found.is_ok(), "it did not go");
}

/// Waits for a failure of a kind.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) async fn failed(statuses: &mut Statuses, part: &PartId, reason: &str) -> PartStatus {
    until(statuses, part, |status| matches!(&status.state, PartState::Failed(why) if why.reason == reason))
        .await
}
