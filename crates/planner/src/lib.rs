//! Which geometry next, and what has to change for it.
//!
//! [`wanted`] turns profile counts into instances, [`recut`] finds the diff that keeps as much as can be kept, and
//! [`verify`] checks a diff independently of how it was found. [`plan`] says what every GPU of a host or fleet should become
//! for the claims that wait, and [`check_plan`] checks that in the same way. [`choose`] says which mechanism serves a claim and
//! why. All of it is computed before a GPU is touched.
#![warn(clippy::disallowed_methods)]

mod checker;
mod feasibility;
mod fleet;
mod mechanism;
mod plan_checker;
mod recut;
mod wanted;

pub use checker::{Flaw, verify};
pub use feasibility::{Infeasible, InfeasibleReason, feasible};
pub use fleet::{
    Ceiling, ClaimName, Demand, Effort, FleetGpu, Generation, GpuAt, GpuPlan, HostName, MigMode,
    PendingClaim, Plan, PlanError, PoolName, Quality, RunningClaim, Served, Substitution, WaitsFor, Wants,
    plan, room,
};
pub use mechanism::{Choice, Hardware, Needs, NoMechanism, Refused, Size, Way, choose};
pub use plan_checker::{PlanFlaw, check_plan};
pub use recut::{Created, Kept, PresentCompute, PresentInstance, Recut, RecutError, keep_as, recut};
pub use wanted::{WantedError, WantedInstance, wanted};
