//! Who got which MIG device, written down as a plan of the planner with the bound that holds for it.

use super::bench::{Bench, Product, is_whole};
use super::{Counts, devices_of, wants};
use crate::plan::{Draft, Job};
use carve_gpu_model::{GpuIndex, Placed, ProfileName};
use carve_planner::{
    Ceiling, ClaimName, Created, Demand, FleetGpu, Generation, GpuAt, GpuPlan, HostName, MigMode,
    PendingClaim, Plan, Quality, Recut, Served, WaitsFor, Wants, room,
};
use std::collections::BTreeMap;

/// What was decided about MIG: [`carve_planner::check_plan`] accepts `plan` for `gpus` and `demand`.
#[derive(Debug, Clone)]
pub struct MigCut {
    /// The GPUs of the machines of which at least one is cut.
    pub gpus: Vec<FleetGpu>,
    /// A claim for every MIG device that pods ask for; DaemonSets are left out.
    pub demand: Demand,
    /// What each GPU becomes and who gets what. Its bound holds for all machines, cut or not, and for any cut of them.
    pub plan: Plan,
    /// At least so many GPUs are needed for as many devices. Not told where several types of machines serve.
    pub gpus_at_least: Option<usize>,
}

impl MigCut {
    /// Devices that are asked for.
    pub fn asked(&self) -> u64 {
        self.demand.pending.len() as u64
    }

    /// Devices that are made.
    pub fn made(&self) -> u64 {
        self.plan.served.len() as u64
    }

    /// No cut of these machines makes more of the devices that are asked for.
    pub fn at_most(&self) -> u64 {
        self.plan.quality.serves_at_most
    }

    /// GPUs that are cut.
    pub fn gpus_cut(&self) -> usize {
        self.plan.gpus.values().filter(|gpu| !gpu.geometry.is_empty()).count()
    }
}

/// A device that a job has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) job: usize,
    pub(super) bench: usize,
    pub(super) gpu: usize,
    pub(super) slot: usize,
}

/// What is known so far.
#[derive(Debug)]
pub(super) struct Ledger {
    taken: Vec<Taken>,
    /// For each job, how many pods machines have CPU and memory for, were they empty.
    possible: Vec<u64>,
    /// Claims for single devices that were all looked at, and how many of them can be served.
    known: Option<(usize, usize)>,
}

impl Ledger {
    pub(super) fn new(jobs: &[Job], benches: &[Bench]) -> Self {
        let mut ledger = Ledger { taken: Vec::new(), possible: Vec::new(), known: None };
        ledger.possible =
            jobs.iter().map(|job| ledger.host_room(job, benches).min(u64::from(job.pods))).collect();
        ledger
    }

    /// How many pods of a job machines have CPU and memory for now.
    pub(super) fn host_room(&self, job: &Job, benches: &[Bench]) -> u64 {
        let serve = benches.iter().filter(|bench| wants(job, bench.pool).is_some());
        serve.fold(0, |sum, bench| sum.saturating_add(bench.host_room(&job.pod)))
    }

    pub(super) fn take(&mut self, taken: Taken) {
        self.taken.push(taken);
    }

    /// Notes that of so many claims no cut serves more than so many.
    pub(super) fn looked_at_all(&mut self, claims: usize, served: usize) {
        self.known = Some((claims, served));
    }

    /// The plan.
    pub(super) fn close(
        self,
        jobs: &[Job],
        draft: &Draft<'_>,
        products: &[Option<Product>],
        benches: &[Bench],
    ) -> MigCut {
        let mut book = Book::new(benches, draft, products);
        let (mut demand, mut reachable) = (Demand::default(), Demand::default());
        let mut of_job: BTreeMap<usize, Vec<Taken>> = BTreeMap::new();
        for taken in &self.taken {
            of_job.entry(taken.job).or_default().push(*taken);
        }
        for (index, job) in jobs.iter().enumerate() {
            let each = devices_of(job);
            if each == 0 {
                continue;
            }
            let taken = of_job.remove(&index).unwrap_or_default();
            let together =
                (0..products.len()).filter_map(|pool| wants(job, pool)).map(|(_, share)| share).max();
            let devices =
                |pods: u64| pods.div_ceil(u64::from(together.unwrap_or(1).max(1))) * u64::from(each);
            let asked = taken.len() as u64 + devices(u64::from(job.pods));
            let reach = (taken.len() as u64).max(devices(self.possible[index]));
            for number in 0..asked {
                let name = ClaimName(format!("{index:05}.{number:07}"));
                let claim = PendingClaim { name, wants: wanted(job, products, number) };
                match taken.get(number as usize) {
                    Some(taken) => book.serve(&claim.name, taken, benches, products),
                    None => book.wait(&claim.name),
                }
                if number < reach {
                    reachable.pending.push(claim.clone());
                }
                demand.pending.push(claim);
            }
        }
        let (at_most, gpus_at_least) = bounds(&reachable, products, benches, book.plan.served.len() as u64);
        let exact = self.known.filter(|(claims, _)| *claims == reachable.pending.len());
        let at_most = exact.map_or(at_most, |(_, served)| at_most.min(served as u64));
        // What is there is a proof that it can be.
        book.plan.quality.serves_at_most = at_most.max(book.plan.served.len() as u64);
        MigCut { gpus: book.gpus, demand, plan: book.plan, gpus_at_least }
    }
}

