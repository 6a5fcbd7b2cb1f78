//! What a kube-scheduler asks about pods with parts of GPUs, and the answers: filter, prioritize, preempt, and what to bind.
//!
//! ```text
//!   kube-scheduler ──wire──▶ Asked: uid, priority, want ──▶ verbs, over a Book ──wire──▶ kube-scheduler
//! ```
//! Answers are functions of the [`Book`](carve_bookings::Book); none of them changes it. Only whoever has bound a pod books it.
#![warn(clippy::disallowed_methods)]

mod asked;
mod verbs;
mod want;
pub mod wire;

pub use asked::{Asked, AskedError};
pub use verbs::{binding, decide, filter, preempt, prioritize, shortlist};
pub use want::{NotServed, want_of};
