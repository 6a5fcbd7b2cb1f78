//! What a claim of each usual kind is worth on this fleet: the prices of a linear programme that serves the workload.
//!
//! The programme fills pools of equal nodes with the workload, kind by kind, in the proportions in which it comes, and
//! beyond what the fleet can hold; the more of a kind is served already, the less the next one counts. GPUs are filled by
//! patterns of parts; CPUs are pooled. The price of a kind is what one more of it would displace: a claim for 81 % of a
//! GPU costs a whole one where nothing fits into the rest, and a small claim costs nothing where it fills such rests.

use crate::claim::{Claim, ModelId, WHOLE};
use crate::fleet::Fleet;
use crate::linear::{Column, Solution, maximise};
use crate::workload::{Typical, Workload};
use carve_gpu_model::Mebibytes;
use std::collections::BTreeMap;

/// Parts of a GPU that are told apart.
pub(crate) const STEPS: usize = 100;

/// How much of the workload, as parts of what the fleet has, counts as how much. Steps lie closer where the fleet gets full.
const SERVED: [f64; 15] = [0.5, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 1.0, 1.02, 1.05, 1.1, 1.2, 1.3];
/// How fast the worth of serving more of one kind falls, so that no kind is starved for another.
const FAIRNESS: f64 = 0.5;
/// What a core is worth to work that needs no GPU, in GPUs.
const CORE: f64 = 0.02;
/// With more different kinds of nodes than this, those with the same model are pooled.
const MOST_POOLS: usize = 64;

/// Nodes that the programme does not tell apart.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pool {
    model: ModelId,
    gpu_memory: Mebibytes,
    /// GPUs of the largest node.
    node: u8,
    gpus: f64,
    cores: f64,
}

/// What a claim of each usual kind is worth, in GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    kinds: Vec<(Typical, f64)>,
}

/// The size of a claim's part of a GPU in steps: compute or memory, whichever is the larger part.
pub(crate) fn steps(claim: &Claim, gpu_memory: Mebibytes) -> usize {
    Grain::Coarse.steps(claim, gpu_memory)
}

/// How finely parts of a GPU are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// In hundredths, rounded up: quick, and what is found can be done.
    Coarse,
    /// By compute alone, in thousandths: whatever can be done is found.
    Compute,
    /// By memory alone, in thousandths, rounded down: whatever can be done is found.
    Memory,
}

impl Grain {
    /// Steps of a whole GPU.
    const fn whole(self) -> usize {
        match self {
            Grain::Coarse => STEPS,
            Grain::Compute | Grain::Memory => WHOLE.0 as usize,
        }
    }

    fn steps(self, claim: &Claim, gpu_memory: Mebibytes) -> usize {
        let whole = self.whole() as u64;
        let compute = (u64::from(claim.compute.0) * whole).div_ceil(u64::from(WHOLE.0));
        let memory = claim.gpu_memory.0 * whole;
        let steps = match (self, gpu_memory.0) {
            (Grain::Compute, _) => compute,
            (Grain::Coarse, 0) => compute,
            (Grain::Memory, 0) => 0,
            (Grain::Coarse, all) => compute.max(memory.div_ceil(all)),
            (Grain::Memory, all) => memory / all,
        };
        steps as usize
    }
}

impl Prices {
    /// The prices on a fleet.
    pub fn new(fleet: &Fleet, workload: &Workload) -> Self {
        let kinds = workload.kinds();
        let pools = pools(fleet);
        let asked: f64 = kinds.iter().map(|kind| kind.part * gpus(&kind.claim)).sum();
        let here: f64 = pools.iter().map(|pool| pool.gpus).sum();
        if asked == 0.0 || here == 0.0 {
            return Prices { kinds: kinds.iter().map(|kind| (*kind, gpus(&kind.claim))).collect() };
        }
        let solution =
            serve(&pools, kinds, Grain::Coarse, serving(kinds, here / asked, Rows { pools: pools.len() }));
        let row = Rows { pools: pools.len() };
        let price = |kind: usize| solution.prices[row.kind(kind)].max(0.0);
        Prices { kinds: kinds.iter().enumerate().map(|(kind, typical)| (*typical, price(kind))).collect() }
    }

    /// The kinds, each with its price.
    pub fn kinds(&self) -> &[(Typical, f64)] {
        &self.kinds
    }
}

