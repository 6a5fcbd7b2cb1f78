//! Why a part has no MPS daemon that can be used.

use crate::{AnswerError, ControlError, DirectoryError, LimitNotHeld, MemoryTold, ProbeError};
use carve_slicing::mps::MpsLimits;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a part has no MPS daemon that can be used. The part is named by whoever tells of it.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// Its directories can not be made.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The daemon could not be run.
    #[error("{} could not be run; is the driver installed, and the path right?", program.display())]
    NotStarted {
        /// The program.
        program: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The daemon ended by itself.
    #[error("the MPS daemon ended with {status}; the end of its log: {log}")]
    Died {
        /// How it ended.
        status: String,
        /// Its last words.
        log: String,
    },
    /// The daemon runs and nobody can reach it.
    #[error("the MPS daemon runs but did not answer within {seconds} s of its start; see {}", log.display())]
    NotListening {
        /// How long was waited.
        seconds: u64,
        /// Where it writes.
        log: PathBuf,
    },
    /// The control program told of a failure.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// An answer made no sense.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// A limit was set, and something else was read back.
    #[error(
        "MPS limits were set to {} and {} % and read back as {} and {}.{} %; the part is not offered, because its clients \
         would not be limited",
        wanted.pinned_memory, wanted.active_thread_percentage,
        memory.map_or_else(|| "none".to_owned(), |memory| memory.to_string()), percentage_tenths / 10, percentage_tenths % 10
    )]
    LimitsNotTaken {
        /// What was set.
        wanted: MpsLimits,
        /// Memory as it was read back.
        memory: Option<MemoryTold>,
        /// Tenths of a percent of threads as they were read back.
        percentage_tenths: u32,
    },
    /// No client could look.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A client saw that the limits do not hold.
    #[error(transparent)]
    NotHeld(#[from] LimitNotHeld),
    /// The compute mode could not be set.
    #[error("compute mode {mode} could not be set by {}: {output}", program.display())]
    ComputeMode {
        /// The mode.
        mode: &'static str,
        /// The program.
        program: PathBuf,
        /// What it said.
        output: String,
    },
}

impl DaemonError {
    /// One word for metrics and events.
    pub fn reason(&self) -> &'static str {
        match self {
            DaemonError::Directory(_) => "Directory",
            DaemonError::NotStarted { .. } => "NotStarted",
            DaemonError::Died { .. } => "Died",
            DaemonError::NotListening { .. } => "NotListening",
            DaemonError::Control(ControlError::NoAnswer { .. }) => "NoAnswer",
            DaemonError::Control(ControlError::Absent { .. }) => "Absent",
            DaemonError::Control(_) => "Control",
            DaemonError::Answer(_) => "Answer",
            DaemonError::LimitsNotTaken { .. } => "LimitsNotTaken",
            DaemonError::Probe(_) => "Probe",
            DaemonError::NotHeld(_) => "NotHeld",
            DaemonError::ComputeMode { .. } => "ComputeMode",
        }
    }

    /// The error and everything behind it, in one line.
    pub(crate) fn story(&self) -> String {
        let mut story = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            story.push_str(&format!(": {error}"));
            source = error.source();
        }
        story
    }
}
