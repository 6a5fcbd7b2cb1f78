//! What the agent and the limiter in a container say to each other, in bytes that outlive either version.
//!
//! ```text
//!   agent ──writes──▶ /run/carve/limits/<part>/<share>   Limits, Turn, overhead      the container can read it and not write it
//!   agent ◀──reads── /run/carve/usage/<part>/<share>     Region of slots             one slot for each process, written by the container
//! ```
//!
//! Shares of the same part add up. Neither side ever waits for the other, and whoever dies leaves nothing locked.
#![no_std]

pub mod faults;
mod limits;
mod pace;
mod turn;
mod usage;

pub use limits::{LIMITS_FOLDER, Limits, LimitsError, VERSION};
pub use pace::{HORIZON, Pace, Rate, Verdict};
pub use turn::{Turn, TurnCell};
pub use usage::{Head, Host, Owner, Region, SLOTS, Slot, Trouble, USAGE_FOLDER, Usage};
