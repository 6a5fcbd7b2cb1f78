//! Fleets and workloads without machines: traces are read, replayed on the real placement code, and measured.
//!
//! Everything follows from the trace and a seed. [`openb`] reads the published traces; [`arrivals`] orders and inflates
//! them as their experiment does; [`filling`] lets claims arrive until the fleet is full and beyond;
//! [`mig_queue`] queues batch jobs for MIG instances.
#![warn(clippy::disallowed_methods)]

pub mod arrivals;
pub mod filling;
pub mod mig_queue;
pub mod openb;
mod trace;

pub use trace::{Trace, TraceError, TraceNode, TracePod};