/// Fills the pools with what serving is worth; the prices of the kinds come last.
fn serve(pools: &[Pool], kinds: &[Typical], grain: Grain, mut columns: Vec<Column>) -> Solution {
    let row = Rows { pools: pools.len() };
    let room: Vec<f64> = (pools.iter().map(|pool| pool.gpus))
        .chain(pools.iter().map(|pool| pool.cores))
        .chain(kinds.iter().map(|_| 0.0))
        .collect();
    for (pool, entry) in pools.iter().enumerate() {
        columns.extend(kinds.iter().enumerate().filter_map(|(kind, typical)| {
            let fits = typical.claim.gpus == 0
                || (typical.claim.models.contains(entry.model)
                    && typical.claim.gpus <= entry.node
                    && grain.steps(&typical.claim, entry.gpu_memory) <= grain.whole());
            let nothing = typical.claim.is_part() && grain.steps(&typical.claim, entry.gpu_memory) == 0;
            let gpus = if nothing { 0.0 } else { f64::from(typical.claim.gpus) };
            fits.then(|| row.filled(pool, gpus, &[(kind, 1)], kinds))
        }));
    }
    maximise(&room, columns, |prices| {
        let pattern = |(pool, entry): (usize, &Pool)| {
            let core = prices[row.cpu(pool)];
            let worth = |kind: usize| prices[row.kind(kind)] - core * kinds[kind].claim.cpu.cores();
            let (best, pattern) = fullest(kinds, entry, grain, worth);
            (best > prices[row.gpu(pool)] + 1e-7).then(|| row.filled(pool, 1.0, &pattern, kinds))
        };
        pools.iter().enumerate().filter_map(pattern).collect()
    })
}

/// Most GPUs that any choice among these claims can fill: `None` where the programme did not come to an end.
pub(crate) fn most_filled(fleet: &Fleet, claims: &[(Claim, u64)]) -> Option<f64> {
    bounded(fleet, claims, gpus)
}

/// Most of these claims that can be served, whoever is turned away.
pub(crate) fn most_served(fleet: &Fleet, claims: &[(Claim, u64)]) -> Option<f64> {
    bounded(fleet, claims, |_| 1.0)
}

fn bounded(fleet: &Fleet, claims: &[(Claim, u64)], worth: impl Fn(&Claim) -> f64) -> Option<f64> {
    let kinds: Vec<Typical> =
        claims.iter().map(|(claim, count)| Typical { claim: *claim, part: *count as f64 }).collect();
    let pools = pools(fleet);
    let row = Rows { pools: pools.len() };
    let all = |(kind, typical): (usize, &Typical)| Column {
        takes: vec![(row.kind(kind), 1.0)],
        worth: worth(&typical.claim),
        most: typical.part,
    };
    let one = |grain: Grain| {
        let columns = kinds.iter().enumerate().map(all).collect();
        let solution = serve(&pools, &kinds, grain, columns);
        solution.finished.then_some(solution.worth)
    };
    // Each is a bound, so the lower of the two is one.
    let compute = one(Grain::Compute)?;
    if claims.iter().all(|(claim, _)| claim.gpu_memory.0 == 0) {
        return Some(compute);
    }
    Some(compute.min(one(Grain::Memory)?))
}

/// Whole GPUs' worth of compute.
fn gpus(claim: &Claim) -> f64 {
    claim.total() as f64 / f64::from(WHOLE.0)
}

fn pools(fleet: &Fleet) -> Vec<Pool> {
    let mut count = vec![0_u64; fleet.classes().len()];
    for node in fleet.nodes() {
        count[usize::from(fleet.class_of(node).0)] += 1;
    }
    let classes = fleet.classes().map(|(index, class)| {
        let (shape, all) = (&class.shape, count[usize::from(index.0)] as f64);
        let pool = Pool {
            model: shape.model,
            gpu_memory: shape.gpu_memory,
            node: shape.gpus,
            gpus: f64::from(shape.gpus) * all,
            cores: shape.cpu.cores() * all,
        };
        ((shape.model, shape.gpus, shape.cpu), pool)
    });
    let pools = joined(classes);
    if pools.len() <= MOST_POOLS {
        return pools;
    }
    joined(pools.into_iter().map(|pool| (pool.model, pool)))
}

