//! The next geometry of every MIG GPU of a host or a fleet: what is asked for, what there is, and the plan.
//!
//! In this order: most claims served; fewest instances destroyed, never one in use; most room left for what may come; fewest GPUs
//! switched to MIG mode; fewest GPUs touched. [`plan`] computes it, [`crate::check_plan`] checks it without knowing how.
//!
//! `alike` groups what need not be told apart, `cuts` lists what one GPU can become, `bound` says what no plan can exceed, `ceiling`
//! asks that alone, `search` combines the GPUs, `planning` turns the result into steps, `report` into words.
//! `docs/design/mig-planning.md` has the method.

mod alike;
mod bound;
mod ceiling;
mod cuts;
mod planning;
mod report;
mod search;
mod suits;

use crate::{PresentInstance, Recut};
use carve_gpu_model::{Geometry, GpuIndex, GpuInstanceId, Mebibytes, Placed, ProfileName, ProfileTable};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

pub use ceiling::Ceiling;
pub use cuts::room;
pub use planning::plan;

/// Name of a host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(pub String);

/// Name of a claim, unique among all claims of a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimName(pub String);

/// Name of a pool: GPUs that claims tell apart from others although their tables may be the same, such as those of one product.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PoolName(pub Arc<str>);

/// Where a GPU is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuAt {
    /// Its host.
    pub host: HostName,
    /// Its position there.
    pub gpu: GpuIndex,
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for GpuAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GPU {}", self.host, self.gpu)
    }
}

/// Whether a GPU can be cut at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MigMode {
    /// MIG mode is on.
    On,
    /// MIG mode is off and nothing runs: it can be switched on.
    Off,
    /// MIG mode is off and the whole GPU is in use: it stays as it is.
    OffAndInUse,
}

/// One GPU that may be cut.
#[derive(Debug, Clone)]
pub struct FleetGpu {
    /// Where it is.
    pub at: GpuAt,
    /// The pool it belongs to; where no claim names a pool, all may have the same.
    pub pool: PoolName,
    /// What it can be cut into.
    pub table: Arc<ProfileTable>,
    /// Its MIG mode.
    pub mode: MigMode,
    /// What it is cut into.
    pub instances: Vec<PresentInstance>,
}

/// What a claim asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wants {
    /// One instance of a profile.
    Profile(ProfileName),
    /// One instance with at least so much.
    AtLeast {
        /// Memory; a profile whose memory is not known does not serve.
        memory: Mebibytes,
        /// Compute slices.
        slices: u8,
    },
    /// One instance of the profile that is named for the pool of its GPU; other pools do not serve it.
    InPools(BTreeMap<PoolName, ProfileName>),
}

/// A claim that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingClaim {
    /// Its name.
    pub name: ClaimName,
    /// What it asks for.
    pub wants: Wants,
}

/// A claim that has its instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningClaim {
    /// Its name.
    pub name: ClaimName,
    /// The GPU it runs on.
    pub on: GpuAt,
    /// The instance it holds.
    pub instance: GpuInstanceId,
}

/// Whether a claim for a profile may get a profile that has more of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Substitution {
    /// The profile that was asked for, and no other.
    #[default]
    Never,
    /// Any profile with at least its slices, memory slots, engines and graphics.
    Larger,
}

/// Everything that is asked of the GPUs.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    /// Claims that wait, the one served first among equals at the front.
    pub pending: Vec<PendingClaim>,
    /// Claims that run; their instances stay, whether a process is in them or not.
    pub running: Vec<RunningClaim>,
    /// Whether larger profiles serve.
    pub substitution: Substitution,
}

/// How much may be remembered while planning. With [`Effort::HOST`] a host's plan is optimal in all cases seen; where it may not be, the
/// plan says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// The most intermediate results kept for each GPU.
    pub states: usize,
}

