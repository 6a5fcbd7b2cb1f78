//! The decision: which nodes are cut now, and why every other pod goes on waiting.

use crate::defragment::{Move, defragment};
use crate::node_plan::{Proposal, propose};
use crate::room::{NodeRoom, Part};
use crate::{
    Amounts, Assigned, BoundPod, Mode, NodePlan, NodeReport, Order, Rules, Seconds, Taint, WaitingPod, assign,
};
use carve_gpu_model::GpuUuid;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How long a pod waits before GPUs are cut for it: the scheduler may find it a place, and others may come that want the same.
pub const SETTLING: u64 = 3;
/// The first and the longest wait after a failure, in seconds; each is twice the one before.
pub const BACKOFF: (u64, u64) = (15, 900);

/// A node.
#[derive(Debug, Clone, Default)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What keeps pods off it.
    pub taints: Vec<Taint>,
    /// Whether pods can be started there.
    pub ready: bool,
    /// What its agent reports.
    pub report: Option<NodeReport>,
    /// The order that its agent has not answered yet.
    pub ordered: Option<Ordered>,
    /// Number of the next plan.
    pub next_generation: u64,
    /// What happened before.
    pub history: History,
    /// What it has left besides GPUs, where it says what it has.
    pub left: Option<Amounts>,
    /// Pods that were bound to it and have not ended.
    pub bound: Vec<BoundPod>,
}

/// An order that is not answered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    /// The policy whose budget it counts against.
    pub policy: String,
    /// The order.
    pub order: Order,
}

/// What a node's GPUs went through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// When each GPU was cut last.
    pub recuts: BTreeMap<GpuUuid, Seconds>,
    /// Failures since an order was carried out.
    pub failures: u32,
    /// When the last one was.
    pub failed_at: Seconds,
}

/// When a node is tried again after its failures.
pub fn retry_after(history: &History) -> Option<Seconds> {
    let doublings = history.failures.checked_sub(1)?.min(16);
    Some(Seconds(history.failed_at.0 + (BACKOFF.0 << doublings).min(BACKOFF.1)))
}

/// Everything that a decision is made of.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// All nodes.
    pub nodes: Vec<NodeFacts>,
    /// Pods that wait for MIG devices.
    pub pods: Vec<WaitingPod>,
    /// Policies.
    pub rules: Vec<Rules>,
    /// Now.
    pub now: Seconds,
    /// Whether to look for pods that could move, which takes long; where nothing else has changed once in a while is enough.
    pub defragment: bool,
}

/// What to do, and why nothing is done for others.
#[derive(Debug, Clone, Default)]
pub struct Decisions {
    /// Plans, at most one for a node.
    pub plans: Vec<NodePlan>,
    /// Pods that no new plan serves.
    pub waiting: BTreeMap<String, Why>,
    /// What went wrong where nothing should: a planner's answer that its checker refuses.
    pub flaws: Vec<String>,
    /// When time alone will change something.
    pub look_again: Option<Seconds>,
}

/// Why nothing is cut for a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A free instance is there, or will be: the scheduler's turn.
    Free {
        /// Where.
        node: String,
        /// Whether it is still being made.
        being_cut: bool,
    },
    /// It waits only since a moment.
    Settling,
    /// As many nodes are being cut as the policy allows.
    Budget {
        /// The policy.
        policy: String,
    },
    /// GPUs that were cut a moment ago are left alone.
    Pause {
        /// Until when.
        until: Seconds,
    },
    /// Nodes are left alone after failures.
    BackingOff {
        /// One of them.
        node: String,
        /// Until when.
        until: Seconds,
    },
    /// Nothing can be made beside what is in use.
    InUse {
        /// On how many nodes.
        nodes: usize,
    },
    /// Where GPUs could be cut, something else is used up.
    Short {
        /// On how many nodes.
        nodes: usize,
        /// What, on one of them.
        of: String,
    },
    /// Policies forbid it, or there are none for the nodes it may go to.
    NotAllowed {
        /// On how many nodes it could be made.
        nodes: usize,
    },
    /// No node that it may go to has a GPU with such a profile.
    NoGpu,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Free { node, being_cut: false } => write!(
                f,
                "node {node} has what it asks for, free; if it stays pending, something else is in its way"
            ),
            Why::Free { node, being_cut: true } => write!(f, "node {node} is being cut and will have what it asks for"),
            Why::Settling => f.write_str("it waits only since a moment; the scheduler may still find it a place"),
            Why::Budget { policy } => {
                write!(f, "as many nodes are being cut as SlicePolicy '{policy}' allows at once")
            }
            Why::Pause { .. } => {
                f.write_str("GPUs that could serve it were cut a moment ago; nothing of them is destroyed until the policy's pause is over")
            }
            Why::BackingOff { node, .. } => {
                write!(f, "the last plan for node {node} failed; it is left alone for a while, see its SlicePlan")
            }
            Why::InUse { nodes } => write!(
                f,
                "instances in use leave no room for it on any of {nodes} node(s) that could be cut for it"
            ),
            Why::Short { nodes, of } => write!(
                f,
                "{nodes} node(s) have GPUs that could be cut for it, but not enough {of} left for it besides; nothing is cut until there is"
            ),
            Why::NotAllowed { nodes } => write!(
                f,
                "{nodes} node(s) have GPUs that could be cut for it, but no SlicePolicy lets that happen by itself, or a person \
                 has set their MIG config by label"
            ),
            Why::NoGpu => f.write_str("no node that it may go to has a GPU with such a MIG profile"),
        }
    }
}

