//! A simulated machine kept in a file, so that several processes see and change the same GPUs.
//!
//! ```text
//!   read verb    lock shared ─▶ re-read the file if it was replaced ─▶ ask ─▶ unlock
//!   change verb  lock alone ─▶ re-read ─▶ act ─▶ write beside, sync, rename ─▶ unlock
//! ```
//! The lock is `<file>.lock`, which is never removed. The file itself is only ever replaced whole, so a process that
//! is killed at any moment leaves either the state before its verb or the state after it.

pub mod environment;
mod error;
mod file;
mod lock;
mod machine;
mod nodes;

pub use environment::{Described, EnvironmentError};
pub use error::StoreError;
pub use machine::SharedMachine;
pub use nodes::DeviceNodes;
