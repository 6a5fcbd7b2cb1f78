//! The plan itself: every pod that has a place, every pod that has none, and every GPU as it shall be.

use crate::cost::{self, Cost, NoCost};
use crate::demand::{Served, demand};
use crate::mig::{Counts, Cutter};
use crate::nodes::Pool;
use crate::rest;
use carve_economics::Hours;
use carve_formats::workloads::{PodAsk, Replicas, Workload};
use carve_gpu_model::{Geometry, Mebibytes};
use carve_planner::{Choice, Way};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// More pods than a plan is made for.
pub(crate) const MOST_PODS: u64 = 200_000;
/// CPU and memory of a machine of which neither is known: more than any has.
const PLENTY: (u64, u64) = (1_024_000, 16 << 20);

/// What a plan is made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long the machines are paid for.
    pub hours: Hours,
    /// How many shares a GPU or MIG device is divided into, where a request does not say how large its share is.
    pub shares: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { hours: Hours(720), shares: 4 }
    }
}

/// Why no plan is made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Too much at once.
    #[error("the manifests ask for {pods} pods; a plan is made for at most {MOST_PODS}")]
    TooManyPods {
        /// How many.
        pods: u64,
    },
    /// A number that makes no sense.
    #[error("{shares} shares of a GPU; expected a number from 2 to 48")]
    Shares {
        /// What was given.
        shares: u32,
    },
}

/// Pods of a workload on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landing {
    /// The node, by its place in the plan.
    pub node: usize,
    /// The mechanism; none for pods without GPUs.
    pub way: Option<Way>,
    /// How many pods.
    pub pods: u32,
}

/// Pods of a workload that have no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// How many.
    pub pods: u32,
    /// Why.
    pub because: String,
}

/// What becomes of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedWorkload {
    /// The workload, by its place in the manifests.
    pub workload: usize,
    /// Where its pods are.
    pub landings: Vec<Landing>,
    /// Those that are nowhere.
    pub pending: Vec<Pending>,
    /// The mechanisms by which it is served, each with its reason.
    pub choices: Vec<Choice>,
}

/// A part of a GPU that is not cut by MIG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The workload it is for.
    pub workload: usize,
    /// Thousandths of compute.
    pub compute: u16,
    /// Memory, where it is limited.
    pub memory: Mebibytes,
    /// The mechanism.
    pub way: Way,
}

/// A node as it shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedNode {
    /// `TYPE-NUMBER`.
    pub name: String,
    /// Its type, by its place in the list of machines.
    pub pool: usize,
    /// MIG devices of each GPU that is cut.
    pub mig: Vec<Option<Geometry>>,
    /// Parts of each GPU that is not cut.
    pub parts: Vec<Vec<Part>>,
    /// Pods on it.
    pub pods: u32,
}

/// A whole plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The machines.
    pub pools: Vec<Pool>,
    /// Every node.
    pub nodes: Vec<PlannedNode>,
    /// Every workload that makes pods.
    pub workloads: Vec<PlannedWorkload>,
    /// How many shares a GPU or MIG device was divided into where nothing was said.
    pub shares: u32,
    /// What it costs, against whole GPUs.
    pub cost: Result<Cost, NoCost>,
}

/// Equal pods that are placed by the same rules.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) workload: usize,
    pub(crate) pods: u32,
    pub(crate) every_node: bool,
    pub(crate) pod: PodAsk,
    /// The claim whose node they must go to.
    pub(crate) follows: Option<String>,
    /// The claims they hold for others.
    pub(crate) holds: Vec<String>,
    /// What a pod means on each type of machine.
    pub(crate) served: Vec<Served>,
}

/// What is left of a node while the plan is made.
#[derive(Debug, Clone)]
pub(crate) struct Left {
    pub(crate) cpu: u64,
    pub(crate) memory: u64,
    pub(crate) cut: Vec<Counts>,
}

/// The plan while it is made.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) pools: &'a [Pool],
    pub(crate) nodes: Vec<PlannedNode>,
    pub(crate) left: Vec<Left>,
    pub(crate) workloads: BTreeMap<usize, PlannedWorkload>,
    /// The node on which a shared claim is held.
    pub(crate) held: BTreeMap<String, usize>,
}

