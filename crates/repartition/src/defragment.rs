//! Room by moving: which few pods must start anew elsewhere on their node so that others, which nothing fits now, get in.
//!
//! Nobody is driven out: a plan counts only if everybody who is asked to go has an instance of the same shape afterwards, on the same
//! node. The gain is known beforehand: pods that get in for each one that moves.

use crate::node_plan::{Proposal, propose};
use crate::room::NodeRoom;
use crate::{Amounts, BoundPod, NodeFacts, Rules, WaitingPod};
use carve_gpu_model::GpuUuid;
use std::collections::BTreeSet;

/// So many sets of pods are tried for a node; sets of one come first.
const MOST_TRIES: usize = 120;

/// What to do with a node, and who is asked to go.
pub(crate) struct Move {
    pub(crate) proposal: Proposal,
    pub(crate) evicts: Vec<String>,
}

/// The fewest pods that must move so that enough of those who wait get in.
pub(crate) fn defragment(
    node: &NodeFacts,
    (room, left): (&NodeRoom, &Option<Amounts>),
    rules: &Rules,
    waiting: &[(usize, &WaitingPod)],
    untouched: &BTreeSet<GpuUuid>,
    evictions: usize,
) -> Result<Option<Move>, String> {
    let Some(least_gain) = rules.least_gain else { return Ok(None) };
    let highest = waiting.iter().map(|(_, pod)| pod.priority).max().unwrap_or(i32::MIN);
    let holds = |pod: &&BoundPod| {
        let parts = room.gpus.iter().flat_map(|gpu| &gpu.parts);
        parts.into_iter().any(|part| part.pods.contains(&pod.name))
    };
    let movable: Vec<&BoundPod> = node
        .bound
        .iter()
        .filter(|pod| pod.comes_back && pod.priority <= highest)
        .filter(|pod| pod.whereabouts.allow(&node.name, &node.labels, &node.taints))
        .filter(holds)
        .collect();
    for size in 1..=evictions.min(movable.len()) {
        for set in sets(movable.len(), size).take(MOST_TRIES) {
            let moved: Vec<&BoundPod> = set.iter().map(|place| movable[*place]).collect();
            let names: Vec<&str> = moved.iter().map(|pod| pod.name.as_str()).collect();
            let Some(emptier) = room.without(&names) else { continue };
            // Who moves is served first, and by numbers that nobody who waits has.
            let again: Vec<WaitingPod> = moved.iter().map(|pod| as_waiting(pod)).collect();
            let first = waiting.iter().map(|(number, _)| *number).max().unwrap_or(0) + 1;
            let all: Vec<(usize, &WaitingPod)> =
                (first..).zip(&again).chain(waiting.iter().copied()).collect();
            let mut left = left.clone();
            if let Some(left) = &mut left {
                moved.iter().for_each(|pod| left.add(&pod.besides));
            }
            let Some(mut proposal) = propose((&emptier, &left), rules, &all, untouched)? else { continue };
            let back = (first..first + moved.len()).all(|number| proposal.serves.remove(&number));
            let gained = proposal.serves.len();
            if back && gained >= 1 && gained >= least_gain as usize * moved.len() {
                let evicts = moved.iter().map(|pod| pod.name.clone()).collect();
                return Ok(Some(Move { proposal, evicts }));
            }
        }
    }
    Ok(None)
}

fn as_waiting(pod: &BoundPod) -> WaitingPod {
    WaitingPod {
        name: pod.name.clone(),
        wants: pod.wants.clone(),
        besides: pod.besides.clone(),
        whereabouts: pod.whereabouts.clone(),
        priority: pod.priority,
        since: crate::Seconds::default(),
    }
}

/// All sets of so many of the first numbers, in order.
fn sets(of: usize, size: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut next: Option<Vec<usize>> = (size <= of).then(|| (0..size).collect());
    std::iter::from_fn(move || {
        let set = next.clone()?;
        let mut following = set.clone();
        next = (0..size).rev().find(|place| following[*place] < of - size + place).map(|place| {
            following[place] += 1;
            for later in place + 1..size {
                following[later] = following[later - 1] + 1;
            }
            following
        });
        Some(set)
    })
}

#[cfg(test)]
mod tests {
    use super::sets;

    #[test]
    fn every_set_comes_once() {
        assert_eq!(sets(3, 2).collect::<Vec<_>>(), [[0, 1], [0, 2], [1, 2]]);
        assert_eq!(sets(2, 2).count(), 1);
        assert_eq!(sets(1, 2).count(), 0);
        assert_eq!(sets(8, 3).count(), 56);
    }
}
