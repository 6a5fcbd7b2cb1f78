//! Another exact method for many GPUs: all supplies of instances that the GPUs can give together, then the best matching.
//!
//! The planner counts claims served, GPU after GPU, and prunes by prices. This counts instances supplied, knows nothing of claims until
//! the end, and drops only a supply that another one contains at no greater loss.

use crate::cases::{Case, matching, pinned_and_idle, serves, states};
use carve_gpu_model::ProfileTable;
use carve_planner::MigMode;
use std::collections::BTreeMap;

/// How many instances for each set of claims that a profile can serve, and how many are destroyed for them.
type Supplies = BTreeMap<Vec<u8>, u64>;

/// Keeps what is not contained in another supply that destroys no more.
fn prune(supplies: Supplies) -> Supplies {
    let mut list: Vec<(Vec<u8>, u64)> = supplies.into_iter().collect();
    list.sort_by_key(|(supply, destroyed)| {
        (std::cmp::Reverse(supply.iter().map(|count| u32::from(*count)).sum::<u32>()), *destroyed)
    });
    let mut kept: Vec<(Vec<u8>, u64)> = Vec::new();
    for (supply, destroyed) in list {
        let contained = |(other, others): &(Vec<u8>, u64)| {
            *others <= destroyed && other.iter().zip(&supply).all(|(other, count)| other >= count)
        };
        if !kept.iter().any(contained) {
            kept.push((supply, destroyed));
        }
    }
    kept.into_iter().collect()
}

/// The most claims served, and the fewest instances destroyed for that.
pub(crate) fn optimum(case: &Case) -> (usize, u64) {
    let claims = &case.demand.pending;
    let edges_of = |table: &ProfileTable, profile: usize| -> Vec<usize> {
        let fits = |claim: &usize| serves(table, profile, &claims[*claim].wants, case.demand.substitution);
        (0..claims.len()).filter(fits).collect()
    };
    // Profiles of whatever product that serve the same claims count as one.
    let mut wanted: Vec<Vec<usize>> = Vec::new();
    for gpu in &case.gpus {
        for profile in 0..gpu.table.profiles().len() {
            let edges = edges_of(&gpu.table, profile);
            if !edges.is_empty() && !wanted.contains(&edges) {
                wanted.push(edges);
            }
        }
    }
    let mut all: Supplies = BTreeMap::from([(vec![0; wanted.len()], 0)]);
    for gpu in &case.gpus {
        let (pinned, idle) = pinned_and_idle(gpu, &case.demand);
        let product = crate::PRODUCTS.into_iter().find(|product| **states(product).0 == *gpu.table).unwrap();
        let kind = |profile| wanted.iter().position(|edges| *edges == edges_of(&gpu.table, profile));
        let kinds: Vec<Option<usize>> = (0..gpu.table.profiles().len()).map(kind).collect();
        let mut own: Supplies = BTreeMap::new();
        for state in states(product).1 {
            let impossible = gpu.mode == MigMode::OffAndInUse && !state.is_empty();
            if impossible || !pinned.iter().all(|placed| state.contains(placed)) {
                continue;
            }
            let destroyed = idle.iter().filter(|placed| !state.contains(placed)).count() as u64;
            let mut supply = vec![0u8; wanted.len()];
            for placed in state.iter().filter(|placed| !pinned.contains(placed)) {
                if let Some(kind) = kinds[usize::from(placed.profile.0)] {
                    supply[kind] = (supply[kind] + 1).min(wanted[kind].len() as u8);
                }
            }
            let least = own.entry(supply).or_insert(destroyed);
            *least = (*least).min(destroyed);
        }
        let own = prune(own);
        let mut sums: Supplies = BTreeMap::new();
        for (supply, destroyed) in &all {
            for (more, also) in &own {
                let sum = supply.iter().zip(more).zip(&wanted);
                let sum = sum.map(|((one, other), edges)| (one + other).min(edges.len() as u8)).collect();
                let least = sums.entry(sum).or_insert(destroyed + also);
                *least = (*least).min(destroyed + also);
            }
        }
        all = prune(sums);
    }
    let value = |(supply, destroyed): (Vec<u8>, u64)| {
        let mut instances: Vec<&[usize]> = Vec::new();
        for (count, edges) in supply.iter().zip(&wanted) {
            instances.extend((0..*count).map(|_| edges.as_slice()));
        }
        (matching(&instances, claims.len()), std::cmp::Reverse(destroyed))
    };
    let (served, std::cmp::Reverse(destroyed)) = all.into_iter().map(value).max().unwrap();
    (served, destroyed)
}
