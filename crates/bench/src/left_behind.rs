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

/// Clears away what runs left whose process has ended, and answers the folder of this one's.
pub fn clear_left_behind(temporary: &Path, mps_control: Option<&Path>) -> PathBuf {
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
        let _ = fs::remove_dir_all(&folder);
    }
    own(temporary)
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
        let own = clear_left_behind(folder.path(), None);
        assert!(!dead.exists() && alive.exists() && other.exists());
        assert!(own.ends_with(format!("{PREFIX}{}", std::process::id())) && !own.exists());
    }
}
