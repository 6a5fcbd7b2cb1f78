//! The planner asked for the most claims served on the fewest GPUs, so that as many as can be stay whole.

use super::Counts;
use super::bench::{Bench, Product, is_whole};
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId};
use carve_planner::{
    Ceiling, Demand, Effort, FleetGpu, Generation, GpuAt, HostName, MigMode, PendingClaim, PresentCompute,
    PresentInstance, plan,
};
use std::collections::BTreeMap;

/// GPUs that are planned at once. Time and memory grow with them, and beyond a thousand a plan gets no better.
const AT_ONCE: usize = 1024;

/// A GPU of a machine: its bench, and its place there.
type Place = (usize, usize);

/// A claim that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServedClaim {
    /// Its place in the demand.
    pub(super) claim: usize,
    pub(super) bench: usize,
    pub(super) gpu: usize,
    pub(super) slot: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct FoundCut {
    /// In the order of the demand.
    pub(super) served: Vec<ServedClaim>,
    /// Whether all GPUs were offered and no choice was left out: then no cut serves more.
    pub(super) all_looked_at: bool,
}

/// GPUs that may be cut.
#[derive(Debug)]
pub(super) struct Offer<'a> {
    products: &'a [Option<Product>],
    benches: &'a [Bench],
    /// GPUs that are cut already and may have room.
    open: Vec<Place>,
    /// Whole GPUs of each type of machine, those to be cut first at the front.
    whole: Vec<Vec<Place>>,
    /// Numbers of the open ones by kind, as the ceiling wants them after the whole ones.
    open_numbers: Vec<usize>,
    ceiling: Ceiling,
    order: &'a [usize],
}

impl<'a> Offer<'a> {
    /// The GPUs of the machines that are of use; none if there are none.
    pub(super) fn of(
        products: &'a [Option<Product>],
        benches: &'a [Bench],
        useful: &[bool],
        order: &'a [usize],
        demand: &Demand,
    ) -> Option<Self> {
        let (mut open, mut whole) = (Vec::new(), vec![Vec::new(); products.len()]);
        let mut kinds: BTreeMap<(usize, &Counts), (Place, usize)> = BTreeMap::new();
        for (at, bench) in benches.iter().enumerate().filter(|(at, _)| useful.get(*at) == Some(&true)) {
            for (gpu, counts) in bench.gpus.iter().enumerate() {
                if is_whole(counts) {
                    whole.get_mut(bench.pool)?.push((at, gpu));
                } else {
                    kinds.entry((bench.pool, counts)).or_insert(((at, gpu), 0)).1 += 1;
                    open.push((at, gpu));
                }
            }
        }
        let offer = |place: &Place| fleet_gpu(products, benches, *place);
        // A type of machine without a whole GPU is there with the number none, so that numbers keep their places.
        let mut examples: Vec<FleetGpu> = Vec::new();
        for pool in 0..products.len() {
            examples.extend(example(products, pool));
        }
        examples.extend(kinds.values().filter_map(|(place, _)| offer(place)));
        let open_numbers = kinds.into_values().map(|(_, number)| number).collect();
        let ceiling = Ceiling::of(&examples, demand).ok()?;
        Some(Offer { products, benches, open, whole, open_numbers, ceiling, order })
    }

    /// The most claims served, on the fewest GPUs.
    pub(super) fn best(&self, demand: &Demand) -> FoundCut {
        let all: Vec<usize> = self.whole.iter().map(Vec::len).collect();
        let few = self.fewest(&all);
        let most = self.ceiling(&all);
        let mut best = self.plan(&few, demand);
        if best.served.len() as u64 >= most || few == all {
            best.all_looked_at &= few == all;
            return best;
        }
        let more = |extra: usize| -> Vec<usize> {
            few.iter().zip(&all).map(|(few, all)| (few + extra).min(*all)).collect()
        };
        // The ceiling is not reached there. Of many GPUs a few more will do, and the very fewest are not worth the time.
        let many = all.iter().sum::<usize>() > AT_ONCE;
        for part in [128, 32, 8].into_iter().filter(|_| many) {
            let found = self.plan(&more(few.iter().max().map_or(0, |few| few.div_ceil(part))), demand);
            if found.served.len() > best.served.len() {
                best = found;
            }
            if best.served.len() as u64 >= most {
                best.all_looked_at = false;
                return best;
            }
        }
        // If all GPUs serve no more either, these will do.
        let full = self.plan(&all, demand);
        let looked_at = full.all_looked_at;
        let target = full.served.len();
        if target > best.served.len() {
            best = full;
            let (mut low, mut high) =
                (0, few.iter().zip(&all).map(|(few, all)| all - few).max().unwrap_or(0));
            while low + 1 < high && !many {
                let middle = low + (high - low) / 2;
                let found = self.plan(&more(middle), demand);
                if found.served.len() >= target {
                    (best, high) = (found, middle);
                } else {
                    low = middle;
                }
            }
        }
        best.all_looked_at = looked_at;
        best
    }

