//! How much of a node's idle GPUs the usual workload can not use, and the policy that lets it grow least.
//!
//! The measure and the policy of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), to the last bit: the published
//! results hang on the rounding of the score, which makes nodes equal that differ by less than about a 25th of a GPU and gives
//! the claim to the first of them, and on the order in which sums are formed.

use super::{Score, View, ways};
use crate::claim::{Claim, CpuMilli, Models};
use crate::node::{GpuSet, NodeRoom, NodeShape};
use crate::workload::Workload;

#[derive(Debug, Clone, Copy)]
struct Kind {
    cpu: CpuMilli,
    gpus: u32,
    size: usize,
    models: Models,
    part: f64,
}

/// The measure, for a workload.
#[derive(Debug, Clone)]
pub struct Fragmentation {
    kinds: Vec<Kind>,
    /// The different amounts of compute that are asked for.
    sizes: Vec<u16>,
}

impl Fragmentation {
    /// For a workload.
    pub fn new(workload: &Workload) -> Self {
        let mut sizes: Vec<u16> = workload.kinds().iter().map(|kind| kind.claim.compute.0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let kinds = workload.kinds().iter().map(|kind| Kind {
            cpu: kind.claim.cpu,
            gpus: u32::from(kind.claim.gpus),
            size: sizes.binary_search(&kind.claim.compute.0).unwrap_or(0),
            models: kind.claim.models,
            part: kind.part,
        });
        Fragmentation { kinds: kinds.collect(), sizes }
    }

    /// Thousandths of GPUs of a node that the workload is expected not to be able to use.
    pub fn of(&self, shape: &NodeShape, room: &NodeRoom) -> f64 {
        let idle = room.idle() as f64;
        // For each amount: how many GPUs have as much left, and what is left of the others.
        let mut serving = [(0_u32, 0.0_f64); 64];
        let known = self.sizes.len() <= serving.len();
        let count = |size: u16| {
            let enough = room.compute().iter().filter(|left| **left >= size).count() as u32;
            let rest: u32 =
                room.compute().iter().filter(|left| **left < size).map(|left| u32::from(*left)).sum();
            (enough, f64::from(rest))
        };
        if known {
            for (entry, size) in serving.iter_mut().zip(&self.sizes) {
                *entry = count(*size);
            }
        }
        let (mut both, mut gpu, mut cpu, mut fits, mut lacks, mut access) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        for kind in &self.kinds {
            let all = kind.part * idle;
            let enough_cpu = room.cpu >= kind.cpu;
            if kind.gpus == 0 || self.sizes[kind.size] == 0 {
                if enough_cpu {
                    fits += all
                } else {
                    lacks += all
                }
                continue;
            }
            if !kind.models.contains(shape.model) {
                access += all;
                continue;
            }
            let (enough, rest) = if known { serving[kind.size] } else { count(self.sizes[kind.size]) };
            match (enough >= kind.gpus, enough_cpu) {
                (false, false) => both += all,
                (false, true) => gpu += all,
                (true, false) => cpu += all,
                (true, true) => gpu += kind.part * rest,
            }
        }
        both + gpu + cpu + fits + lacks + access
    }

    pub(super) fn score(&self, node: View<'_>, claim: &Claim) -> Score {
        let before = self.of(node.shape, node.room);
        let mut best = Score { points: f64::NEG_INFINITY, gpus: GpuSet::default() };
        ways(node, claim, |gpus| {
            let after = self.of(node.shape, &node.room.taken(claim, gpus));
            let points = (1.0 / (1.0 + (-(before - after) / 1000.0).exp()) * 100.0).trunc();
            if points > best.points {
                best = Score { points, gpus };
            }
        });
        best
    }
}