/// A node on its way to a decision.
struct Candidate<'a> {
    facts: &'a NodeFacts,
    room: NodeRoom,
    /// What is left besides GPUs.
    left: Option<Amounts>,
    rules: Option<&'a Rules>,
    /// GPUs of which nothing may be destroyed yet, and until when.
    paused: BTreeMap<GpuUuid, Seconds>,
}

impl<'a> Candidate<'a> {
    fn new(facts: &'a NodeFacts, rules: &'a [Rules], now: Seconds) -> Self {
        let manual = facts.report.as_ref().is_some_and(|report| report.manual.is_some());
        let rules = match assign(rules, &facts.labels) {
            Assigned::To(rules) if rules.mode != Mode::Manual && !manual => Some(rules),
            _ => None,
        };
        let pause = rules.map_or(0, |rules| rules.pause);
        let until = facts.history.recuts.iter().map(|(uuid, at)| (uuid.clone(), Seconds(at.0 + pause)));
        let paused = until.filter(|(_, until)| *until > now).collect();
        Candidate { facts, room: NodeRoom::of(facts), left: facts.left.clone(), rules, paused }
    }

    /// Whether a pod may go there, and finds enough of everything but GPUs.
    fn takes(&self, pod: &WaitingPod) -> bool {
        self.allows(pod) && self.left.as_ref().is_none_or(|left| left.cover(&pod.besides))
    }

    fn allows(&self, pod: &WaitingPod) -> bool {
        let NodeFacts { name, labels, taints, .. } = self.facts;
        self.facts.ready && pod.whereabouts.allow(name, labels, taints)
    }

    /// Gives a pod instances that are free, if there are enough.
    fn serve(&mut self, pod: &WaitingPod) -> bool {
        let served = self.room.take(&pod.wants);
        if let Some(left) = self.left.as_mut().filter(|_| served) {
            left.take(&pod.besides);
        }
        served
    }

    /// Whether it can be cut now.
    fn is_open(&self, now: Seconds) -> bool {
        self.facts.ordered.is_none() && retry_after(&self.facts.history).is_none_or(|until| until <= now)
    }

    /// What a plan depends on: nodes for which it is the same need not all be planned.
    fn likeness(&self, eligible: &[(usize, &WaitingPod)]) -> Likeness {
        let gpus = self.room.gpus.iter().map(|gpu| {
            let paused = self.paused.contains_key(&gpu.uuid);
            // Who holds something makes no difference to what can be cut.
            let parts = gpu.parts.iter().map(|part| Part { pods: Vec::new(), ..part.clone() });
            (gpu.product.clone(), gpu.mig, gpu.held, paused, parts.collect())
        });
        let policy = self.rules.map(|rules| rules.name.clone()).unwrap_or_default();
        let mut together = Amounts::default();
        eligible.iter().for_each(|(_, pod)| together.add(&pod.besides));
        // Where there is enough for everybody, how much it is makes no difference.
        let scarce = self.left.clone().filter(|left| !left.cover(&together));
        let numbers = eligible.iter().map(|(number, _)| *number).collect();
        (policy, numbers, scarce, gpus.collect())
    }
}

type Likeness = (String, Vec<usize>, Option<Amounts>, Vec<(String, bool, bool, bool, Vec<Part>)>);

