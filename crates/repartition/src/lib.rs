//! Which MIG instances to make next for pods that wait, and which to leave alone.
//!
//! ```text
//!   nodes: what agents report, what is ordered ─┐
//!   pods that wait, pods that are bound ────────┼─▶ decide ─▶ a plan for some nodes; for every other pod, why it waits
//!   rules, what happened before, the time ──────┘     │
//!                                                     └─ carve_planner::plan, checked by check_plan
//! ```
//! GPUs are cut only for pods that nothing free, and nothing that is already being made, can serve. What anybody uses, or may be
//! getting at this moment, stays. An answer depends on the facts alone, so that a controller that starts anew decides as the one before.
#![warn(clippy::disallowed_methods)]

mod besides;
mod decide;
mod defragment;
mod node_plan;
mod pod;
mod room;
mod rules;
mod whereabouts;
mod wire;

pub use besides::Amounts;
pub use decide::{
    BACKOFF, Decisions, Facts, History, NodeFacts, Ordered, SETTLING, Why, decide, retry_after,
};
pub use node_plan::{GpuChange, NodePlan};
pub use pod::{BoundPod, RESOURCES, WaitingPod, mig_wants};
pub use rules::{Assigned, Mode, Rules, assign};
pub use whereabouts::{Taint, Whereabouts, taints_of};
pub use wire::{GpuReport, Instance, InstanceReport, NodeReport, Order, OrderReport, OrderState, WireError};

/// Seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Seconds(pub u64);
