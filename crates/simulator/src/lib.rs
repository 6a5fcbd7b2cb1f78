//! Fleets and workloads without machines: traces are read, replayed on the real placement code, and measured.
//!
//! Everything follows from the trace and a seed. [`readers`] reads traces in several formats; [`arrivals`] orders and inflates
//! them as their experiment does; [`filling`] lets claims arrive until the fleet is full and beyond; [`measured`] has its figures;
//! [`events`] lets claims come and go through time; [`mig_queue`] queues
//! batch jobs for MIG instances.
#![warn(clippy::disallowed_methods)]

pub mod arrivals;
mod csv;
pub mod events;
pub mod filling;
pub mod measured;
pub mod mig_queue;
pub mod openb;
pub mod readers;
mod trace;

pub use trace::{Trace, TraceError, TraceNode, TracePod};
