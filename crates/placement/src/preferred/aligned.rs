//! Whole GPUs: the set that is connected best, and among equals the one that leaves the others connected best.
//!
//! A set is judged by sums over its pairs. In this order: fewest lost GPUs, most NVLinks, nearest over PCI, and then,
//! for the GPUs that are left, most NVLinks and nearest over PCI. What a set costs those left is a sum over its GPUs:
//! the pairs among the left are all pairs, less those of each GPU taken, plus the pairs inside the set that were
//! subtracted twice; and the pairs inside the set are equal by the time this is looked at.

use super::Request;
use super::explanation::Search;
use super::nearby;
use super::pool::{Asked, Candidate};
use super::topology::Topology;
use carve_gpu_host::PciPath;
use std::ops::{Add, AddAssign, Sub};

/// So many sets are looked at one by one: what 8 of 16 GPUs come to. Above it, the answer is searched for nearby.
const MOST_SETS: u64 = 12_870;

/// How good a set is; the greater the better, field by field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    /// Less the lost GPUs.
    pub(super) lost: i64,
    pub(super) nvlinks: i64,
    pub(super) nearness: i64,
    /// Less the NVLinks of each GPU to all others in question.
    pub(super) spared_nvlinks: i64,
    /// Less the nearness of each GPU to all others in question.
    pub(super) spared_nearness: i64,
}

impl Add for Score {
    type Output = Score;

    fn add(self, other: Score) -> Score {
        Score {
            lost: self.lost + other.lost,
            nvlinks: self.nvlinks + other.nvlinks,
            nearness: self.nearness + other.nearness,
            spared_nvlinks: self.spared_nvlinks + other.spared_nvlinks,
            spared_nearness: self.spared_nearness + other.spared_nearness,
        }
    }
}

impl AddAssign for Score {
    fn add_assign(&mut self, other: Score) {
        *self = *self + other;
    }
}

impl Sub for Score {
    type Output = Score;

    fn sub(self, other: Score) -> Score {
        Score {
            lost: self.lost - other.lost,
            nvlinks: self.nvlinks - other.nvlinks,
            nearness: self.nearness - other.nearness,
            spared_nvlinks: self.spared_nvlinks - other.spared_nvlinks,
            spared_nearness: self.spared_nearness - other.spared_nearness,
        }
    }
}

/// What the search needs, with the free GPUs numbered from 0.
#[derive(Debug)]
pub(super) struct Field {
    /// What taking a GPU adds to the required ones.
    pub(super) alone: Vec<Score>,
    /// What two free GPUs add when both are taken; a row per GPU.
    pairs: Vec<Score>,
}

impl Field {
    /// From the GPUs that must be taken and those that can be.
    pub(super) fn new(topology: &Topology, required: &[&Candidate], free: &[&Candidate]) -> Self {
        let count = free.len();
        let mut alone: Vec<Score> = free
            .iter()
            .map(|gpu| Score { lost: -i64::from(topology.is_lost(gpu.gpu)), ..Score::default() })
            .collect();
        let mut pairs = vec![Score::default(); count * count];
        for (row, from) in free.iter().enumerate() {
            for (column, to) in free.iter().enumerate().filter(|(column, _)| *column != row) {
                let pair = pair(topology, from, to);
                pairs[row * count + column] = pair;
                alone[row].spared_nvlinks -= pair.nvlinks;
                alone[row].spared_nearness -= pair.nearness;
            }
            for to in required {
                let pair = pair(topology, from, to);
                alone[row].nvlinks += pair.nvlinks;
                alone[row].nearness += pair.nearness;
                alone[row].spared_nvlinks -= pair.nvlinks;
                alone[row].spared_nearness -= pair.nearness;
            }
        }
        Field { alone, pairs }
    }

    pub(super) fn count(&self) -> usize {
        self.alone.len()
    }

    pub(super) fn pair(&self, one: usize, other: usize) -> Score {
        self.pairs[one * self.alone.len() + other]
    }

    /// The best set of all, by looking at every one. Of equals the first in order.
    pub(super) fn best(&self, size: usize) -> Vec<usize> {
        if size == 0 || size > self.count() {
            return Vec::new();
        }
        let mut adds = self.alone.clone();
        adds.resize(size * self.count(), Score::default());
        let mut walk = Walk { field: self, adds, taken: Vec::with_capacity(size), best: None };
        walk.descend(0, size, Score::default());
        walk.best.map(|(_, set)| set).unwrap_or_default()
    }
}

