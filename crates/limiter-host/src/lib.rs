//! The other side of the limiter: shares that are left for processes, what they use, and whose turn it is.
//!
//! ```text
//!   Share::create ──▶ limits/<part>/<name>   read by the limiter, which is loaded into every process of the share
//!        │            usage/<part>/<name>    written by it
//!        ▼
//!   Keeper::look ──▶ arbiter::plan ──▶ Turn for each share, said again before it is too old to count
//! ```
//!
//! [`arbiter`] decides and is pure; [`Keeper`] reads, asks it and says what it answered, and its caller sleeps in between. [`Runs`] are
//! commands on a machine without an agent, which find each other in a folder. [`Contexts`] remembers what a process takes of a GPU before it
//! allocates anything, [`Overhead`] what all have beyond what they count.

pub mod arbiter;
mod contexts;
mod keeper;
mod memory;
mod overhead;
mod runs;
mod share;

pub use carve_limiter_abi::{Limits, Owner, Trouble, Turn, Usage};
pub use contexts::Contexts;
pub use keeper::{Keeper, monotonic};
pub use overhead::Overhead;
pub use runs::{Arbiter, Entry, LIBRARY, Run, RunError, Runs, SeenRun};
pub use share::{Counters, Share, ShareError, Snapshot};
