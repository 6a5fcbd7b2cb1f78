//! The plan itself: every pod that has a place, every pod that has none, and every GPU as it shall be.

use crate::cost::{self, Cost, NoCost};
use crate::demand::{Served, demand};
use crate::mig::{self, MigCut};
use crate::nodes::Pool;
use crate::rest;
use carve_economics::Hours;
use carve_formats::workloads::{PodAsk, Replicas, Workload};
use carve_gpu_model::{Geometry, Mebibytes, Mechanism, Mechanisms};
use carve_planner::{Choice, Way};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// More pods than a plan is made for.
pub(crate) const MOST_PODS: u64 = 200_000;
/// Types of machines of which it is tried to keep them whole.
const MOST_ORDERS: usize = 4;
/// CPU and memory of a machine of which neither is known: more than any has.
const PLENTY: (u64, u64) = (1_024_000, 16 << 20);

/// What a plan is made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long the machines are paid for.
    pub hours: Hours,
    /// How many shares a GPU or MIG device is divided into, where a request does not say how large its share is.
    pub shares: u32,
    /// The mechanisms that the cluster has. Whole GPUs are always to be had.
    pub mechanisms: Mechanisms,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { hours: Hours(720), shares: 4, mechanisms: Mechanisms::ANY.without(Mechanism::Limiter) }
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
    /// Whether its parts are of several sizes, or its pods need claims elsewhere: then claims reach them, not shares of the device plugin.
    pub by_claims: bool,
    /// Pods on it.
    pub pods: u32,
}

impl PlannedWorkload {
    /// Notes that pods are nowhere.
    pub(crate) fn wait(&mut self, pods: u32, because: String) {
        match self.pending.iter_mut().find(|pending| pending.because == because) {
            Some(pending) => pending.pods += pods,
            None => self.pending.push(Pending { pods, because }),
        }
    }
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
    /// What MIG GPUs are cut into, with the bound that no cut exceeds.
    pub mig: MigCut,
    /// How many shares a GPU or MIG device was divided into where nothing was said.
    pub shares: u32,
    /// What it costs, against whole GPUs.
    pub cost: Result<Cost, NoCost>,
}

/// Equal pods that are placed by the same rules.
#[derive(Debug, Clone)]
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
    /// GPUs that are cut.
    pub(crate) cut: u8,
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
    let jobs = jobs(workloads, pools, settings);
    let pods: u64 = jobs.iter().map(|job| u64::from(job.pods)).sum();
    if pods > MOST_PODS {
        return Err(PlanError::TooManyPods { pods });
    }
    let mut best: Option<(Worth, Draft<'_>, MigCut)> = None;
    for order in orders(&jobs, pools) {
        let (draft, mig) = attempt(jobs.clone(), pools, &order);
        let worth = draft.worth();
        if best.as_ref().is_none_or(|(known, ..)| *known < worth) {
            best = Some((worth, draft, mig));
        }
    }
    // There is always an order; without machines or pods it is an empty one.
    let (draft, mig) = match best {
        Some((_, draft, mig)) => (draft, mig),
        None => attempt(jobs, pools, &[]),
    };
    let cost = cost::cost(&draft, workloads, settings.hours);
    Ok(Plan {
        pools: pools.to_vec(),
        nodes: draft.nodes,
        workloads: draft.workloads.into_values().collect(),
        mig,
        shares: settings.shares,
        cost,
    })
}

/// Pods that have a place, and machines that stay empty.
type Worth = (u32, usize);

/// MIG first, because only some GPUs can serve it, then the rest on what is left.
fn attempt<'a>(mut jobs: Vec<Job>, pools: &'a [Pool], order: &[usize]) -> (Draft<'a>, MigCut) {
    let mut draft = Draft::new(pools);
    for job in &jobs {
        draft.workloads.entry(job.workload).or_insert_with(|| PlannedWorkload {
            workload: job.workload,
            landings: Vec::new(),
            pending: Vec::new(),
            choices: Vec::new(),
        });
    }
    let mig = mig::cut(&mut jobs, &mut draft, order);
    rest::place(&mut jobs, &mut draft);
    (draft, mig)
}

/// The orders in which types of machines may be cut: as they are listed, and where pods leave a choice between types that others want
/// whole, each of these types last.
fn orders(jobs: &[Job], pools: &[Pool]) -> Vec<Vec<usize>> {
    let listed: Vec<usize> = (0..pools.len()).collect();
    let is_mig = |served: &Served| matches!(served, Served::Mig { .. });
    let choice = |job: &&Job| job.served.iter().filter(|served| is_mig(served)).count() > 1;
    let chosen: BTreeSet<usize> = jobs
        .iter()
        .filter(choice)
        .flat_map(|job| {
            job.served.iter().enumerate().filter(|(_, served)| is_mig(served)).map(|(pool, _)| pool)
        })
        .collect();
    let otherwise = |pool: &&usize| {
        let wants =
            |job: &Job| !job.pod.gpus.is_empty() && matches!(job.served[**pool], Served::Claims { .. });
        jobs.iter().any(wants)
    };
    let mut orders = vec![listed.clone()];
    for last in chosen.iter().filter(otherwise).take(MOST_ORDERS) {
        let others = listed.iter().filter(|pool| *pool != last);
        let order: Vec<usize> = others.chain([last]).copied().collect();
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    orders
}

/// Workloads as jobs. Of pods that use one claim together the first holds its devices and the others follow it.
fn jobs(workloads: &[Workload], pools: &[Pool], settings: Settings) -> Vec<Job> {
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
            let served = demand(&pod, pools, settings);
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
                    by_claims: false,
                    pods: 0,
                });
                draft.left.push(Left {
                    cpu: pool.machine.cpu_milli.unwrap_or(PLENTY.0),
                    memory: pool.machine.memory.map_or(PLENTY.1, |memory| memory.0),
                    cut: 0,
                });
            }
        }
        draft
    }

    /// How good the plan is.
    fn worth(&self) -> Worth {
        let pods = self.nodes.iter().map(|node| node.pods).sum();
        (pods, self.nodes.iter().filter(|node| node.pods == 0).count())
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
        if let Some(workload) = self.workloads.get_mut(&job.workload) {
            workload.wait(pods, because);
        }
    }
}
