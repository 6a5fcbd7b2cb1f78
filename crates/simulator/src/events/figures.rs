//! The figures of a history: how long claims waited, how much was used, what it cost in nodes.

use super::engine::arrival;
use super::{History, What};
use crate::filling::Size;
use crate::trace::Trace;
use std::collections::BTreeMap;

/// How long some claims waited, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Waits {
    /// How many began to run.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// Of a hundred, 95 waited no longer.
    pub p95: u64,
    /// The longest.
    pub worst: u64,
}

impl Waits {
    /// Of some waiting times.
    pub fn of(mut waits: Vec<u64>) -> Self {
        waits.sort_unstable();
        let Some(worst) = waits.last().copied() else { return Waits::default() };
        let sum: u128 = waits.iter().map(|wait| u128::from(*wait)).sum();
        let rank = (waits.len() * 95).div_ceil(100).max(1);
        Waits { count: waits.len(), mean: sum as f64 / waits.len() as f64, p95: waits[rank - 1], worst }
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
    /// The same, by what they ask for.
    pub waits_by_size: BTreeMap<Size, Waits>,
    /// Percent of the GPUs in use, over the whole time and all nodes that were there.
    pub utilisation: f64,
    /// Hours of nodes that were there.
    pub node_hours: f64,
    /// Seconds from the beginning to the end.
    pub lasted: u64,
}

impl History {
    /// Its figures.
    pub fn figures(&self, trace: &Trace) -> Figures {
        let mut since: BTreeMap<usize, u64> = BTreeMap::new();
        let mut waited: BTreeMap<usize, u64> = BTreeMap::new();
        let (mut arrived, mut finished, mut turned_away, mut interrupted) = (0, 0, 0, 0);
        let mut running: i64 = 0;
        for one in &self.happened {
            match one.what {
                What::Arrived(pod) => {
                    arrived += 1;
                    // Who runs from the beginning has not waited.
                    let came = if trace.pods[pod].node.is_some() { one.at } else { arrival(trace, pod) };
                    since.insert(pod, came);
                }
                What::Started(pod, _) => {
                    running += 1;
                    *waited.entry(pod).or_default() += since.remove(&pod).map_or(0, |from| one.at - from);
                }
                What::Finished(_) => {
                    finished += 1;
                    running -= 1;
                }
                What::Interrupted(pod) => {
                    interrupted += 1;
                    running -= 1;
                    since.insert(pod, one.at);
                }
                What::TurnedAway(pod) => {
                    turned_away += 1;
                    since.remove(&pod);
                }
                What::NodeLeft(_) | What::NodeCame(_) => {}
            }
        }
        let mut by_size: BTreeMap<Size, Vec<u64>> = BTreeMap::new();
        for (pod, wait) in &waited {
            by_size.entry(Size::of(&trace.pods[*pod].claim)).or_default().push(*wait);
        }
        let (mut used, mut capacity, mut nodes) = (0_u128, 0_u128, 0_u128);
        for pair in self.moments.windows(2) {
            let seconds = u128::from(pair[1].at - pair[0].at);
            used += seconds * u128::from(pair[0].used);
            capacity += seconds * u128::from(pair[0].capacity);
            nodes += seconds * u128::from(pair[0].nodes);
        }
        Figures {
            arrived,
            finished,
            turned_away,
            running: usize::try_from(running).unwrap_or(0),
            waiting: since.len(),
            interrupted,
            waits: Waits::of(waited.into_values().collect()),
            waits_by_size: by_size.into_iter().map(|(size, waits)| (size, Waits::of(waits))).collect(),
            utilisation: 100.0 * used as f64 / capacity.max(1) as f64,
            node_hours: nodes as f64 / 3600.0,
            lasted: self.moments.last().map_or(0, |last| last.at),
        }
    }
}
