//! The packing policies that the fragmentation-aware one was published beside, exactly as in its experiment.

use super::{Score, View};
use crate::claim::{Claim, WHOLE};
use crate::node::GpuSet;

/// The largest node of the experiment, by which amounts are made comparable.
const MOST_CPU: f64 = 128_000.0;
const MOST_GPU: f64 = 8_000.0;

/// What kinds of claims run on a node: one bit for parts, one for each number of whole GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Affinity(u32);

impl Affinity {
    /// The kind of a claim; none for work on CPUs alone.
    pub fn of(claim: &Claim) -> Self {
        match claim.gpus {
            0 => Affinity(0),
            1 if claim.is_part() => Affinity(1),
            gpus => Affinity(1 << gpus.min(31)),
        }
    }

    /// Both kinds.
    #[must_use]
    pub fn and(self, other: Affinity) -> Self {
        Affinity(self.0 | other.0)
    }
}

/// The given points, and the GPU with the least left that will do.
pub(super) fn with_tightest(node: View<'_>, claim: &Claim, points: i64) -> Score {
    let gpus = if claim.is_part() {
        node.room.tightest(claim).map(GpuSet::one)
    } else {
        node.shape.first_free(node.room, claim)
    };
    Score { points: points as f64, gpus: gpus.unwrap_or_default() }
}

pub(super) fn best_fit(node: View<'_>, claim: &Claim) -> Score {
    let cpu = (node.room.cpu.0 - claim.cpu.0) as f64 / MOST_CPU;
    let gpu = (node.room.idle() - claim.total()) as f64 / MOST_GPU;
    with_tightest(node, claim, ((1.0 - (0.5 * cpu + 0.5 * gpu)) * 100.0) as i64)
}

pub(super) fn dot_product(node: View<'_>, claim: &Claim) -> Score {
    let cpu = (node.room.cpu.0 as f64 / MOST_CPU) * (claim.cpu.0 as f64 / MOST_CPU);
    let gpu = (node.room.idle() as f64 / MOST_GPU) * (claim.total() as f64 / MOST_GPU);
    with_tightest(node, claim, (100.0 * (1.0 - (cpu + gpu) / 2.0)) as i64)
}

pub(super) fn clustering(node: View<'_>, claim: &Claim) -> Score {
    if claim.gpus == 0 {
        return with_tightest(node, claim, 0);
    }
    let own = Affinity::of(claim);
    let base = match node.affinity {
        Affinity(0) => 25,
        there if there == own => 75,
        there if there.0 & own.0 != 0 => 50,
        _ => 0,
    };
    let packed = 25 * (8000 - node.room.idle().min(8000) as i64) / 8000;
    with_tightest(node, claim, base + packed)
}

pub(super) fn packing(node: View<'_>, claim: &Claim) -> Score {
    if claim.gpus == 0 {
        return with_tightest(node, claim, 0);
    }
    let free = node.room.free_gpus() as i64;
    let all = node.room.gpus() as i64;
    let score = with_tightest(node, claim, 0);
    let opened = score.gpus.iter().filter(|gpu| node.room.compute()[*gpu] == WHOLE.0).count() as i64;
    let points = if free == all {
        (33 - all).max(all)
    } else if opened > 0 {
        (50 - opened).max(33)
    } else {
        let left: i64 = score.gpus.iter().map(|gpu| i64::from(node.room.compute()[gpu])).sum();
        (100 - left / 10 / 10).max(50)
    };
    Score { points: points as f64, ..score }
}

pub(super) fn spread(node: View<'_>, claim: &Claim) -> Score {
    let part = |left: u64, all: u64| if all == 0 { 0.0 } else { left as f64 / all as f64 };
    let gpu = part(node.room.idle() - claim.total(), u64::from(node.shape.gpus) * u64::from(WHOLE.0));
    let cpu = part(node.room.cpu.0 - claim.cpu.0, node.shape.cpu.0);
    let gpus = if claim.is_part() {
        let compute = node.room.compute();
        node.room.serving(claim).max_by_key(|gpu| (compute[*gpu], std::cmp::Reverse(*gpu))).map(GpuSet::one)
    } else {
        node.shape.first_free(node.room, claim)
    };
    Score { points: (1000.0 * (gpu + cpu) / 2.0).floor(), gpus: gpus.unwrap_or_default() }
}
