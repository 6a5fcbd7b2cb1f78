//! Which geometry next, and what has to change for it.
//!
//! [`wanted`] turns profile counts into instances, [`recut`] finds the diff that keeps as much as can be kept, and
//! [`verify`] checks a diff independently of how it was found. [`choose`] says which mechanism serves a
//! claim and why. All of it is computed before a GPU is touched.
#![warn(clippy::disallowed_methods)]

mod checker;
mod feasibility;
mod mechanism;
mod recut;
mod wanted;

pub use checker::{Flaw, verify};
pub use feasibility::{Infeasible, InfeasibleReason, feasible};
pub use mechanism::{
    Choice, Hardware, Isolation, Named, Needs, NoMechanism, Refused, Sharing, Size, Way, choose,
};
pub use recut::{Created, Kept, PresentCompute, PresentInstance, Recut, RecutError, keep_as, recut};
pub use wanted::{WantedError, WantedInstance, wanted};
