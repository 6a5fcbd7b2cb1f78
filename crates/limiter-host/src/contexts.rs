//! What a process's context takes of a GPU's memory, remembered in files so that it is measured once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder of what was measured under one driver; another driver's contexts take something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contexts {
    folder: PathBuf,
    driver: String,
}

impl Contexts {
    /// What is in a folder for a version of the driver; the folder need not be there.
    pub fn new(folder: &Path, driver: &str) -> Self {
        // Whatever a driver calls its version, it stays one name in the folder.
        let driver = driver.replace(['/', '\0'], "_");
        Contexts { folder: folder.to_owned(), driver }
    }

    /// Bytes that a context takes of a GPU, if it was measured. `of` is the GPU's UUID, and whatever else makes a difference.
    pub fn known(&self, of: &str) -> Option<u64> {
        // What does not read was not written here, and is measured anew.
        fs::read_to_string(self.path(of)).ok()?.trim().parse().ok()
    }

    /// Remembers what was measured.
    pub fn remember(&self, of: &str, bytes: u64) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let path = self.path(of);
        // Others read it at any time, so it is never half written.
        let beside = path.with_extension(format!("new-{}", std::process::id()));
        fs::write(&beside, format!("{bytes}\n"))?;
        fs::rename(&beside, path)
    }

    fn path(&self, of: &str) -> PathBuf {
        self.folder.join(format!("{of}@{}.context", self.driver))
    }
}

#[cfg(test)]
mod tests {
    use super::Contexts;

    #[test]
    fn what_was_measured_is_known_until_the_driver_changes() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("contexts");
        let contexts = Contexts::new(&folder, "570.86.15");
        assert_eq!(contexts.known("GPU-1"), None);
        contexts.remember("GPU-1", 1 << 29).expect("a file");
        contexts.remember("GPU-1", 1 << 28).expect("a file");
        assert_eq!(contexts.known("GPU-1"), Some(1 << 28));
        assert_eq!(contexts.known("GPU-2"), None);
        assert_eq!(Contexts::new(&folder, "580.65.06").known("GPU-1"), None);
        let files = std::fs::read_dir(&folder).expect("the folder").filter_map(Result::ok);
        let paths: Vec<_> = files.map(|entry| entry.path()).collect();
        assert_eq!(paths.len(), 1, "{paths:?}");
        std::fs::write(&paths[0], "half a wo").expect("a file");
        assert_eq!(contexts.known("GPU-1"), None);
    }
}
