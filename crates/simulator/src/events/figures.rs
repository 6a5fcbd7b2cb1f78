//! The figures of a history: how long claims waited, how much was used, what it cost in nodes.

use super::engine::arrival;
use super::{Happened, History, MigChange, What};
use crate::filling::Size;
use crate::trace::Trace;
use carve_gpu_model::Geometry;
use carve_placement::NodeIndex;
use std::collections::{BTreeMap, BTreeSet};

/// How long some claims waited, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Waits {
    /// How many began to run.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// Of a hundred, 95 waited no longer.
    pub p95: f64,
    /// The longest.
    pub worst: f64,
}

impl Waits {
    /// Of some waiting times in milliseconds.
    pub fn of(mut waits_ms: Vec<u64>) -> Self {
        waits_ms.sort_unstable();
        let Some(worst) = waits_ms.last().copied() else { return Waits::default() };
        let count = waits_ms.len();
        let sum: u128 = waits_ms.iter().map(|wait| u128::from(*wait)).sum();
        let rank = (count * 95).div_ceil(100).max(1);
        let mean = sum as f64 / 1000.0 / count as f64;
        Waits { count, mean, p95: seconds(waits_ms[rank - 1]), worst: seconds(worst) }
    }
}

/// The figures of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Pods that came, those that ran from the beginning included.
    pub arrived: usize,
    /// Pods that were done.
    pub finished: usize,
    /// Pods that went away without having been served.
    pub turned_away: usize,
    /// Pods that run at the end: the trace does not say how long they last.
    pub running: usize,
    /// Pods that wait at the end.
    pub waiting: usize,
    /// How often a pod lost its node.
    pub interrupted: usize,
    /// All the time pods waited before they ran, interruptions included.
    pub waits: Waits,
    /// The same, by what they ask for; those who ask for MIG devices aside.
    pub waits_by_size: BTreeMap<Size, Waits>,
    /// What MIG did, in a trace that asks for it.
    pub mig: Option<MigFigures>,
    /// Percent of the GPUs in use, over the whole time and all nodes that were there.
    pub utilisation: f64,
    /// Hours of nodes that were there.
    pub node_hours: f64,
    /// Milliseconds from the beginning to the end.
    pub lasted_ms: u64,
}

/// What dividing GPUs by MIG came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MigFigures {
    /// How often a GPU was changed for a pod, whatever that took.
    pub reconfigurations: usize,
    /// How often a GPU was switched into MIG mode or out of it.
    pub switched: usize,
    /// Instances made.
    pub made: usize,
    /// Idle instances destroyed because their place was needed; those lost with a node are not counted.
    pub destroyed: usize,
    /// How often a pod got an instance that somebody had before.
    pub reused: usize,
    /// Milliseconds that GPUs were being changed, all together.
    pub spent_ms: u64,
    /// How long pods that had a place waited until it was ready; of all others, none did.
    pub preparing: Waits,
    /// All the time pods waited, by the MIG devices they ask for.
    pub waits: BTreeMap<Geometry, Waits>,
}

/// Counts what happens to GPUs.
#[derive(Debug, Default)]
struct MigBooks {
    figures: MigFigures,
    /// For whom each GPU was last changed.
    last: BTreeMap<(NodeIndex, u8), usize>,
    placed: BTreeMap<usize, u64>,
    preparing: Vec<u64>,
}

