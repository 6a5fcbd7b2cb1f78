//! MIG devices and shares: chosen one by one, by how much of each part and of its GPU is already taken.
//!
//! A part counts as taken by as many devices as it makes less those that are free. Among parts that are equal in this,
//! the one picked least in this answer comes first, then the GPU decides in the same sense as the part. The last word
//! has the order of the pool.

use super::Policy;
use super::Request;
use super::pool::Asked;
use carve_gpu_model::GpuIndex;
use std::collections::BTreeMap;

/// A part while devices are picked from it.
struct Open {
    gpu: GpuIndex,
    lost: bool,
    taken: usize,
    picked: usize,
    /// Free devices, the next to pick last.
    free: Vec<usize>,
}

/// Picks the needed devices, in the order they were picked.
pub(super) fn pick(request: &Request<'_>, asked: &Asked, policy: Policy) -> Vec<usize> {
    let pool = request.pool;
    let mut parts: Vec<Open> = pool
        .parts()
        .iter()
        .map(|part| Open {
            gpu: part.gpu,
            lost: request.topology.is_lost(part.gpu),
            taken: part.total,
            picked: 0,
            free: Vec::new(),
        })
        .collect();
    for place in asked.free.iter().rev() {
        let part = &mut parts[pool.part_of(*place)];
        part.free.push(*place);
        part.taken -= 1;
    }
    let mut taken_on: BTreeMap<GpuIndex, usize> = BTreeMap::new();
    for part in &parts {
        *taken_on.entry(part.gpu).or_default() += part.taken;
    }
    // The fewest first, or the most first.
    let wanted = |taken: usize| match policy {
        Policy::Distributed => taken as i64,
        Policy::Packed => -(taken as i64),
    };
    let mut picks = Vec::with_capacity(asked.needed);
    for _ in 0..asked.needed {
        let next = parts.iter_mut().filter(|part| !part.free.is_empty()).min_by_key(|part| {
            let on_gpu = taken_on.get(&part.gpu).copied().unwrap_or_default();
            (part.lost, wanted(part.taken), part.picked, wanted(on_gpu))
        });
        let Some(part) = next else { break };
        picks.extend(part.free.pop());
        part.taken += 1;
        part.picked += 1;
        *taken_on.entry(part.gpu).or_default() += 1;
    }
    picks
}