    fn ceiling(&self, whole: &[usize]) -> u64 {
        let pools = whole.iter().enumerate().filter(|(pool, _)| self.products[*pool].is_some());
        let numbers = pools.map(|(_, number)| *number).chain(self.open_numbers.iter().copied());
        self.ceiling.serves_at_most(&numbers.collect::<Vec<_>>())
    }

    /// The fewest whole GPUs of each type of machine with which the ceiling is as high as with all; the types to be cut first are reduced
    /// last.
    fn fewest(&self, all: &[usize]) -> Vec<usize> {
        let most = self.ceiling(all);
        let mut few = all.to_vec();
        for pool in self.order.iter().rev() {
            let (mut low, mut high) = (0, few[*pool]);
            while low < high {
                let middle = low + (high - low) / 2;
                few[*pool] = middle;
                if self.ceiling(&few) >= most {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            few[*pool] = high;
        }
        few
    }

    /// Plans on the first so many whole GPUs of each type of machine, and on those that are cut already.
    fn plan(&self, whole: &[usize], demand: &Demand) -> FoundCut {
        let mut places = self.open.clone();
        for pool in self.order {
            places.extend(self.whole[*pool].iter().take(whole[*pool]));
        }
        let parts = places.len().div_ceil(AT_ONCE);
        let mut found = FoundCut { served: Vec::new(), all_looked_at: parts <= 1 };
        let mut waiting: Vec<usize> = (0..demand.pending.len()).collect();
        // Parts of one size get shares of one size.
        let each = places.len().div_ceil(parts.max(1)).max(1);
        for (part, places) in places.chunks(each).enumerate() {
            let (now, later) = share(&waiting, demand, parts - part);
            let pending: Vec<PendingClaim> = now.iter().map(|claim| demand.pending[*claim].clone()).collect();
            let gpus: Vec<FleetGpu> =
                places.iter().filter_map(|place| fleet_gpu(self.products, self.benches, *place)).collect();
            let asked = Demand { pending, ..Demand::default() };
            // Everything that the planner refuses is excluded by how the GPUs and claims were made.
            let Ok(planned) = plan(&gpus, &asked, Generation(0), Effort::for_gpus(gpus.len())) else { break };
            found.all_looked_at &= planned.quality.exhaustive;
            let at: BTreeMap<&GpuAt, Place> =
                gpus.iter().map(|gpu| &gpu.at).zip(places.iter().copied()).collect();
            waiting = later;
            for claim in now {
                let served = planned.served.get(&demand.pending[claim].name);
                match served.and_then(|served| Some((at.get(&served.on)?, served))) {
                    Some((&(bench, gpu), served)) => {
                        let slot = usize::from(served.placed.profile.0);
                        found.served.push(ServedClaim { claim, bench, gpu, slot });
                    }
                    None => waiting.push(claim),
                }
            }
            waiting.sort_unstable();
        }
        found.served.sort_unstable();
        found
    }
}

/// Of the claims that wait, an even part of every kind for the first of so many parts; and the others.
fn share(waiting: &[usize], demand: &Demand, parts: usize) -> (Vec<usize>, Vec<usize>) {
    if parts <= 1 {
        return (waiting.to_vec(), Vec::new());
    }
    let (mut now, mut later) = (Vec::new(), Vec::new());
    // Claims of one job are neighbours; every so many-th of them is taken now.
    for run in waiting.chunk_by(|one, other| demand.pending[*one].wants == demand.pending[*other].wants) {
        let (first, others) = run.split_at(run.len().div_ceil(parts));
        now.extend_from_slice(first);
        later.extend_from_slice(others);
    }
    (now, later)
}

/// A whole GPU of a type of machine, to ask the ceiling about.
pub(super) fn example(products: &[Option<Product>], pool: usize) -> Option<FleetGpu> {
    let product = products.get(pool)?.as_ref()?;
    Some(FleetGpu {
        at: GpuAt { host: HostName(format!("any {}", product.name.0)), gpu: GpuIndex(0) },
        pool: product.name.clone(),
        table: product.table.clone(),
        mode: MigMode::Off,
        instances: Vec::new(),
    })
}

/// A GPU as the planner sees it: what is promised already is in use.
fn fleet_gpu(products: &[Option<Product>], benches: &[Bench], (at, gpu): Place) -> Option<FleetGpu> {
    let bench = benches.get(at)?;
    let product = products.get(bench.pool)?.as_ref()?;
    let counts = bench.gpus.get(gpu)?;
    let present = product.places(counts).iter().enumerate().map(|(id, placed)| PresentInstance {
        id: GpuInstanceId(id as u32),
        placed: *placed,
        compute: vec![PresentCompute {
            id: ComputeInstanceId(0),
            slices: product.table.get(placed.profile).map_or(0, |profile| profile.slices),
            in_use: true,
        }],
    });
    Some(FleetGpu {
        at: GpuAt { host: HostName(format!("{at:06}")), gpu: GpuIndex(gpu as u32) },
        pool: product.name.clone(),
        table: product.table.clone(),
        mode: if is_whole(counts) { MigMode::Off } else { MigMode::On },
        instances: present.collect(),
    })
}