/// Plans workloads on machines.
pub fn plan(workloads: &[Workload], pools: &[Pool], settings: Settings) -> Result<Plan, PlanError> {
    if !(2..=48).contains(&settings.shares) {
        return Err(PlanError::Shares { shares: settings.shares });
    }
    let mut jobs = jobs(workloads, pools, settings.shares);
    let pods: u64 = jobs.iter().map(|job| u64::from(job.pods)).sum();
    if pods > MOST_PODS {
        return Err(PlanError::TooManyPods { pods });
    }
    let mut draft = Draft::new(pools);
    for job in &jobs {
        draft.workloads.entry(job.workload).or_insert_with(|| PlannedWorkload {
            workload: job.workload,
            landings: Vec::new(),
            pending: Vec::new(),
            choices: Vec::new(),
        });
    }
    cut(&mut jobs, &mut draft);
    rest::place(&mut jobs, &mut draft);
    let cost = cost::cost(&draft, workloads, settings.hours);
    Ok(Plan {
        pools: pools.to_vec(),
        nodes: draft.nodes,
        workloads: draft.workloads.into_values().collect(),
        shares: settings.shares,
        cost,
    })
}

/// Workloads as jobs. Of pods that use one claim together the first holds its devices and the others follow it.
fn jobs(workloads: &[Workload], pools: &[Pool], shares: u32) -> Vec<Job> {
    let mut jobs = Vec::new();
    let used: BTreeSet<&String> = workloads
        .iter()
        .filter(|workload| workload.kind != "ResourceClaim")
        .flat_map(|workload| workload.pod.gpus.iter().filter_map(|ask| ask.claim.as_ref()))
        .collect();
    let mut held: BTreeSet<String> = BTreeSet::new();
    for (index, workload) in workloads.iter().enumerate() {
        let names =
            |pod: &PodAsk| -> Vec<String> { pod.gpus.iter().filter_map(|ask| ask.claim.clone()).collect() };
        let claims = names(&workload.pod);
        if workload.kind == "ResourceClaim" && claims.iter().any(|claim| used.contains(claim)) {
            continue;
        }
        let (mut pods, every_node) = match workload.replicas {
            Replicas::Count(pods) => (pods, false),
            Replicas::EveryNode => (pools.iter().map(|pool| pool.count).sum(), true),
        };
        let mut add = |pods: u32, pod: PodAsk, follows: Option<String>, holds: Vec<String>| {
            let served = demand(&pod, pools, shares);
            jobs.push(Job { workload: index, pods, every_node, pod, follows, holds, served });
        };
        let fresh: Vec<String> = claims.iter().filter(|claim| !held.contains(*claim)).cloned().collect();
        if !fresh.is_empty() && pods > 0 {
            let mut first = workload.pod.clone();
            first.gpus.retain(|ask| ask.claim.as_ref().is_none_or(|claim| fresh.contains(claim)));
            let follows = claims.iter().find(|claim| held.contains(*claim)).cloned();
            add(1, first, follows, fresh.clone());
            held.extend(fresh);
            pods -= 1;
        }
        if pods > 0 || claims.is_empty() {
            let mut others = workload.pod.clone();
            others.gpus.retain(|ask| ask.claim.is_none());
            add(pods, others, claims.first().cloned(), Vec::new());
        }
    }
    jobs
}