/// Pools of one key become one, which can do what the best of them can: bounds must not be too low.
fn joined<K: Ord>(pools: impl Iterator<Item = (K, Pool)>) -> Vec<Pool> {
    let mut joined: BTreeMap<K, Pool> = BTreeMap::new();
    for (key, pool) in pools {
        let entry = joined.entry(key).or_insert(Pool { gpus: 0.0, cores: 0.0, ..pool });
        entry.gpus += pool.gpus;
        entry.cores += pool.cores;
        entry.node = entry.node.max(pool.node);
        entry.gpu_memory = entry.gpu_memory.max(pool.gpu_memory);
    }
    joined.into_values().collect()
}

/// Where the rows of the programme are.
#[derive(Debug, Clone, Copy)]
struct Rows {
    pools: usize,
}

impl Rows {
    fn gpu(self, pool: usize) -> usize {
        pool
    }

    fn cpu(self, pool: usize) -> usize {
        self.pools + pool
    }

    fn kind(self, kind: usize) -> usize {
        2 * self.pools + kind
    }

    /// GPUs of a pool, filled with claims.
    fn filled(self, pool: usize, gpus: f64, claims: &[(usize, u32)], kinds: &[Typical]) -> Column {
        let cores: f64 =
            claims.iter().map(|(kind, count)| kinds[*kind].claim.cpu.cores() * f64::from(*count)).sum();
        let mut takes: Vec<(usize, f64)> =
            claims.iter().map(|(kind, count)| (self.kind(*kind), -f64::from(*count))).collect();
        if gpus > 0.0 {
            takes.push((self.gpu(pool), gpus));
        }
        if cores > 0.0 {
            takes.push((self.cpu(pool), cores));
        }
        Column { takes, worth: 0.0, most: f64::INFINITY }
    }
}

/// What serving the kinds is worth: less and less the more of one is served.
fn serving(kinds: &[Typical], arrivals: f64, row: Rows) -> Vec<Column> {
    let last = SERVED[SERVED.len() - 1];
    let mut columns = Vec::new();
    for (kind, typical) in kinds.iter().enumerate() {
        let size = gpus(&typical.claim);
        let worth = if size > 0.0 { size } else { CORE * typical.claim.cpu.cores() };
        let mut before = 0.0;
        for served in SERVED {
            columns.push(Column {
                takes: vec![(row.kind(kind), 1.0)],
                worth: worth * (1.0 + FAIRNESS * (last - served)),
                most: (served - before) * arrivals * typical.part,
            });
            before = served;
        }
    }
    columns
}

/// The most that parts on one GPU of a pool can be worth, and which parts those are.
fn fullest(
    kinds: &[Typical],
    pool: &Pool,
    grain: Grain,
    worth: impl Fn(usize) -> f64,
) -> (f64, Vec<(usize, u32)>) {
    // Of claims of one size only the dearest matters.
    let mut sizes: BTreeMap<usize, (usize, f64)> = BTreeMap::new();
    for (kind, typical) in kinds.iter().enumerate() {
        let own = grain.steps(&typical.claim, pool.gpu_memory);
        let worth = worth(kind);
        let serves = typical.claim.gpus == 1 && typical.claim.models.contains(pool.model);
        if serves && own > 0 && worth > 0.0 && sizes.get(&own).is_none_or(|(_, most)| worth > *most) {
            sizes.insert(own, (kind, worth));
        }
    }
    let whole = grain.whole();
    let mut best = vec![(0.0_f64, None::<(usize, usize)>); whole + 1];
    for size in 1..=whole {
        best[size] = (best[size - 1].0, None);
        for (own, (kind, worth)) in sizes.range(..=size) {
            let sum = worth + best[size - own].0;
            if sum > best[size].0 + 1e-12 {
                best[size] = (sum, Some((*kind, *own)));
            }
        }
    }
    let mut pattern: BTreeMap<usize, u32> = BTreeMap::new();
    let mut size = whole;
    while size > 0 {
        match best[size].1 {
            Some((kind, own)) => {
                *pattern.entry(kind).or_default() += 1;
                size -= own;
            }
            None => size -= 1,
        }
    }
    (best[whole].0, pattern.into_iter().collect())
}
