//! A fleet through time: claims come, wait, run and go; nodes fail and return, are added and taken away.
//!
//! Claims arrive and last as the trace says. Who fits nowhere waits, first come, first served, but whoever fits goes ahead of
//! those who do not; or is turned away, where there is no queue. What ran on a node that fails starts anew elsewhere, in its
//! old place of the queue. Everything follows from the trace and the settings.

mod engine;
mod figures;

use crate::trace::{Trace, TraceError, TraceNode};
use carve_placement::{Fleet, NodeIndex, Policy, Spot};

pub use figures::{Figures, Waits};

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
}

impl Settings {
    /// A fixed fleet with a queue.
    pub fn new(policy: Policy, seed: u64) -> Self {
        Settings { policy, seed, queue: true, outages: Vec::new(), failures: None, growth: None }
    }
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

/// Something that happened, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// The second.
    pub at: u64,
    /// What.
    pub what: What,
}

/// How things stood from a second on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The second.
    pub at: u64,
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
    /// How things stood at a second; before the first moment and after the last, as in them.
    pub fn at(&self, second: u64) -> Option<&Moment> {
        let after = self.moments.partition_point(|moment| moment.at <= second);
        self.moments.get(after.saturating_sub(1))
    }
}

/// Runs a trace.
pub fn run(trace: &Trace, settings: &Settings) -> Result<History, TraceError> {
    engine::Engine::new(trace, settings)?.run()
}