impl<'a> Draft<'a> {
    fn new(pools: &'a [Pool]) -> Self {
        let mut draft = Draft {
            pools,
            nodes: Vec::new(),
            left: Vec::new(),
            workloads: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        for (index, pool) in pools.iter().enumerate() {
            let gpus = usize::from(pool.machine.gpus);
            for number in 0..pool.count {
                draft.nodes.push(PlannedNode {
                    name: format!("{}-{number}", pool.machine.name),
                    pool: index,
                    mig: vec![None; gpus],
                    parts: vec![Vec::new(); gpus],
                    pods: 0,
                });
                draft.left.push(Left {
                    cpu: pool.machine.cpu_milli.unwrap_or(PLENTY.0),
                    memory: pool.machine.memory.map_or(PLENTY.1, |memory| memory.0),
                    cut: Vec::new(),
                });
            }
        }
        draft
    }

    /// Notes that pods of a job are on a node.
    pub(crate) fn land(&mut self, job: &Job, node: usize, choice: &Choice, pods: u32) {
        self.nodes[node].pods += pods;
        for claim in &job.holds {
            self.held.insert(claim.clone(), node);
        }
        let Some(workload) = self.workloads.get_mut(&job.workload) else { return };
        let way = (!job.pod.gpus.is_empty()).then(|| choice.way.clone());
        match workload.landings.iter_mut().find(|landing| landing.node == node && landing.way == way) {
            Some(landing) => landing.pods += pods,
            None => workload.landings.push(Landing { node, way, pods }),
        }
        if !job.pod.gpus.is_empty() && !workload.choices.iter().any(|known| known.way == choice.way) {
            workload.choices.push(choice.clone());
        }
    }

    /// Notes that pods of a job are nowhere.
    pub(crate) fn wait(&mut self, job: &Job, pods: u32, because: String) {
        let Some(workload) = self.workloads.get_mut(&job.workload) else { return };
        match workload.pending.iter_mut().find(|pending| pending.because == because) {
            Some(pending) => pending.pods += pods,
            None => workload.pending.push(Pending { pods, because }),
        }
    }
}

/// Pods that are served by MIG: cuts GPUs node by node and takes what was served off the jobs.
fn cut(jobs: &mut [Job], draft: &mut Draft<'_>) {
    let pools = draft.pools;
    for (index, pool) in pools.iter().enumerate() {
        let Some(table) = &pool.machine.table else { continue };
        let on_mig = |job: &Job| matches!(job.served.get(index), Some(Served::Mig { .. })) && !job.every_node;
        if !jobs.iter().any(on_mig) {
            continue;
        }
        let cutter = Cutter::new(table);
        for node in 0..draft.nodes.len() {
            if draft.nodes[node].pool != index || !jobs.iter().any(|job| job.pods > 0 && on_mig(job)) {
                continue;
            }
            let mut bench = Bench::new(&cutter, usize::from(pool.machine.gpus), &draft.left[node]);
            for job in jobs.iter_mut() {
                bench.bundles(job, index, table, draft, node);
            }
            bench.singles(jobs, index, table, draft, node);
            draft.left[node].cpu = bench.cpu;
            draft.left[node].memory = bench.memory;
            // GPUs that are cut stand last, so that whole ones keep the first numbers.
            bench.gpus.retain(|counts| counts.iter().any(|count| *count > 0));
            for (place, counts) in bench.gpus.iter().enumerate() {
                let gpu = usize::from(pool.machine.gpus) - 1 - place;
                let pairs = counts.iter().zip(table.profiles());
                draft.nodes[node].mig[gpu] =
                    Some(pairs.map(|(count, profile)| (profile.name.clone(), u32::from(*count))).collect());
            }
            draft.left[node].cut = bench.gpus;
        }
    }
}

/// One node while its GPUs are cut.
struct Bench<'a> {
    cutter: &'a Cutter,
    room: usize,
    gpus: Vec<Counts>,
    cpu: u64,
    memory: u64,
}

impl<'a> Bench<'a> {
    fn new(cutter: &'a Cutter, room: usize, left: &Left) -> Self {
        Bench { cutter, room, gpus: left.cut.clone(), cpu: left.cpu, memory: left.memory }
    }

    /// How many pods the machine beside its GPUs has room for.
    fn host_room(&self, pod: &PodAsk) -> u64 {
        let by = |left: u64, each: u64| left.checked_div(each).unwrap_or(u64::MAX);
        by(self.cpu, pod.cpu_milli).min(by(self.memory, pod.memory.0))
    }

    fn take_host(&mut self, pod: &PodAsk, pods: u64) {
        self.cpu -= pod.cpu_milli * pods;
        self.memory -= pod.memory.0 * pods;
    }

    /// Pods of several devices, one after another; those that must be of one GPU are.
    fn bundles(
        &mut self,
        job: &mut Job,
        pool: usize,
        table: &carve_gpu_model::ProfileTable,
        draft: &mut Draft<'_>,
        node: usize,
    ) {
        let Some(Served::Mig { devices, together: 1, choice }) = job.served.get(pool) else { return };
        let (Some(wanted), choice) = (counts(table, devices), choice.clone()) else { return };
        let total: u32 = wanted.iter().map(|count| u32::from(*count)).sum();
        if total < 2 || job.every_node {
            return;
        }
        while job.pods > 0 && self.host_room(&job.pod) > 0 {
            let parts: Vec<Counts> =
                if job.pod.same_gpu { vec![wanted.clone()] } else { one_by_one(&wanted) };
            let mut tried = self.gpus.clone();
            if !parts.iter().all(|part| self.add(&mut tried, part)) {
                return;
            }
            self.gpus = tried;
            self.take_host(&job.pod, 1);
            draft.land(job, node, &choice, 1);
            job.pods -= 1;
        }
    }

