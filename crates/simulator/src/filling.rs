//! Claims arrive one after another and stay: how full does the fleet get, and who is turned away?

use crate::arrivals::Sequence;
use crate::trace::{Trace, TraceError};
use carve_placement::{Claim, Fleet, Placer, Policy, Spot, WHOLE};

/// What a claim is, where failures are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Size {
    /// No GPU.
    CpuOnly,
    /// A part of one GPU.
    Part,
    /// One GPU.
    One,
    /// Several GPUs.
    Several(u8),
}

impl Size {
    /// The size of a claim.
    pub fn of(claim: &Claim) -> Self {
        match claim.gpus {
            0 => Size::CpuOnly,
            1 if claim.is_part() => Size::Part,
            1 => Size::One,
            more => Size::Several(more),
        }
    }
}

/// One decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// The pod, by its place in the trace.
    pub pod: usize,
    /// Where it went; the node by its place in the trace's order of this run.
    pub spot: Option<Spot>,
    /// Thousandths of GPUs in use afterwards.
    pub used: u64,
    /// Thousandths of GPUs asked for so far.
    pub arrived: u64,
}

/// How a run went.
#[derive(Debug, Clone)]
pub struct Filled {
    /// Thousandths of GPUs there are.
    pub capacity: u64,
    /// Thousandths of GPUs in use before the first arrival.
    pub running: u64,
    /// Every decision, in order.
    pub decisions: Vec<Decided>,
    /// The fleet at the end.
    pub fleet: Fleet,
}

/// Runs a sequence under a policy.
pub fn fill(trace: &Trace, sequence: &Sequence, policy: Policy) -> Result<Filled, TraceError> {
    let (fleet, placer) = prepare(trace, sequence, policy)?;
    Ok(fill_with(trace, sequence, fleet, placer))
}

/// The fleet before the first arrival, with what runs on it, and a placer for it.
pub fn prepare(trace: &Trace, sequence: &Sequence, policy: Policy) -> Result<(Fleet, Placer), TraceError> {
    let mut fleet = trace.fleet(sequence.nodes.iter().copied())?;
    let workload = trace.workload(&fleet);
    let placer = Placer::new(policy, &fleet, &workload, sequence.seed);
    if trace.pods.iter().any(|pod| pod.node.is_some()) {
        let tight = Placer::new(Policy::FirstFit, &fleet, &workload, 0);
        trace.start_running(&mut fleet, &tight)?;
    }
    Ok((fleet, placer))
}

/// Runs a sequence with a placer that was made for the fleet.
pub fn fill_with(trace: &Trace, sequence: &Sequence, mut fleet: Fleet, mut placer: Placer) -> Filled {
    let claims = trace.claims(&fleet);
    let capacity = fleet.gpus() * u64::from(WHOLE.0);
    let running = capacity - fleet.nodes().map(|node| fleet.room(node).idle()).sum::<u64>();
    let (mut used, mut arrived) = (running, running);
    let mut decisions = Vec::with_capacity(sequence.pods.len());
    for &pod in &sequence.pods {
        let claim = &claims[pod];
        arrived += claim.total();
        let spot = placer.decide(&fleet, claim);
        if let Some(spot) = spot {
            fleet.place(claim, spot);
            used += claim.total();
        }
        decisions.push(Decided { pod, spot, used, arrived });
    }
    Filled { capacity, running, decisions, fleet }
}

impl Filled {
    /// Percent of all GPUs in use at the end.
    pub fn allocated(&self) -> f64 {
        let used = self.decisions.last().map_or(self.running, |last| last.used);
        100.0 * used as f64 / self.capacity.max(1) as f64
    }

    /// The published figure for a number of percent arrived: the mean of what was in use, in hundredths of a percent, over
    /// the arrivals that round to it.
    pub fn allocated_at(&self, percent: u64) -> Option<f64> {
        let capacity = self.capacity.max(1) as f64;
        let at = |one: &&Decided| (100.0 * one.arrived as f64 / capacity).round() as u64 == percent;
        let (mut sum, mut count) = (0.0, 0_u64);
        for one in self.decisions.iter().filter(at) {
            sum += (10_000.0 * one.used as f64 / capacity).round() / 100.0;
            count += 1;
        }
        (count > 0).then(|| sum / count as f64)
    }

    /// Percent arrived when the first claim was turned away that would have fitted an untouched node.
    pub fn first_failure(&self, trace: &Trace) -> Option<f64> {
        let claims = trace.claims(&self.fleet);
        let possible = |claim: &Claim| {
            self.fleet.classes().any(|(_, class)| class.shape.fits(&class.shape.untouched(), claim).is_ok())
        };
        let first = self.decisions.iter().find(|one| one.spot.is_none() && possible(&claims[one.pod]))?;
        Some(100.0 * first.arrived as f64 / self.capacity.max(1) as f64)
    }

    /// How many claims of each size were turned away.
    pub fn failures(&self, trace: &Trace) -> std::collections::BTreeMap<Size, u64> {
        let mut failures = std::collections::BTreeMap::new();
        for one in self.decisions.iter().filter(|one| one.spot.is_none()) {
            *failures.entry(Size::of(&trace.pods[one.pod].claim)).or_default() += 1;
        }
        failures
    }
}
