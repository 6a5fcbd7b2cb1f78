//! The state directory: a lock against a second run, and the journal that a killed run leaves behind.
//!
//! The journal is written whole to a second file, flushed, and renamed into place, so that it is either there and
//! complete or not there. It is written before the first change and removed after the last check.

use crate::Layout;
use carve_gpu_model::GpuUuid;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Where a manager keeps what must survive it.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
}

/// Old and new layout of each GPU that a run was changing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Journal {
    version: u32,
    /// What was being applied, for people.
    pub(crate) label: String,
    pub(crate) gpus: BTreeMap<GpuUuid, Change>,
}

/// Old and new layout of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) before: Layout,
    pub(crate) after: Layout,
}

const VERSION: u32 = 1;

/// How long to wait for another run: a check of one that is already right takes less.
const PATIENCE: Duration = Duration::from_secs(2);

impl Journal {
    pub(crate) fn new(label: &str, gpus: BTreeMap<GpuUuid, Change>) -> Self {
        Journal { version: VERSION, label: label.to_owned(), gpus }
    }
}

/// Why the state directory can not be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// A file or directory could not be read or written.
    #[error("{}: can not {action}; carve keeps its journal there and changes no GPU without one", .path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else is at it.
    #[error("{}: another carve is changing the GPUs of this machine; wait for it to end", .path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// The journal does not read.
    #[error(
        "{}: the journal of an interrupted run does not read; look at the GPUs with 'carve mig export', \
         then remove the file", .path.display()
    )]
    Corrupt {
        /// The journal.
        path: PathBuf,
        /// Why not.
        source: serde_json::Error,
    },
    /// The journal was written by another version.
    #[error("{}: the journal has version {found}, this carve knows {VERSION}; finish with the carve that wrote it", .path.display())]
    Version {
        /// The journal.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

/// Holds the lock as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl StateDir {
    /// A state directory; nothing is created yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        StateDir { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What an interrupted change is finished or undone by.
    pub fn journal(&self) -> PathBuf {
        self.path.join("mig-journal.json")
    }

    /// The checkpoint that is taken before every change.
    pub fn last_checkpoint(&self) -> PathBuf {
        self.path.join("mig-before-last-apply.json")
    }

    /// Whether an interrupted run left its journal.
    pub fn has_journal(&self) -> bool {
        self.journal().exists()
    }

    /// Keeps other runs out until the answer is dropped (or this process dies).
    pub(crate) fn lock(&self) -> Result<Lock, JournalError> {
        let path = self.path.join("mig.lock");
        fs::create_dir_all(&self.path).map_err(io_error("create the directory", &self.path))?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io_error("open the lock", &path))?;
        let give_up = Instant::now() + PATIENCE;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(JournalError::Busy { path }),
                Err(error) => return Err(io_error("take the lock", &path)(error.into())),
            }
        }
    }

    pub(crate) fn read(&self) -> Result<Option<Journal>, JournalError> {
        let path = self.journal();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(io_error("read the journal", &path))?,
        };
        let journal: Journal = serde_json::from_str(&text)
            .map_err(|source| JournalError::Corrupt { path: path.clone(), source })?;
        if journal.version != VERSION {
            return Err(JournalError::Version { path, found: journal.version });
        }
        Ok(Some(journal))
    }

    pub(crate) fn write(&self, journal: &Journal) -> Result<(), JournalError> {
        let path = self.journal();
        let text = serde_json::to_string(journal)
            .map_err(|source| JournalError::Corrupt { path: path.clone(), source })?;
        write_whole(&path, text.as_bytes()).map_err(io_error("write the journal", &path))
    }

    pub(crate) fn remove(&self) -> Result<(), JournalError> {
        let path = self.journal();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("remove the journal", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_owned();
    move |source| JournalError::Io { action, path, source }
}

/// Writes a file so that it is either the old one or the new one, whatever happens in between.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("json.new");
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    if let Err(error) = written {
        // Half a file takes room that is missing already.
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    // The rename itself is only on disk once the directory is.
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::write_whole;
    use std::fs;

    #[test]
    fn a_file_that_can_not_be_written_leaves_the_old_one_and_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = || {
            let entries = fs::read_dir(folder.path()).expect("the folder");
            entries.map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>()
        };
        let path = folder.path().join("state.json");
        write_whole(&path, b"old").expect("it is written");
        assert_eq!(
            (fs::read(&path).expect("it is there"), names()),
            (b"old".to_vec(), vec!["state.json".into()])
        );
        // Nothing takes the place of a folder with something in it.
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("inside")).expect("a folder");
        write_whole(&taken, b"new").expect_err("it can not be there");
        let mut left = names();
        left.sort();
        assert_eq!(left, ["state.json", "taken"]);
    }
}