    /// Adds devices to the first GPU that holds them, or to a fresh one.
    fn add(&self, gpus: &mut Vec<Counts>, part: &Counts) -> bool {
        for gpu in gpus.iter_mut() {
            let sum: Counts = gpu.iter().zip(part).map(|(one, more)| one.saturating_add(*more)).collect();
            if self.cutter.holds(&sum) {
                *gpu = sum;
                return true;
            }
        }
        let fresh = gpus.len() < self.room && self.cutter.holds(part);
        if fresh {
            gpus.push(part.clone());
        }
        fresh
    }

    /// Pods of one device each: GPUs are cut for as many as can be.
    fn singles(
        &mut self,
        jobs: &mut [Job],
        pool: usize,
        table: &carve_gpu_model::ProfileTable,
        draft: &mut Draft<'_>,
        node: usize,
    ) {
        let mut demand = vec![0_u32; table.profiles().len()];
        let mut ready = Vec::new();
        for (index, job) in jobs.iter().enumerate().filter(|(_, job)| job.pods > 0 && !job.every_node) {
            let Some(Served::Mig { devices, together, choice }) = job.served.get(pool) else { continue };
            let Some(wanted) = counts(table, devices) else { continue };
            if wanted.iter().map(|count| u32::from(*count)).sum::<u32>() != 1 {
                continue;
            }
            let Some(slot) = wanted.iter().position(|count| *count == 1) else { continue };
            let pods = u64::from(job.pods).min(self.host_room(&job.pod)) as u32;
            demand[slot] = demand[slot].saturating_add(pods.div_ceil(*together));
            ready.push((index, slot, *together, choice.clone()));
        }
        let fresh = self.cutter.cut(&demand, self.room - self.gpus.len());
        let mut made: Vec<u32> =
            (0..demand.len()).map(|slot| fresh.iter().map(|counts| u32::from(counts[slot])).sum()).collect();
        let asked = made.clone();
        for (index, slot, together, choice) in ready {
            let room = self.host_room(&jobs[index].pod);
            let pods =
                jobs[index].pods.min(u32::try_from(room).unwrap_or(u32::MAX)).min(made[slot] * together);
            if pods == 0 {
                continue;
            }
            made[slot] -= pods.div_ceil(together);
            self.take_host(&jobs[index].pod.clone(), u64::from(pods));
            draft.land(&jobs[index], node, &choice, pods);
            jobs[index].pods -= pods;
        }
        self.gpus.extend(fresh);
        // Devices that nobody took, because the machine ran out of something else, are not made.
        for (slot, unused) in
            made.iter().enumerate().filter(|(slot, unused)| **unused > 0 && asked[*slot] > 0)
        {
            let mut unused = *unused;
            for counts in self.gpus.iter_mut().rev() {
                let less = unused.min(u32::from(counts[slot])) as u8;
                counts[slot] -= less;
                unused -= u32::from(less);
            }
        }
    }
}

fn counts(
    table: &carve_gpu_model::ProfileTable,
    devices: &BTreeMap<carve_gpu_model::ProfileName, u32>,
) -> Option<Counts> {
    let mut counts = vec![0_u8; table.profiles().len()];
    for (profile, count) in devices {
        let (slot, _) = table.by_name(profile).ok()?;
        counts[usize::from(slot.0)] = u8::try_from(*count).ok()?;
    }
    Some(counts)
}

/// Each device by itself, the largest first.
fn one_by_one(wanted: &Counts) -> Vec<Counts> {
    let mut parts = Vec::new();
    for (slot, count) in wanted.iter().enumerate().rev() {
        for _ in 0..*count {
            let mut part = vec![0; wanted.len()];
            part[slot] = 1;
            parts.push(part);
        }
    }
    parts
}
