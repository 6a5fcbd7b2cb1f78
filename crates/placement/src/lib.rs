//! Which slice serves which claim, and why.
//!
//! A [`Fleet`] is many nodes and what is left of each. A [`Placer`] says where the next [`Claim`] goes, by a [`Policy`] and by
//! what the fleet is usually asked for ([`Workload`]). [`preferred`] answers kubelet's question which of a resource's free
//! devices a container should get.
#![warn(clippy::disallowed_methods)]

pub mod bounds;
mod claim;
mod dice;
mod explain;
mod fleet;
mod linear;
mod node;
mod placer;
mod policies;
pub mod preferred;
mod tournament;
mod workload;

pub use carve_gpu_model::{Mechanism, Mechanisms};
pub use claim::{Claim, CpuMilli, GpuMilli, ModelId, Models, Together, WHOLE};
pub use dice::Dice;
pub use explain::{Candidate, Explanation, Refused, explain};
pub use fleet::{Class, ClassIndex, Fleet, FleetError, NodeIndex, Spot};
pub use node::{GpuSet, MOST_GPUS, Misfit, NodeRoom, NodeShape};
pub use placer::Placer;
pub use policies::{Affinity, BidPrice, Fragmentation, Policy, Prices, Score, Tuning, UnknownPolicy};
pub use workload::{Typical, Workload};