/// What a device of a job is asked for as. Of a pod with several, each is a claim of its own.
fn wanted(job: &Job, products: &[Option<Product>], number: u64) -> Wants {
    let mut names = BTreeMap::new();
    for (pool, product) in products.iter().enumerate() {
        let (Some(product), Some((devices, _))) = (product, wants(job, pool)) else { continue };
        let one = |(name, count): (&ProfileName, &u32)| {
            let known = product.table.by_name(name).ok().map(|(slot, profile)| (slot, profile.name.clone()));
            std::iter::repeat_n(known, *count as usize)
        };
        // In the order in which a pod takes them: the largest first.
        let mut each: Vec<_> = devices.iter().flat_map(one).flatten().collect();
        each.sort_by(|one, other| if job.pod.same_gpu { one.cmp(other) } else { other.cmp(one) });
        if let Some((_, name)) = each.get((number % each.len().max(1) as u64) as usize) {
            names.insert(product.name.clone(), name.clone());
        }
    }
    Wants::InPools(names)
}

/// How many claims any cut of all machines serves at most, and how many GPUs it takes at least to serve so many.
fn bounds(
    demand: &Demand,
    products: &[Option<Product>],
    benches: &[Bench],
    made: u64,
) -> (u64, Option<usize>) {
    let pools: Vec<usize> = (0..products.len()).filter(|pool| products[*pool].is_some()).collect();
    let example = |pool: &usize| super::fewest::example(products, *pool);
    let examples: Vec<FleetGpu> = pools.iter().filter_map(example).collect();
    let number = |pool: &usize| -> usize {
        benches.iter().filter(|bench| bench.pool == *pool).map(|bench| bench.gpus.len()).sum()
    };
    let numbers: Vec<usize> = pools.iter().map(number).collect();
    let Ok(ceiling) = Ceiling::of(&examples, demand) else { return (u64::MAX, None) };
    let at_most = ceiling.serves_at_most(&numbers);
    let [all] = numbers[..] else { return (at_most, None) };
    let (mut low, mut high) = (0, all);
    while low < high {
        let middle = low + (high - low) / 2;
        if ceiling.serves_at_most(&[middle]) >= made { high = middle } else { low = middle + 1 }
    }
    (at_most, Some(high))
}

/// The plan while it is written.
struct Book {
    gpus: Vec<FleetGpu>,
    plan: Plan,
    /// For each GPU that is cut, the places that nobody has yet.
    free: BTreeMap<(usize, usize), (GpuAt, Vec<Placed>)>,
    whole_fleet: usize,
}

impl Book {
    fn new(benches: &[Bench], draft: &Draft<'_>, products: &[Option<Product>]) -> Self {
        let quality = Quality { serves_at_most: 0, exhaustive: false, destroyed: 0, room: 0 };
        let plan = Plan {
            generation: Generation(0),
            gpus: BTreeMap::new(),
            served: BTreeMap::new(),
            waiting: BTreeMap::new(),
            quality,
        };
        let whole_fleet = benches.iter().map(|bench| bench.gpus.len()).sum();
        let mut book = Book { gpus: Vec::new(), plan, free: BTreeMap::new(), whole_fleet };
        for (index, bench) in benches.iter().enumerate() {
            let Some(product) = products.get(bench.pool).and_then(Option::as_ref) else { continue };
            if bench.gpus.iter().all(is_whole) {
                continue;
            }
            let numbers: BTreeMap<usize, &Counts> = bench.numbered().collect();
            let mut cut = (0..bench.gpus.len()).filter(|place| !is_whole(&bench.gpus[*place]));
            for number in (0..bench.gpus.len()).rev() {
                let host = HostName(draft.nodes[bench.node].name.clone());
                let at = GpuAt { host, gpu: GpuIndex(number as u32) };
                let places = numbers.get(&number).map_or(&[][..], |counts| product.places(counts));
                if let Some(place) = numbers.get(&number).and_then(|_| cut.next()) {
                    book.free.insert((index, place), (at.clone(), places.to_vec()));
                }
                book.open(at, product, places);
            }
        }
        book
    }

    fn open(&mut self, at: GpuAt, product: &Product, places: &[Placed]) {
        let slices = |placed: &Placed| product.table.get(placed.profile).map_or(0, |profile| profile.slices);
        let mut create: Vec<Created> =
            places.iter().map(|placed| Created { placed: *placed, compute: vec![slices(placed)] }).collect();
        create.sort_by_key(|created| created.placed.start);
        self.plan.quality.room += u64::from(room(&product.table, places));
        let change = GpuPlan {
            geometry: carve_gpu_model::Geometry::of(&product.table, places),
            switch_mode_on: !create.is_empty(),
            recut: Recut { create, ..Recut::default() },
        };
        self.plan.gpus.insert(at.clone(), change);
        self.gpus.push(FleetGpu {
            at,
            pool: product.name.clone(),
            table: product.table.clone(),
            mode: MigMode::Off,
            instances: Vec::new(),
        });
    }

    fn serve(&mut self, claim: &ClaimName, taken: &Taken, benches: &[Bench], products: &[Option<Product>]) {
        let profile = |placed: &Placed| usize::from(placed.profile.0) == taken.slot;
        let Some((at, free)) = self.free.get_mut(&(taken.bench, taken.gpu)) else { return };
        let Some(place) = free.iter().position(profile) else { return };
        let placed = free.remove(place);
        let product = benches.get(taken.bench).and_then(|bench| products.get(bench.pool)?.as_ref());
        let Some(profile) = product.and_then(|product| product.table.get(placed.profile)) else { return };
        let served = Served { on: at.clone(), placed, profile: profile.name.clone(), existing: None };
        self.plan.served.insert(claim.clone(), served);
    }

    fn wait(&mut self, claim: &ClaimName) {
        self.plan.waiting.insert(claim.clone(), WaitsFor::OtherClaims { gpus: self.whole_fleet });
    }
}