/// What two GPUs are to each other.
fn pair(topology: &Topology, one: &Candidate, other: &Candidate) -> Score {
    let (nvlinks, nearness) = match (topology.link(one.gpu, other.gpu), one.numa, other.numa) {
        (Some(link), _, _) => (i64::from(link.nvlinks), nearness(link.pci)),
        (None, Some(one_numa), Some(other_numa))
            if !topology.is_lost(one.gpu) && !topology.is_lost(other.gpu) =>
        {
            // The driver does not tell the way, but the machine tells where the GPUs are.
            let path = if one_numa == other_numa { PciPath::SameNode } else { PciPath::AcrossNodes };
            (0, nearness(path))
        }
        _ => (0, 0),
    };
    Score { nvlinks, nearness, ..Score::default() }
}

/// Steps, as in NVIDIA's score: every way that is nearer counts one more.
fn nearness(path: PciPath) -> i64 {
    match path {
        PciPath::SameBoard => 6,
        PciPath::OneSwitch => 5,
        PciPath::SeveralSwitches => 4,
        PciPath::HostBridge => 3,
        PciPath::SameNode => 2,
        PciPath::AcrossNodes => 1,
    }
}

/// A walk over all sets in order.
struct Walk<'a> {
    field: &'a Field,
    /// What each GPU would add to those taken: a row for none taken, one for the first, and so on.
    adds: Vec<Score>,
    taken: Vec<usize>,
    best: Option<(Score, Vec<usize>)>,
}

impl Walk<'_> {
    /// Takes `wanted` more GPUs, one at least, from number `from` on.
    fn descend(&mut self, from: usize, wanted: usize, score: Score) {
        let count = self.field.count();
        let row = self.taken.len() * count;
        for next in from..=count - wanted {
            let with = score + self.adds[row + next];
            if wanted > 1 {
                for other in next + 1..count {
                    self.adds[row + count + other] = self.adds[row + other] + self.field.pair(next, other);
                }
                self.taken.push(next);
                self.descend(next + 1, wanted - 1, with);
                self.taken.pop();
            } else if self.best.as_ref().is_none_or(|(best, _)| with > *best) {
                // Only a better one replaces: of equals the first stays, and it has the lowest numbers.
                let mut set = self.taken.clone();
                set.push(next);
                self.best = Some((with, set));
            }
        }
    }
}

/// Picks the needed GPUs, in the pool's order, and tells how thoroughly it looked.
pub(super) fn pick(request: &Request<'_>, asked: &Asked) -> (Vec<usize>, Search) {
    let of = |places: &[usize]| -> Vec<&Candidate> {
        places.iter().map(|place| request.pool.device(*place)).collect()
    };
    let field = Field::new(request.topology, &of(&asked.required), &of(&asked.free));
    let (set, search) = if at_most(field.count(), asked.needed, MOST_SETS) {
        (field.best(asked.needed), Search::All)
    } else {
        (nearby::good(&field, asked.needed), Search::Nearby)
    };
    (set.into_iter().map(|number| asked.free[number]).collect(), search)
}

/// Whether there are at most so many ways to take `size` of `count`.
fn at_most(count: usize, size: usize, most: u64) -> bool {
    let (count, size) = (count as u64, size.min(count - size.min(count)) as u64);
    let mut ways: u64 = 1;
    for step in 1..=size {
        // Exact at every step: a product of `step` numbers in a row is divisible by `step!`.
        ways = match ways.checked_mul(count - size + step) {
            Some(product) => product / step,
            None => return false,
        };
        if ways > most {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{MOST_SETS, at_most};

    #[test]
    fn sixteen_gpus_are_always_looked_at_in_full() {
        for count in 0..=16 {
            for size in 0..=count {
                assert!(at_most(count, size, MOST_SETS), "{size} of {count}");
            }
        }
        assert!(!at_most(17, 8, MOST_SETS));
        assert!(at_most(64, 2, MOST_SETS), "2016 pairs");
        assert!(!at_most(64, 32, MOST_SETS));
        assert!(at_most(16, 8, 12_870) && !at_most(16, 8, 12_869), "8 of 16 is 12,870 ways");
    }
}
