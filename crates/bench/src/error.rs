//! Why a cell has no figures.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a cell has no figures.
#[derive(Debug, Error)]
pub enum CellError {
    /// It can not be done here.
    #[error("{0}")]
    NotHere(String),
    /// Somebody wants the run to end.
    #[error("stopped")]
    Stopped,
    /// A program can not be started.
    #[error("{} can not be started: {source}", program.display())]
    NotStarted {
        /// The program.
        program: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A tenant said that it can not go on, or ended.
    #[error("tenant {which}: {why}")]
    Tenant {
        /// Which, counted from 1.
        which: usize,
        /// In its own words.
        why: String,
    },
    /// A tenant did not answer.
    #[error("tenant {which} did not answer within {seconds:.0} s")]
    NoAnswer {
        /// Which, counted from 1.
        which: usize,
        /// How long was waited.
        seconds: f64,
    },
    /// The MPS daemon.
    #[error("MPS: {0}")]
    Mps(String),
    /// A setting of the card.
    #[error("{0}")]
    Setting(String),
    /// A folder for what runs.
    #[error("{}: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}
