//! How MPS daemons are run on a machine.

use crate::CgroupHome;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whether clients of several users may be served together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserMode {
    /// All users together where the control program can; else one after the other.
    Together,
    /// One user after the other, as NVIDIA's daemon does.
    OneAtATime,
}

/// How MPS daemons are run.
#[derive(Debug, Clone)]
pub struct MpsSettings {
    /// Where every part has its directory: the `mps_root` that containers' mounts are taken from.
    pub root: PathBuf,
    /// The control program, by its full path: the daemon's environment has no search path. See [`MpsSettings::find`].
    pub control_program: PathBuf,
    /// `nvidia-smi`, needed only to set the compute mode.
    pub smi_program: PathBuf,
    /// Environment of daemons besides the three variables of MPS: empty, unless driver libraries are where the loader
    /// does not look.
    pub environment: BTreeMap<String, String>,
    /// Whether users are served together.
    pub users: UserMode,
    /// Whether GPUs are put into exclusive-process mode, so that no process gets past the daemon. It outlives a crash,
    /// and nobody but MPS clients can use the GPU then, so it must be asked for.
    pub set_compute_mode: bool,
    /// Whether each part's `/dev/shm` is a file system of its own with a size. It takes the right to mount; without it
    /// the folder is a plain one, and what containers write there counts against the disk.
    pub mount_shm: bool,
    /// Where daemons are moved so that they outlive the container of the process that starts them; none where that is
    /// no container. It takes a view of the machine's processes and of its cgroups.
    pub cgroup: Option<CgroupHome>,
    /// Longest wait for an answer of the control program.
    pub answer_timeout: Duration,
    /// Longest wait until a new daemon answers.
    pub start_timeout: Duration,
    /// Time between two looks at a daemon.
    pub look_interval: Duration,
    /// Wait after the first failure; each further one doubles it.
    pub first_backoff: Duration,
    /// Longest wait after a failure.
    pub longest_backoff: Duration,
    /// The log of a daemon is emptied when it is longer than this.
    pub longest_log: u64,
}

impl MpsSettings {
    /// The usual settings for a root and a control program.
    pub fn new(root: impl Into<PathBuf>, control_program: impl Into<PathBuf>) -> Self {
        MpsSettings {
            root: root.into(),
            control_program: control_program.into(),
            smi_program: PathBuf::from("nvidia-smi"),
            environment: BTreeMap::new(),
            users: UserMode::Together,
            set_compute_mode: false,
            mount_shm: true,
            cgroup: None,
            answer_timeout: Duration::from_secs(10),
            start_timeout: Duration::from_secs(20),
            look_interval: Duration::from_secs(10),
            first_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            longest_log: 4 << 20,
        }
    }

    /// A program by its full path, looked for in the folders of a search path such as `PATH` holds.
    pub fn find(program: &Path, search_path: &str) -> Option<PathBuf> {
        if program.components().count() > 1 {
            return program.is_file().then(|| program.to_owned());
        }
        search_path.split(':').map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
    }

    /// How long to wait after so many failures in a row.
    pub(crate) fn backoff(&self, failures: u32) -> Duration {
        let doubled = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first_backoff.saturating_mul(doubled).min(self.longest_backoff)
    }
}

#[cfg(test)]
mod tests {
    use super::MpsSettings;
    use std::path::Path;

    #[test]
    fn waits_double_up_to_a_minute() {
        let settings = MpsSettings::new("/r", "/p");
        let waits: Vec<u64> =
            [1, 2, 3, 6, 7, 8, 40, u32::MAX].iter().map(|n| settings.backoff(*n).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 32, 60, 60, 60, 60]);
    }

    #[test]
    fn programs_are_found_on_the_search_path() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("control");
        std::fs::write(&program, "").unwrap();
        let path = format!("/nowhere:{}", folder.path().display());
        assert_eq!(MpsSettings::find(Path::new("control"), &path), Some(program.clone()));
        assert_eq!(MpsSettings::find(&program, ""), Some(program));
        assert_eq!(MpsSettings::find(Path::new("other"), &path), None);
    }
}