/// What to do now.
pub fn decide(facts: &Facts) -> Decisions {
    let mut decisions = Decisions::default();
    let mut nodes: Vec<Candidate<'_>> =
        facts.nodes.iter().map(|node| Candidate::new(node, &facts.rules, facts.now)).collect();
    let mut pods: Vec<&WaitingPod> = facts.pods.iter().collect();
    pods.sort_by_key(|pod| (std::cmp::Reverse(pod.priority), pod.since, &pod.name));
    // What there is, and what is being made, is for those who come first.
    let mut demand: BTreeMap<usize, &WaitingPod> = BTreeMap::new();
    for (number, pod) in pods.iter().enumerate() {
        let at_rest =
            |being_cut: bool| move |node: &&mut Candidate<'_>| node.facts.ordered.is_some() == being_cut;
        let served = [false, true].into_iter().find_map(|being_cut| {
            let mut all = nodes.iter_mut().filter(at_rest(being_cut)).filter(|node| node.takes(pod));
            let node = all.find_map(|node| node.serve(pod).then(|| node.facts.name.clone()))?;
            Some(Why::Free { node, being_cut })
        });
        match served {
            Some(why) => drop(decisions.waiting.insert(pod.name.clone(), why)),
            None => drop(demand.insert(number, pod)),
        }
    }
    // Who has just come is cut for together with those who wait already, so that one cut does for all; nobody's coming starts one.
    if demand.values().all(|pod| pod.since.0 + SETTLING > facts.now.0) {
        for pod in std::mem::take(&mut demand).into_values() {
            decisions.waiting.insert(pod.name.clone(), Why::Settling);
            decisions.again_at(Seconds(pod.since.0 + SETTLING));
        }
    }
    let mut cutting: BTreeMap<&str, u32> = BTreeMap::new();
    for ordered in facts.nodes.iter().filter_map(|node| node.ordered.as_ref()) {
        *cutting.entry(ordered.policy.as_str()).or_default() += 1;
    }
    let mut planned: BTreeSet<usize> = BTreeSet::new();
    for mode in [Mode::Automatic, Mode::DryRun] {
        while let Some((place, rules, proposal)) =
            best(&nodes, mode, &demand, &planned, &cutting, facts.now, &mut decisions.flaws)
        {
            let node = &nodes[place];
            let serves = proposal.serves.iter().filter_map(|number| demand.remove(number));
            let serves: Vec<String> = serves.map(|pod| pod.name.clone()).collect();
            decisions.plans.push(NodePlan {
                node: node.facts.name.clone(),
                policy: rules.name.clone(),
                generation: node.facts.next_generation,
                dry_run: mode == Mode::DryRun,
                gpus: proposal.gpus,
                serves,
                evicts: Vec::new(),
            });
            planned.insert(place);
            *cutting.entry(rules.name.as_str()).or_default() += 1;
        }
    }
    if facts.defragment && !demand.is_empty() {
        let places = (0..nodes.len()).filter(|place| !planned.contains(place)).collect();
        move_pods(&nodes, places, &mut demand, &mut cutting, facts, &mut decisions);
        planned.extend(nodes.iter().enumerate().filter_map(|(place, node)| {
            decisions.plans.iter().any(|plan| plan.node == node.facts.name).then_some(place)
        }));
    }
    for pod in demand.values() {
        let why = why(pod, &nodes, &planned, &cutting, facts.now);
        match &why {
            Why::Pause { until } | Why::BackingOff { until, .. } => decisions.again_at(*until),
            _ => {}
        }
        decisions.waiting.insert(pod.name.clone(), why);
    }
    decisions
}

impl Decisions {
    fn again_at(&mut self, at: Seconds) {
        self.look_again = Some(self.look_again.map_or(at, |known| known.min(at)));
    }
}

/// Where nothing can be cut as it is: moves a few pods, if the policy wants that and gains enough by it.
fn move_pods<'a>(
    nodes: &[Candidate<'a>],
    places: Vec<usize>,
    demand: &mut BTreeMap<usize, &WaitingPod>,
    cutting: &mut BTreeMap<&'a str, u32>,
    facts: &'a Facts,
    decisions: &mut Decisions,
) {
    let ordered = facts.nodes.iter().filter_map(|node| node.ordered.as_ref());
    let mut leaving: BTreeMap<&str, usize> = BTreeMap::new();
    for ordered in ordered {
        *leaving.entry(ordered.policy.as_str()).or_default() += ordered.order.evict.len();
    }
    for node in places.into_iter().map(|place| &nodes[place]) {
        let Some(rules) = node.rules.filter(|rules| has_budget(rules, cutting)) else { continue };
        let left =
            (rules.evictions as usize).saturating_sub(leaving.get(rules.name.as_str()).copied().unwrap_or(0));
        let waiting: Vec<(usize, &WaitingPod)> =
            demand.iter().filter(|(_, pod)| node.takes(pod)).map(|(number, pod)| (*number, *pod)).collect();
        if left == 0 || waiting.is_empty() || !node.is_open(facts.now) {
            continue;
        }
        let untouched = node.paused.keys().cloned().collect();
        match defragment(node.facts, (&node.room, &node.left), rules, &waiting, &untouched, left) {
            Err(flaw) => decisions.flaws.push(format!("node {}: {flaw}", node.facts.name)),
            Ok(None) => {}
            Ok(Some(Move { proposal, evicts })) => {
                let serves = proposal.serves.iter().filter_map(|number| demand.remove(number));
                let serves = serves.map(|pod| pod.name.clone()).collect();
                *leaving.entry(rules.name.as_str()).or_default() += evicts.len();
                *cutting.entry(rules.name.as_str()).or_default() += 1;
                decisions.plans.push(NodePlan {
                    node: node.facts.name.clone(),
                    policy: rules.name.clone(),
                    generation: node.facts.next_generation,
                    dry_run: rules.mode == Mode::DryRun,
                    gpus: proposal.gpus,
                    serves,
                    evicts,
                });
            }
        }
    }
}

