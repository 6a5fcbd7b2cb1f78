//! A fleet through time: claims come, wait, run and go; nodes fail and return, are added and taken away.
//!
//! Claims arrive and last as the trace says. Who fits nowhere waits, first come, first served, but whoever fits goes ahead of
//! those who do not; or is turned away, where there is no queue. What ran on a node that fails starts anew elsewhere, in its
//! old place of the queue. Everything follows from the trace and the settings.
//!
//! Pods that ask for MIG devices get them on GPUs that are divided for them. They have one rule under every policy: of all places that
//! are legal and touch nothing in use, the one that switches the fewest GPUs into MIG mode, then makes the fewest instances, loses the
//! least room, and destroys the fewest idle instances. To make a place ready takes time, and the pod starts when that is over.

mod engine;
mod figures;
mod mig;

use crate::trace::{Trace, TraceError, TraceNode};
use carve_gpu_model::Placed;
use carve_placement::{Fleet, NodeIndex, Policy, Spot};

pub use figures::{Figures, MigFigures, Waits};

/// How a fleet is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// By what claims are placed.
    pub policy: Policy,
    /// Decides the order of equal nodes, random failures, and random choices of the policy.
    pub seed: u64,
    /// Whether claims that fit nowhere wait; without a queue they are turned away.
    pub queue: bool,
    /// When nodes are away, as far as it is known beforehand.
    pub outages: Vec<Outage>,
    /// How nodes fail at random.
    pub failures: Option<Failures>,
    /// How nodes are added and taken away.
    pub growth: Option<Growth>,
    /// How long it takes to divide a GPU by MIG.
    pub mig: MigTimes,
}

impl Settings {
    /// A fixed fleet with a queue.
    pub fn new(policy: Policy, seed: u64) -> Self {
        Settings {
            policy,
            seed,
            queue: true,
            outages: Vec::new(),
            failures: None,
            growth: None,
            mig: MigTimes::USUAL,
        }
    }
}

/// How long changes of a GPU take, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigTimes {
    /// Making an instance.
    pub create_ms: u64,
    /// Destroying one.
    pub destroy_ms: u64,
    /// Switching MIG mode on or off, where it changes at once.
    pub mode_ms: u64,
    /// The same where the GPU must be reset for it.
    pub reset_ms: u64,
}

impl MigTimes {
    /// Instances as the published benchmark of MIG schedulers has them (see [`crate::mig_queue::Costs::PUBLISHED`]). How long the mode
    /// takes, nobody has published: these are assumed.
    pub const USUAL: MigTimes = MigTimes { create_ms: 250, destroy_ms: 100, mode_ms: 1000, reset_ms: 10_000 };
}

/// A node is away for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The node, by its place in the trace.
    pub node: usize,
    /// From this second on.
    pub from: u64,
    /// For so many seconds.
    pub lasting: u64,
}

/// Nodes fail at random, each by itself. After the last arrival no more fail, so that every run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    /// Mean number of seconds from a return of a node to its next failure.
    pub every: u64,
    /// Seconds a node is away.
    pub lasting: u64,
}

/// Nodes are added for those who wait, and taken away when nothing runs on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    /// What is added: nodes like this, under names of their own.
    pub like: TraceNode,
    /// Seconds a claim has waited before a node is added for it.
    pub after: u64,
    /// Seconds nothing has run on an added node before it is taken away.
    pub idle: u64,
    /// Most nodes that are added at one time.
    pub most: usize,
}

/// Something that happened. Pods are named by their place in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A pod came.
    Arrived(usize),
    /// A pod has its place, and waits until GPUs there have been changed for it.
    Placed(usize, Spot),
    /// A pod that begins to run has this MIG device.
    Given {
        /// The pod.
        pod: usize,
        /// The GPU of its node.
        gpu: u8,
        /// Where on the GPU.
        placed: Placed,
        /// Whether somebody had it before.
        reused: bool,
    },
    /// A GPU has been changed.
    Mig(MigStep),
    /// A pod began to run.
    Started(usize, Spot),
    /// A pod was done.
    Finished(usize),
    /// A pod lost its node and waits again.
    Interrupted(usize),
    /// A pod went away without having been served to the end.
    TurnedAway(usize),
    /// A node failed or was taken away.
    NodeLeft(NodeIndex),
    /// A node returned or was added.
    NodeCame(NodeIndex),
}

/// What has been done to a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigChange {
    /// It is in MIG mode.
    On,
    /// It is not any more.
    Off,
    /// An instance has been made.
    Made(Placed),
    /// An instance has been destroyed.
    Destroyed(Placed),
}

/// One change of a GPU, when it is done. What was not done when a node failed is not told. With the node go its instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigStep {
    /// The node.
    pub node: NodeIndex,
    /// The GPU.
    pub gpu: u8,
    /// The pod it was done for.
    pub pod: usize,
    /// What.
    pub change: MigChange,
    /// How long it took.
    pub took_ms: u64,
}

/// Something that happened, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// Milliseconds since the beginning.
    pub at_ms: u64,
    /// What.
    pub what: What,
}

/// How things stood from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since the beginning.
    pub at_ms: u64,
    /// Thousandths of GPUs in use.
    pub used: u64,
    /// Thousandths of GPUs there are.
    pub capacity: u64,
    /// How many nodes there are.
    pub nodes: u64,
    /// How many pods wait.
    pub waiting: u64,
}

/// All that happened to a fleet.
#[derive(Debug, Clone)]
pub struct History {
    /// Everything, in order.
    pub happened: Vec<Happened>,
    /// How things stood, whenever that changed; the last moment is the end.
    pub moments: Vec<Moment>,
    /// The fleet at the end.
    pub fleet: Fleet,
}

impl History {
    /// How things stood so many milliseconds after the beginning; before the first moment and after the last, as in them.
    pub fn at(&self, ms: u64) -> Option<&Moment> {
        let after = self.moments.partition_point(|moment| moment.at_ms <= ms);
        self.moments.get(after.saturating_sub(1))
    }
}

/// Runs a trace.
pub fn run(trace: &Trace, settings: &Settings) -> Result<History, TraceError> {
    engine::Engine::new(trace, settings)?.run()
}
