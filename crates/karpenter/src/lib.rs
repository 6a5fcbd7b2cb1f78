//! What autoscalers must be told so that they bring machines for parts of GPUs.
//!
//! A cloud lists how many GPUs a machine has; what its node will advertise once it is cut is known only here. [`compile`] makes of a
//! [`Pool`] one Karpenter NodePool and one NodeOverlay for each kind of machine in it, whose capacity is what [`predicted`] says such a node
//! advertises. [`node_groups`] says the same in tags of auto scaling groups. [`keep`] compares what is wanted with what a cluster has, and
//! [`judge`] says of a new node whether it is what was promised. Where Karpenter can not be told, [`changes`] says which pods stand in
//! for those that wait, and [`Stage`] when a node that came for them is cut. [`translate`] brings Karpenter's documents of v1alpha5 to v1.
#![warn(clippy::disallowed_methods)]

mod arrival;
mod autoscaler;
mod compile;
mod keep;
mod machines;
mod node_pool;
mod overlay;
mod pool;
mod promise;
mod refusal;
mod stage;
mod stand_ins;
mod translate;

pub use arrival::{Arrival, BROKEN, HARDWARE_READY, HardwareReady, Judgement, KEPT, LOST_AFTER, judge};
pub use autoscaler::{NodeGroup, node_groups};
pub use compile::{Compiled, compile, compile_all};
pub use keep::{Kind, Named, POLICY, PolicySteps, REMOVE, Steps, There, WRITTEN, Want, keep};
pub use overlay::Overlay;
pub use pool::{CapacityType, ChosenBy, Cut, MigCut, NodeClass, Pool, ToldBy, WeightBand};
pub use promise::{Broken, GPU, GPU_SHARED, Promise, predicted};
pub use refusal::Refusal;
pub use stage::Stage;
pub use stand_ins::{Amounts, Changes, Place, Situation, StandIn, Waiting, changes, least_of_each_gpu};
pub use translate::{Note, Translation, translate};

/// Label of nodes: how their GPUs are cut.
pub const PROFILE: &str = "carve.dev/profile";
/// Taint of nodes whose GPUs are not yet cut; pods wait until it is gone.
pub const NOT_READY: &str = "carve.dev/not-ready";
/// Label of nodes for which stand-ins asked Karpenter.
pub const BROUGHT_BY: &str = "carve.dev/brought-by";
/// Seconds after which Karpenter takes a machine away that stand-ins brought and that has no pods; until then it must be cut.
pub const CUT_WITHIN: u32 = 900;
/// Label of nodes of groups that the cluster autoscaler has: the policy that they are for.
pub const POOL: &str = "carve.dev/pool";