fn has_budget(rules: &Rules, cutting: &BTreeMap<&str, u32>) -> bool {
    cutting.get(rules.name.as_str()).copied().unwrap_or(0) < rules.nodes_at_once
}

/// The node that is best cut next, if any.
fn best<'a>(
    nodes: &[Candidate<'a>],
    mode: Mode,
    demand: &BTreeMap<usize, &WaitingPod>,
    planned: &BTreeSet<usize>,
    cutting: &BTreeMap<&str, u32>,
    now: Seconds,
    flaws: &mut Vec<String>,
) -> Option<(usize, &'a Rules, Proposal)> {
    let mut best: Option<(usize, &'a Rules, Proposal)> = None;
    let mut seen: BTreeSet<Likeness> = BTreeSet::new();
    for (place, node) in nodes.iter().enumerate() {
        let Some(rules) = node.rules.filter(|rules| rules.mode == mode && has_budget(rules, cutting)) else {
            continue;
        };
        if planned.contains(&place) || !node.is_open(now) {
            continue;
        }
        let eligible: Vec<(usize, &WaitingPod)> =
            demand.iter().filter(|(_, pod)| node.takes(pod)).map(|(number, pod)| (*number, *pod)).collect();
        if eligible.is_empty() || !seen.insert(node.likeness(&eligible)) {
            continue;
        }
        let untouched = node.paused.keys().cloned().collect();
        match propose((&node.room, &node.left), rules, &eligible, &untouched) {
            Err(flaw) => flaws.push(format!("node {}: {flaw}", node.facts.name)),
            Ok(None) => {}
            Ok(Some(proposal)) => {
                if best.as_ref().is_none_or(|(_, _, known)| proposal.worth() > known.worth()) {
                    best = Some((place, rules, proposal));
                }
            }
        }
    }
    best
}

/// Why nothing is done for a pod: of all nodes the most hopeful reason.
fn why(
    pod: &WaitingPod,
    nodes: &[Candidate<'_>],
    planned: &BTreeSet<usize>,
    cutting: &BTreeMap<&str, u32>,
    now: Seconds,
) -> Why {
    let able = |node: &Candidate<'_>| node.allows(pod) && pod.wants.keys().all(|form| node.room.knows(form));
    let able: Vec<(usize, &Candidate<'_>)> =
        nodes.iter().enumerate().filter(|(_, node)| able(node)).collect();
    if able.is_empty() {
        return Why::NoGpu;
    }
    let allowed = |node: &Candidate<'_>| {
        node.rules.is_some_and(|rules| pod.wants.keys().all(|form| rules.allows(form)))
    };
    let allowed: Vec<_> = able.iter().filter(|(_, node)| allowed(node)).collect();
    if allowed.is_empty() {
        return Why::NotAllowed { nodes: able.len() };
    }
    let short = allowed.iter().filter(|(_, node)| !node.takes(pod)).count();
    if let Some((_, node)) = allowed.first().filter(|_| short == allowed.len()) {
        let of = node.left.iter().flat_map(|left| left.lacking(&pod.besides)).collect::<Vec<_>>().join(", ");
        return Why::Short { nodes: short, of };
    }
    let allowed: Vec<_> = allowed.into_iter().filter(|(_, node)| node.takes(pod)).collect();
    let busy = allowed.iter().find_map(|(place, node)| {
        let rules = node.rules?;
        let waits = planned.contains(place) || node.facts.ordered.is_some() || !has_budget(rules, cutting);
        waits.then(|| Why::Budget { policy: rules.name.clone() })
    });
    let backing_off = allowed.iter().filter_map(|(_, node)| {
        let until = retry_after(&node.facts.history).filter(|until| *until > now)?;
        Some(Why::BackingOff { node: node.facts.name.clone(), until })
    });
    let paused = allowed.iter().flat_map(|(_, node)| node.paused.values()).min();
    let paused = paused.map(|until| Why::Pause { until: *until });
    busy.or(paused).or_else(|| backing_off.min()).unwrap_or(Why::InUse { nodes: allowed.len() })
}
