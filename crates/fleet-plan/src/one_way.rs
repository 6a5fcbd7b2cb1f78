//! A node shares its GPUs in one way, and a workload asks in one way wherever its pods are: what placement left open is settled here.
//!
//! A device-plugin configuration divides GPUs into equal shares. Parts of several sizes on a node are reached by resource claims instead, and
//! since all pods of a workload are made from one template, a workload that needs claims on one node uses them on all of its nodes, and so
//! do its neighbours there.

use crate::plan::{Draft, Job, PlannedNode};
use carve_gpu_model::{Isolation, Sharing};
use carve_planner::{Choice, Way};
use std::collections::BTreeSet;

const MPS: Way = Way::Shared(Sharing::Mps);
const TURNS: Way = Way::Shared(Sharing::TimeSlicing);

/// The ways and sizes in which a node shares GPUs, the limiter aside, which divides GPUs that are offered whole.
fn sizes(node: &PlannedNode) -> BTreeSet<(&Way, u16)> {
    let shared = node.parts.iter().flatten().filter(|part| part.way == MPS || part.way == TURNS);
    shared.map(|part| (&part.way, part.compute)).collect()
}

/// Settles how every node shares its GPUs.
pub(crate) fn settle(jobs: &[Job], draft: &mut Draft<'_>) {
    let needs_context = |job: &&Job| job.pod.gpus.iter().any(|ask| ask.isolation >= Isolation::Fault);
    let apart: BTreeSet<usize> = jobs.iter().filter(needs_context).map(|job| job.workload).collect();
    let nodes = || draft.nodes.iter().enumerate();
    let mut by_claims: BTreeSet<usize> =
        nodes().filter(|(_, node)| sizes(node).len() > 1).map(|(index, _)| index).collect();
    // From node to workload to node, until nothing is added.
    let mut fresh: Vec<usize> = by_claims.iter().copied().collect();
    let mut asked: BTreeSet<usize> = BTreeSet::new();
    while let Some(index) = fresh.pop() {
        for part in draft.nodes[index].parts.iter().flatten().filter(|one| one.way == MPS || one.way == TURNS)
        {
            // These wait rather than ask by claims, so that their other nodes stay as they are.
            if apart.contains(&part.workload) || !asked.insert(part.workload) {
                continue;
            }
            let landings = draft.workloads.get(&part.workload).map_or(&[][..], |one| &one.landings);
            let shared = landings.iter().filter(|one| one.way == Some(MPS) || one.way == Some(TURNS));
            fresh.extend(shared.map(|landing| landing.node).filter(|node| by_claims.insert(*node)));
        }
    }
    for index in by_claims {
        draft.nodes[index].by_claims = true;
        turn_into_mps(index, &apart, draft);
    }
}

/// Claims are served by MPS. Pods that crashes of others must not reach can not be, and wait.
fn turn_into_mps(index: usize, apart: &BTreeSet<usize>, draft: &mut Draft<'_>) {
    let node = &mut draft.nodes[index];
    let taking_turns: BTreeSet<usize> =
        node.parts.iter().flatten().filter(|part| part.way == TURNS).map(|part| part.workload).collect();
    for parts in &mut node.parts {
        parts.retain(|part| part.way != TURNS || !apart.contains(&part.workload));
        for part in parts.iter_mut().filter(|part| part.way == TURNS) {
            part.way = MPS;
        }
    }
    for name in &taking_turns {
        let Some(workload) = draft.workloads.get_mut(name) else { continue };
        let here = |way: &Option<Way>, node: usize| node == index && *way == Some(TURNS);
        if apart.contains(name) {
            let gone: u32 =
                workload.landings.iter().filter(|one| here(&one.way, one.node)).map(|one| one.pods).sum();
            workload.landings.retain(|one| !here(&one.way, one.node));
            node.pods -= gone;
            if gone > 0 {
                workload.wait(
                    gone,
                    format!(
                        "{} serves parts of several sizes by MPS, whose clients end together, and crashes of others must not reach it",
                        node.name
                    ),
                );
            }
            continue;
        }
        let mut changed = false;
        for landing in workload.landings.iter_mut().filter(|one| here(&one.way, one.node)) {
            landing.way = Some(MPS);
            changed = true;
        }
        if changed && !workload.choices.iter().any(|choice| choice.way == MPS) {
            workload.choices.push(Choice {
                way: MPS,
                because: "it or its neighbours share nodes with parts of other sizes, which claims reach and MPS serves, \
                          and a workload asks in one way"
                    .to_owned(),
                refused: Vec::new(),
            });
        }
        // A mechanism by which no pod is served any more needs no reason.
        let ways: BTreeSet<&Way> = workload.landings.iter().filter_map(|one| one.way.as_ref()).collect();
        workload.choices.retain(|choice| choice.way != TURNS || ways.contains(&TURNS));
    }
}
