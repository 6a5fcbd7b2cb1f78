//! Objects with versions, in memory and in one file: what is acknowledged survives a kill, and whoever watches misses nothing.
//!
//! ```text
//!   change ──▶ decide (under the lock, on the object as it is) ──▶ log: one line ──▶ memory ──▶ recent changes ──▶ watchers
//!                                                                    │
//!                                              grown far beyond what lives: written anew, beside, and renamed
//! ```
//! The file is written before anybody is told, so a process that is killed loses nothing that it has acknowledged. It is flushed to the disk once
//! a second, so a machine that loses power may lose the last one.

mod key;
mod log;
mod store;
mod watch;

pub use key::{Key, Resource};
pub use log::{LogContent, LogError, OpenError, read_log};
pub use store::{Act, Changed, Listed, Settings, Store, WriteError};
pub use watch::{Change, TooOld, Watch, What};

/// A number that grows with every change.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Version(pub u64);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
