//! The lock beside the state file: shared for reading, alone for changing.

use crate::StoreError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A held lock; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Lock(
    /// The kernel drops the lock with the last descriptor, so closing is unlocking.
    #[allow(dead_code, reason = "held for its drop")]
    File,
);

/// `<file>.lock`
pub(crate) fn lock_path(state_file: &Path) -> PathBuf {
    let mut name = state_file.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

impl Lock {
    /// Waits until nobody is changing the machine.
    pub(crate) fn shared(state_file: &Path) -> Result<Self, StoreError> {
        Self::take(state_file, FlockOperation::LockShared)
    }

    /// Waits until nobody else looks at the machine or changes it.
    pub(crate) fn alone(state_file: &Path) -> Result<Self, StoreError> {
        Self::take(state_file, FlockOperation::LockExclusive)
    }

    /// Opens the lock file anew each time: a descriptor of its own is what keeps two threads of one process apart.
    fn take(state_file: &Path, operation: FlockOperation) -> Result<Self, StoreError> {
        let path = lock_path(state_file);
        let file = open(&path).map_err(StoreError::io(&path, "open the lock file"))?;
        loop {
            match flock(&file, operation) {
                Ok(()) => return Ok(Lock(file)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(StoreError::io(&path, "take the lock")(error.into())),
            }
        }
    }
}

/// Somebody who may only read the directory can still take the shared lock.
fn open(path: &Path) -> io::Result<File> {
    match OpenOptions::new().create(true).truncate(false).write(true).open(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            File::open(path)
        }
        opened => opened,
    }
}
