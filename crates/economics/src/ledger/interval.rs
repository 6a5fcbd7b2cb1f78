//! What happened on a machine for a while, as far as it concerns who pays.

use super::amount::{Millis, Parts};
use crate::Rate;
use carve_gpu_model::Mechanism;

/// Whose slice it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    /// Namespace of the pod.
    pub namespace: String,
    /// What made the pod, such as `Deployment/web`; the pod itself where nothing did.
    pub workload: String,
    /// The pod.
    pub pod: String,
    /// How its slice is made.
    pub mechanism: Mechanism,
    /// Whether that is done within a MIG device.
    pub within_mig: bool,
}

impl Account {
    /// How its slice is made, in words.
    pub fn way(&self) -> String {
        match self.within_mig {
            true => format!("{} on MIG", self.mechanism.name()),
            false => self.mechanism.name().to_owned(),
        }
    }
}

/// A machine for a while, in which nothing about it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTime {
    /// Its name.
    pub node: String,
    /// What it costs.
    pub price: Rate,
    /// For how long.
    pub time: Millis,
    /// Its GPUs, which are worth the same.
    pub gpus: Vec<GpuTime>,
}

/// A GPU in that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuTime {
    /// Nobody could have got it: it was sick, or being cut.
    Withheld,
    /// It was there.
    Serving {
        /// What was given out of it.
        slices: Vec<SliceTime>,
        /// What nobody could have been given of the rest, because it is no slice by itself.
        stranded: Parts,
    },
}

/// A slice in that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceTime {
    /// Whose.
    pub account: Account,
    /// How much of the GPU nobody else could have; see [`dominant`] and [`replica`].
    pub weight: Parts,
    /// How much of the slice was used; none where nobody can tell.
    pub used: Option<Parts>,
}

/// The weight of a slice that takes so much of memory and so much of compute: whatever there is more of, because the rest of it is of no use without.
pub fn dominant(memory: Parts, compute: Parts) -> Parts {
    memory.max(compute)
}

/// The weight of one of so many slices that are alike.
pub fn replica(of: u32) -> Parts {
    Parts::of(1, u64::from(of.max(1)))
}

/// How much of what is left is stranded: a slice takes of memory and of compute, so nobody can have more than the less of both.
pub fn stranded(rest: Parts, memory: Parts, compute: Parts) -> Parts {
    Parts(rest.0.saturating_sub(memory.min(compute).0))
}
