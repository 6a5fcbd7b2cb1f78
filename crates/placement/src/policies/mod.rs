//! By what a node and its GPUs are chosen.

mod bid_price;
mod fragmentation;
mod packing;
mod prices;

pub use bid_price::{BidPrice, Tuning};
pub use fragmentation::Fragmentation;
pub use packing::Affinity;
pub use prices::Prices;
pub(crate) use prices::{most_filled, most_served};

use crate::claim::Claim;
use crate::fleet::{Class, Fleet};
use crate::node::{GpuSet, NodeRoom, NodeShape};
use crate::workload::Workload;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A policy by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// The first node it fits on.
    FirstFit,
    /// The node with the least left afterwards.
    BestFit,
    /// The node whose room points least the way the claim does.
    DotProduct,
    /// Nodes that serve claims of the same kind.
    Clustering,
    /// GPUs in use before free GPUs, nodes in use before free nodes.
    Packing,
    /// Any node it fits on.
    Random,
    /// The node with the most left.
    Spread,
    /// The least growth of fragmentation, as published (Weng et al., USENIX ATC 2023).
    Fgd,
    /// The least loss of what the node's room is worth to the workload.
    BidPrice,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 9] = [
        Policy::FirstFit,
        Policy::BestFit,
        Policy::DotProduct,
        Policy::Clustering,
        Policy::Packing,
        Policy::Random,
        Policy::Spread,
        Policy::Fgd,
        Policy::BidPrice,
    ];

    /// As it is written on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::FirstFit => "first-fit",
            Policy::BestFit => "best-fit",
            Policy::DotProduct => "dot-product",
            Policy::Clustering => "clustering",
            Policy::Packing => "packing",
            Policy::Random => "random",
            Policy::Spread => "spread",
            Policy::Fgd => "fgd",
            Policy::BidPrice => "bid-price",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no policy '{name}'; choose one of {}", Policy::ALL.map(Policy::name).join(", "))]
pub struct UnknownPolicy {
    /// What was given.
    pub name: String,
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let known = Policy::ALL.into_iter().find(|policy| policy.name() == name);
        known.ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}

/// How good a node is for a claim, and which of its GPUs would serve it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// The higher the better.
    pub points: f64,
    /// The GPUs.
    pub gpus: GpuSet,
}

/// How a policy sees nodes. Nothing but the node itself counts, so that a score holds until the node changes.
#[derive(Debug, Clone)]
pub(crate) enum Scorer {
    FirstFit,
    BestFit,
    DotProduct,
    Clustering,
    Packing,
    Spread,
    Fgd(Fragmentation),
    BidPrice(Box<BidPrice>),
}

/// A node, looked at for a claim that fits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) shape: &'a NodeShape,
    pub(crate) room: &'a NodeRoom,
    /// What kinds of claims run on it.
    pub(crate) affinity: Affinity,
}

impl Scorer {
    pub(crate) fn new(policy: Policy, fleet: &Fleet, workload: &Workload) -> Self {
        match policy {
            // A random choice needs no scores: every node it fits on is as good.
            Policy::FirstFit | Policy::Random => Scorer::FirstFit,
            Policy::BestFit => Scorer::BestFit,
            Policy::DotProduct => Scorer::DotProduct,
            Policy::Clustering => Scorer::Clustering,
            Policy::Packing => Scorer::Packing,
            Policy::Spread => Scorer::Spread,
            Policy::Fgd => Scorer::Fgd(Fragmentation::new(workload)),
            Policy::BidPrice => Scorer::BidPrice(Box::new(BidPrice::new(fleet, workload, Tuning::default()))),
        }
    }

    /// The score of a node on which the claim fits.
    pub(crate) fn score(&self, node: View<'_>, claim: &Claim) -> Score {
        match self {
            Scorer::FirstFit => packing::with_tightest(node, claim, 0),
            Scorer::BestFit => packing::best_fit(node, claim),
            Scorer::DotProduct => packing::dot_product(node, claim),
            Scorer::Clustering => packing::clustering(node, claim),
            Scorer::Packing => packing::packing(node, claim),
            Scorer::Spread => packing::spread(node, claim),
            Scorer::Fgd(fragmentation) => fragmentation.score(node, claim),
            Scorer::BidPrice(prices) => prices.score(node, claim),
        }
    }

    /// Points as they are compared: whole numbers, so that near-equals are equal and the first node gets them.
    pub(crate) fn rounded(&self, points: f64) -> i32 {
        match self {
            Scorer::BidPrice(prices) => prices.rounded(points),
            _ => points as i32,
        }
    }

    /// What is taken off for starting on an untouched node of a class.
    pub(crate) fn opening(&self, fleet: &Fleet, class: &Class) -> f64 {
        match self {
            Scorer::BidPrice(prices) => prices.opening(fleet, class),
            _ => 0.0,
        }
    }
}

/// Every way to serve a claim on a node that differs in its effect: one GPU for each different amount left, or the first
/// GPUs that will do together.
pub(crate) fn ways(node: View<'_>, claim: &Claim, mut each: impl FnMut(GpuSet)) {
    if claim.is_part() {
        for gpu in node.room.different(claim) {
            each(GpuSet::one(gpu));
        }
    } else if let Some(gpus) = node.shape.first_free(node.room, claim) {
        each(gpus);
    }
}
