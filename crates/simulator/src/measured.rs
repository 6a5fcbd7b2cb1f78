//! The figures of a run: how full the fleet got, who was turned away, and how it went on the way there.

use crate::filling::{Filled, Size};
use crate::trace::{Trace, TraceError};
use carve_placement::{Fragmentation, Placer, Policy, Spot, WHOLE};

/// How many claims were turned away, by what they ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnedAway {
    /// No GPU.
    pub cpu_only: u64,
    /// A part of one GPU.
    pub part: u64,
    /// One GPU.
    pub one: u64,
    /// Two to seven GPUs.
    pub several: u64,
    /// Eight GPUs or more.
    pub eight: u64,
}

impl TurnedAway {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.cpu_only + self.part + self.one + self.several + self.eight
    }

    /// Counts claims of a size.
    pub fn add(&mut self, size: Size, count: u64) {
        *match size {
            Size::CpuOnly => &mut self.cpu_only,
            Size::Part => &mut self.part,
            Size::One => &mut self.one,
            Size::Several(gpus) if gpus < 8 => &mut self.several,
            Size::Several(_) => &mut self.eight,
        } += count;
    }

    /// Each number with what it counts, in the order of size.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        [
            ("CPU only", self.cpu_only),
            ("part", self.part),
            ("one", self.one),
            ("several", self.several),
            ("eight", self.eight),
        ]
    }
}

/// How things stood when so many percent of all GPUs had been asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Percent of all GPUs asked for.
    pub arrived: u64,
    /// Percent of all GPUs in use, after the last arrival up to there.
    pub allocated: f64,
    /// Percent of the idle GPUs that the usual workload can not use.
    pub fragmentation: f64,
}

/// The figures of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The policy.
    pub policy: Policy,
    /// The seed.
    pub seed: u64,
    /// How many claims arrived.
    pub arrivals: usize,
    /// Percent of all GPUs asked for at the end.
    pub arrived: f64,
    /// Percent of all GPUs in use when 100 percent had been asked for; `None` if it never came to that.
    pub allocated_at_100: Option<f64>,
    /// Percent of all GPUs in use at the end.
    pub allocated: f64,
    /// Percent asked for when the first claim was turned away that fits an untouched node.
    pub first_failure: Option<f64>,
    /// Claims turned away.
    pub turned_away: TurnedAway,
    /// GPUs that nobody uses at the end.
    pub free_gpus: u64,
    /// Percent of the idle GPUs that the usual workload can not use, at the end.
    pub fragmentation: f64,
    /// One point for each percent that arrived.
    pub curve: Vec<Point>,
}

/// Measures a run by going through its decisions once more.
pub fn measure(trace: &Trace, policy: Policy, seed: u64, filled: &Filled) -> Result<Measured, TraceError> {
    let capacity = filled.capacity.max(1) as f64;
    let percent = |milli: u64| 100.0 * milli as f64 / capacity;
    let mut replay = Replay::new(trace, filled)?;
    let mut curve = Vec::new();
    let mut next = 0;
    // A point is how things stood before the arrival that went beyond it.
    let mut upto = |arrived: f64, used: u64, rate: f64, curve: &mut Vec<Point>| {
        while (next as f64) < arrived {
            curve.push(Point { arrived: next, allocated: percent(used), fragmentation: rate });
            next += 1;
        }
    };
    let mut used = filled.running;
    for one in &filled.decisions {
        upto(percent(one.arrived), used, replay.rate(), &mut curve);
        if let Some(spot) = one.spot {
            replay.place(one.pod, spot);
        }
        used = one.used;
    }
    let arrived = filled.decisions.last().map_or(filled.running, |last| last.arrived);
    // The end is reached when less than half a percent is missing: arrivals stop just short of what was asked for.
    upto((percent(arrived) + 0.5).floor() + 0.5, used, replay.rate(), &mut curve);
    let mut turned_away = TurnedAway::default();
    for (size, count) in filled.failures(trace) {
        turned_away.add(size, count);
    }
    let fleet = &filled.fleet;
    Ok(Measured {
        policy,
        seed,
        arrivals: filled.decisions.len(),
        arrived: percent(arrived),
        allocated_at_100: curve.iter().find(|point| point.arrived == 100).map(|point| point.allocated),
        allocated: percent(used),
        first_failure: filled.first_failure(trace),
        turned_away,
        free_gpus: fleet.nodes().map(|node| fleet.room(node).free_gpus() as u64).sum(),
        fragmentation: replay.rate(),
        curve,
    })
}

/// The fleet as it fills, with the measure of fragmentation kept up to date node by node.
struct Replay {
    fleet: carve_placement::Fleet,
    claims: Vec<carve_placement::Claim>,
    measure: Fragmentation,
    of: Vec<f64>,
    wasted: f64,
    idle: u64,
}

impl Replay {
    fn new(trace: &Trace, filled: &Filled) -> Result<Self, TraceError> {
        let order = filled.fleet.nodes().map(|node| filled.fleet.name(node));
        let mut fleet = trace.fleet_named(order)?;
        let claims = trace.claims(&fleet);
        let workload = trace.workload(&fleet);
        let placer = Placer::new(Policy::FirstFit, &fleet, &workload, 0);
        trace.start_running(&mut fleet, &placer)?;
        let measure = Fragmentation::new(&workload);
        let of: Vec<f64> =
            fleet.nodes().map(|node| measure.of(fleet.shape(node), fleet.room(node))).collect();
        let idle = fleet.nodes().map(|node| fleet.room(node).idle()).sum();
        debug_assert_eq!(filled.capacity, fleet.gpus() * u64::from(WHOLE.0));
        Ok(Replay { wasted: of.iter().sum(), fleet, claims, measure, of, idle })
    }

    fn place(&mut self, pod: usize, spot: Spot) {
        self.fleet.place(&self.claims[pod], spot);
        self.idle -= self.claims[pod].total();
        let now = self.measure.of(self.fleet.shape(spot.node), self.fleet.room(spot.node));
        let before = std::mem::replace(&mut self.of[spot.node.0 as usize], now);
        self.wasted += now - before;
    }

    fn rate(&self) -> f64 {
        if self.idle == 0 { 0.0 } else { 100.0 * self.wasted / self.idle as f64 }
    }
}
