//! A queue of batch jobs for MIG instances on a few GPUs: who waits how long under which policy.
//!
//! Jobs name a profile, arrive, wait, run and end; instances take time to make and to destroy. [`jobs`] reads and makes job traces,
//! [`Policy`] says who is next and where, [`simulate`] runs it. Nothing but the trace and the policy decides the result.

mod blocks;
mod engine;
pub mod jobs;
mod places;
mod policy;

pub use engine::{Costs, Outcome, Start, simulate};
pub use jobs::{Job, JobsError};
pub use places::pack;
pub use policy::{Moves, Order, Placing, Policy};
