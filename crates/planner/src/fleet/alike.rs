//! What need not be told apart: GPUs in the same state, and claims that the same profiles serve.

use super::suits::{Profiles, suiting};
use super::{ClaimName, Demand, FleetGpu, MigMode, PoolName};
use carve_gpu_model::{GpuInstanceId, Placed, ProfileTable};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// GPUs that are in the same state.
#[derive(Debug)]
pub(super) struct GpuKind {
    pub(super) table: Arc<ProfileTable>,
    /// Position of its table and pool among those there are.
    class: usize,
    pub(super) mode: MigMode,
    /// What is in use or held by a running claim, sorted by place.
    pub(super) pinned: Vec<Placed>,
    /// What nobody uses, sorted by place.
    pub(super) idle: Vec<Placed>,
    /// For each kind of claim the profiles that serve it here.
    pub(super) serves: Vec<Profiles>,
}

/// Claims that the same profiles serve on every GPU.
#[derive(Debug)]
pub(super) struct ClaimKind {
    /// Positions in the list of pending claims, in its order.
    pub(super) claims: Vec<usize>,
}

/// A demand on GPUs, without names.
#[derive(Debug)]
pub(super) struct Alike {
    pub(super) gpus: Vec<GpuKind>,
    pub(super) claims: Vec<ClaimKind>,
    /// For each GPU its kind.
    pub(super) kind_of: Vec<usize>,
    /// Claims that no GPU has a profile for.
    pub(super) hopeless: Vec<usize>,
}

impl Alike {
    /// How many claims of each kind wait.
    pub(super) fn waiting(&self) -> Vec<u32> {
        self.claims.iter().map(|kind| u32::try_from(kind.claims.len()).unwrap_or(u32::MAX)).collect()
    }
}

/// Whether an instance stays whatever is planned.
pub(super) fn is_pinned(
    gpu: &FleetGpu,
    instance: &crate::PresentInstance,
    held: &BTreeMap<(&super::GpuAt, GpuInstanceId), &ClaimName>,
) -> bool {
    instance.in_use() || held.contains_key(&(&gpu.at, instance.id))
}

/// Groups GPUs and claims.
pub(super) fn group(
    gpus: &[FleetGpu],
    demand: &Demand,
    held: &BTreeMap<(&super::GpuAt, GpuInstanceId), &ClaimName>,
) -> Alike {
    let mut classes: Vec<(Arc<ProfileTable>, PoolName)> = Vec::new();
    let mut kinds: Vec<GpuKind> = Vec::new();
    let mut known: BTreeMap<(usize, MigMode, Vec<Placed>, Vec<Placed>), usize> = BTreeMap::new();
    let mut kind_of = Vec::new();
    for gpu in gpus {
        let same = |(table, pool): &(Arc<ProfileTable>, PoolName)| {
            *pool == gpu.pool && (Arc::ptr_eq(table, &gpu.table) || **table == *gpu.table)
        };
        let class = classes.iter().position(same).unwrap_or_else(|| {
            classes.push((gpu.table.clone(), gpu.pool.clone()));
            classes.len() - 1
        });
        let places = |pinned: bool| {
            let chosen = gpu.instances.iter().filter(|instance| is_pinned(gpu, instance, held) == pinned);
            chosen.map(|instance| instance.placed).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        let (pinned, idle) = (places(true), places(false));
        let kind = *known.entry((class, gpu.mode, pinned.clone(), idle.clone())).or_insert_with(|| {
            let table = classes[class].0.clone();
            kinds.push(GpuKind { table, class, mode: gpu.mode, pinned, idle, serves: Vec::new() });
            kinds.len() - 1
        });
        kind_of.push(kind);
    }
    let mut sorts: BTreeMap<Vec<Profiles>, Vec<usize>> = BTreeMap::new();
    let mut hopeless = Vec::new();
    let mut answers: BTreeMap<&super::Wants, Vec<Profiles>> = BTreeMap::new();
    for (position, claim) in demand.pending.iter().enumerate() {
        let serves = answers.entry(&claim.wants).or_insert_with(|| {
            let suiting = |(table, pool): &(Arc<ProfileTable>, PoolName)| {
                suiting(table, pool, &claim.wants, demand.substitution)
            };
            classes.iter().map(suiting).collect()
        });
        if serves.iter().all(|profiles| profiles.is_empty()) {
            hopeless.push(position);
        } else {
            sorts.entry(serves.clone()).or_default().push(position);
        }
    }
    for kind in &mut kinds {
        kind.serves = sorts.keys().map(|serves| serves[kind.class]).collect();
    }
    let claims = sorts.into_values().map(|claims| ClaimKind { claims }).collect();
    Alike { gpus: kinds, claims, kind_of, hopeless }
}