impl Effort {
    /// For one host.
    pub const HOST: Effort = Effort { states: 200_000 };
    /// For many hosts: results of a fleet differ little beyond it, and time grows with it.
    pub const FLEET: Effort = Effort { states: 64 };

    /// The one that suits a number of GPUs.
    pub fn for_gpus(gpus: usize) -> Effort {
        if gpus <= 16 { Self::HOST } else { Self::FLEET }
    }
}

/// Number of a plan. An executor refuses a plan that was not made for what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// What becomes of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuPlan {
    /// What stays, goes and comes.
    pub recut: Recut,
    /// What the GPU holds afterwards.
    pub geometry: Geometry,
    /// Whether MIG mode has to be switched on first.
    pub switch_mode_on: bool,
}

/// The instance a claim gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The GPU.
    pub on: GpuAt,
    /// Profile and place.
    pub placed: Placed,
    /// Its name.
    pub profile: ProfileName,
    /// The instance, where it exists already; otherwise it is made.
    pub existing: Option<GpuInstanceId>,
}

/// Why a claim goes on waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    /// No GPU has a profile that serves it. The nearest profile that there is, if any is near.
    AnotherGpu {
        /// A profile that comes nearest.
        nearest: Option<ProfileName>,
    },
    /// Instances in use leave no room on any GPU that could serve it.
    InstancesInUse {
        /// How many GPUs could serve it if they were empty.
        gpus: usize,
    },
    /// There would be room, but as many claims as possible are served and this one is not among them.
    OtherClaims {
        /// How many GPUs have room for it beside what is in use.
        gpus: usize,
    },
}

/// How good the plan is, and how well that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quality {
    /// No plan serves more claims than this.
    pub serves_at_most: u64,
    /// Whether every choice that could be better was looked at: the plan is then the best in every objective.
    pub exhaustive: bool,
    /// Instances destroyed.
    pub destroyed: u64,
    /// Memory slots still usable, summed over profiles ([`room`]).
    pub room: u64,
}

/// What every GPU should become, and which claim gets which instance. It leaves no choice open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it was made for.
    pub generation: Generation,
    /// GPU by GPU.
    pub gpus: BTreeMap<GpuAt, GpuPlan>,
    /// Claims that are served.
    pub served: BTreeMap<ClaimName, Served>,
    /// Claims that go on waiting.
    pub waiting: BTreeMap<ClaimName, WaitsFor>,
    /// How good it is.
    pub quality: Quality,
}

/// Why no plan could be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Two GPUs are at one place.
    #[error("{0} is listed twice; list every GPU once")]
    GpuTwice(GpuAt),
    /// Two claims have one name.
    #[error("claim '{0}' is listed twice; a claim is either pending or running, and has a name of its own")]
    ClaimTwice(ClaimName),
    /// A running claim holds an instance that is not there.
    #[error(
        "claim '{claim}' holds instance {instance} of {on}, which has no such instance; read the state of the GPUs again"
    )]
    NoSuchInstance {
        /// The claim.
        claim: ClaimName,
        /// Where it should run.
        on: GpuAt,
        /// The instance it should hold.
        instance: GpuInstanceId,
    },
    /// Two running claims hold one instance.
    #[error("claims '{first}' and '{second}' hold the same instance of {on}; read the claims again")]
    HeldTwice {
        /// One claim.
        first: ClaimName,
        /// The other.
        second: ClaimName,
        /// Where.
        on: GpuAt,
    },
    /// What a GPU is said to hold can not be.
    #[error("what {on} is said to hold can not exist: {why}; read the state of the GPU again")]
    ImpossibleState {
        /// The GPU.
        on: GpuAt,
        /// Why not.
        #[source]
        why: carve_gpu_model::Illegal,
    },
    /// Instances on a GPU whose MIG mode is off.
    #[error("{0} is said to hold instances while its MIG mode is off; read the state of the GPU again")]
    InstancesWithoutMode(GpuAt),
}
