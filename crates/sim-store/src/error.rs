//! Why a state file can not be used, in words that say what to do about it.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a machine's state file can not be opened, read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is no such file, and no machine was named to start one.
    #[error(
        "{path}: there is no state file; name the machine to simulate, and the file is made for it",
        path = path.display()
    )]
    Absent {
        /// The state file.
        path: PathBuf,
    },
    /// The file is there and holds another machine than the one asked for.
    #[error(
        "{path}: holds the machine '{held}', but '{wanted}' was asked for; use another state file, ask for '{held}', \
         or remove the file to start '{wanted}' anew",
        path = path.display()
    )]
    OtherMachine {
        /// The state file.
        path: PathBuf,
        /// The machine in it.
        held: String,
        /// The machine asked for.
        wanted: String,
    },
    /// The file holds the machine of that name, but with other GPUs or another driver.
    #[error(
        "{path}: holds '{name}' with other GPUs or another driver than described now; use another state file, or \
         remove it to start the machine anew",
        path = path.display()
    )]
    ChangedMachine {
        /// The state file.
        path: PathBuf,
        /// What both call themselves.
        name: String,
    },
    /// The file holds something else.
    #[error(
        "{path}: is not the state of a simulated machine (expected one JSON object with \"format\": {format} and \
         \"state\"): {reason}; remove it to start the machine anew",
        path = path.display(),
        format = crate::file::FORMAT
    )]
    Garbage {
        /// The state file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system refused.
    #[error("{path}: can not {what}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The refusal.
        source: io::Error,
    },
}

impl StoreError {
    /// Adds the path and the attempt to a refusal.
    pub(crate) fn io(path: impl Into<PathBuf>, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| StoreError::Io { path, what, source }
    }
}
