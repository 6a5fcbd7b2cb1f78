//! What keeps GPUs of a machine from being shared, found out before it is tried, and what to do about it.
//!
//! ```text
//!   look: files, programs ──▶ Facts ──▶ judge ──▶ Findings: well, doubtful, wrong; and what to do
//! ```
//! [`judge`] is pure: what is said of a machine depends on the facts alone.

mod facts;
mod judge;
mod look;
mod version;

pub use facts::{Driver, Facts, Program};
pub use judge::{Finding, Verdict, judge};
pub use look::{Places, look};
pub use version::Version;