impl MigBooks {
    fn enter(&mut self, one: &Happened) {
        match one.what {
            What::Placed(pod, _) => {
                self.placed.insert(pod, one.at_ms);
            }
            What::Started(pod, _) => {
                self.preparing.extend(self.placed.remove(&pod).map(|from| one.at_ms - from));
            }
            What::Interrupted(pod) => {
                self.placed.remove(&pod);
            }
            What::Given { reused, .. } => self.figures.reused += usize::from(reused),
            What::Mig(step) => {
                if self.last.insert((step.node, step.gpu), step.pod) != Some(step.pod) {
                    self.figures.reconfigurations += 1;
                }
                match step.change {
                    MigChange::On | MigChange::Off => self.figures.switched += 1,
                    MigChange::Made(_) => self.figures.made += 1,
                    MigChange::Destroyed(_) => self.figures.destroyed += 1,
                }
                self.figures.spent_ms += step.took_ms;
            }
            // The same pod may come again, and its place has to be made again.
            What::NodeLeft(node) => self.last.retain(|(on, _), _| *on != node),
            _ => {}
        }
    }
}

impl History {
    /// Its figures.
    pub fn figures(&self, trace: &Trace) -> Figures {
        let mut since: BTreeMap<usize, u64> = BTreeMap::new();
        let mut waited: BTreeMap<usize, u64> = BTreeMap::new();
        let (mut arrived, mut finished, mut turned_away, mut interrupted) = (0, 0, 0, 0);
        let mut running: BTreeSet<usize> = BTreeSet::new();
        let mut books = MigBooks::default();
        for one in &self.happened {
            books.enter(one);
            match one.what {
                What::Arrived(pod) => {
                    arrived += 1;
                    // Who runs from the beginning has not waited.
                    let came = if trace.pods[pod].node.is_some() { one.at_ms } else { arrival(trace, pod) };
                    since.insert(pod, came);
                }
                What::Started(pod, _) => {
                    running.insert(pod);
                    *waited.entry(pod).or_default() += since.remove(&pod).map_or(0, |from| one.at_ms - from);
                }
                What::Finished(pod) => {
                    finished += 1;
                    running.remove(&pod);
                }
                What::Interrupted(pod) => {
                    interrupted += 1;
                    // Who had a place and did not run yet goes on waiting as before.
                    if running.remove(&pod) {
                        since.insert(pod, one.at_ms);
                    }
                }
                What::TurnedAway(pod) => {
                    turned_away += 1;
                    since.remove(&pod);
                }
                What::NodeLeft(_)
                | What::NodeCame(_)
                | What::Placed(..)
                | What::Given { .. }
                | What::Mig(_) => {}
            }
        }
        let mut by_size: BTreeMap<Size, Vec<u64>> = BTreeMap::new();
        let mut by_devices: BTreeMap<Geometry, Vec<u64>> = BTreeMap::new();
        for (pod, wait) in &waited {
            let pod = &trace.pods[*pod];
            if pod.mig.is_empty() {
                by_size.entry(Size::of(&pod.claim)).or_default().push(*wait);
            } else {
                by_devices.entry(pod.mig.clone()).or_default().push(*wait);
            }
        }
        let mig = trace.pods.iter().any(|pod| !pod.mig.is_empty()).then(|| MigFigures {
            preparing: Waits::of(books.preparing),
            waits: by_devices.into_iter().map(|(devices, waits)| (devices, Waits::of(waits))).collect(),
            ..books.figures
        });
        let (mut used, mut capacity, mut nodes) = (0_u128, 0_u128, 0_u128);
        for pair in self.moments.windows(2) {
            let ms = u128::from(pair[1].at_ms - pair[0].at_ms);
            used += ms * u128::from(pair[0].used);
            capacity += ms * u128::from(pair[0].capacity);
            nodes += ms * u128::from(pair[0].nodes);
        }
        Figures {
            arrived,
            finished,
            turned_away,
            running: running.len(),
            waiting: since.len(),
            interrupted,
            waits: Waits::of(waited.into_values().collect()),
            waits_by_size: by_size.into_iter().map(|(size, waits)| (size, Waits::of(waits))).collect(),
            mig,
            utilisation: 100.0 * used as f64 / capacity.max(1) as f64,
            node_hours: nodes as f64 / 3_600_000.0,
            lasted_ms: self.moments.last().map_or(0, |last| last.at_ms),
        }
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
