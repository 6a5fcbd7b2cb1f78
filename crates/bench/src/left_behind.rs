//! What runs that were killed left behind: their folders, and MPS daemons in them.

use crate::mps;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of runs are called so, with the number of their process.
const PREFIX: &str = "carve-bench-";

/// The folder of this process's run, below a folder for what is temporary.
pub(crate) fn own(temporary: &Path) -> PathBuf {
    temporary.join(format!("{PREFIX}{}", std::process::id()))
}

/// The layout of a GPU before a run cut it, and that a run set the length of turns: notes in its folder, for whoever comes after it was
/// killed.
pub(crate) const LAYOUT: &str = "mig-checkpoint.json";
pub(crate) const TURNS: &str = "turns-were-set";

/// What was found of earlier runs.
#[derive(Debug)]
pub struct LeftBehind {
    /// The folder of this process's run; it is not made yet.
    pub own: PathBuf,
    /// Folders of runs that were killed while settings of the card were changed.
    pub changed: Vec<PathBuf>,
}

/// Clears away what runs left whose process has ended. Where they had changed settings of the card, their folders stay until those are put back
/// ([`crate::Bench::put_back_left_behind`]).
pub fn clear_left_behind(temporary: &Path, mps_control: Option<&Path>) -> LeftBehind {
    let mut changed = Vec::new();
    let entries = fs::read_dir(temporary).into_iter().flatten().flatten();
    for folder in entries.map(|entry| entry.path()) {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let pid = name.strip_prefix(PREFIX).and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        // One that may not be asked is somebody else's, and is there.
        if pid.is_none_or(|pid| test_kill_process(pid) != Err(Errno::SRCH)) {
            continue;
        }
        if let Some(program) = mps_control {
            mps::end_left_behind(program, &folder);
        }
        if folder.join(LAYOUT).exists() || folder.join(TURNS).exists() {
            changed.push(folder);
        } else {
            let _ = fs::remove_dir_all(&folder);
        }
    }
    LeftBehind { own: own(temporary), changed }
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, clear_left_behind};

    #[test]
    fn only_what_the_dead_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: String| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let dead = make(format!("{PREFIX}{}", i32::MAX));
        let alive = make(format!("{PREFIX}{}", std::os::unix::process::parent_id()));
        let other = make("letters".to_owned());
        let cut = make(format!("{PREFIX}{}", i32::MAX - 1));
        std::fs::write(cut.join(super::LAYOUT), "").unwrap();
        let left = clear_left_behind(folder.path(), None);
        assert!(!dead.exists() && alive.exists() && other.exists());
        assert!(left.own.ends_with(format!("{PREFIX}{}", std::process::id())) && !left.own.exists());
        assert_eq!(left.changed, std::slice::from_ref(&cut), "what must be put back first stays");
        assert!(cut.exists());
    }
}
