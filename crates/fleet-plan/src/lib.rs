//! Where the pods of manifests land on given machines, by which mechanism, what stays pending and why, and what it costs.
//!
//! [`plan`] works in two passes. Pods that are served by MIG choose first, because only some GPUs can serve them, and their
//! GPUs are cut to serve as many of them as can be. Everything else is placed on what is left by bid prices. [`files`] turns
//! a plan into the configuration to apply.
#![warn(clippy::disallowed_methods)]

mod cost;
mod demand;
mod files;
mod mig;
mod nodes;
mod one_way;
mod plan;
mod rest;

pub use cost::{Cost, NoCost};
pub use files::{MixedWays, PlanFile, files};
pub use mig::MigCut;
pub use nodes::{NodeType, NodesError, Pool, pools};
pub use plan::{Landing, Part, Pending, Plan, PlanError, PlannedNode, PlannedWorkload, Settings, plan};
