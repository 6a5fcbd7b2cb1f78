//! One machine while its GPUs are cut, and what its product can be cut into.

use super::Counts;
use crate::nodes::Pool;
use crate::plan::{Left, PlannedNode};
use carve_formats::workloads::PodAsk;
use carve_gpu_model::{Geometry, Placed, ProfileName, ProfileTable};
use carve_planner::{PoolName, room};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What GPUs of a type of machine can be cut into.
#[derive(Debug)]
pub(super) struct Product {
    pub(super) name: PoolName,
    pub(super) table: Arc<ProfileTable>,
    /// Every legal set of devices, with the places that leave the most room for more.
    legal: BTreeMap<Counts, (u32, Vec<Placed>)>,
}

impl Product {
    /// The product of a type of machine, if it has MIG.
    pub(super) fn of(pool: &Pool) -> Option<Self> {
        let table = Arc::new(pool.machine.table.clone()?);
        let mut legal: BTreeMap<Counts, (u32, Vec<Placed>)> = BTreeMap::new();
        let mut counts = vec![0_u8; table.profiles().len()];
        table.visit_states(|state| {
            counts.fill(0);
            for placed in state {
                counts[usize::from(placed.profile.0)] += 1;
            }
            let room = room(&table, state);
            if legal.get(&counts).is_none_or(|(known, _)| *known < room) {
                legal.insert(counts.clone(), (room, state.to_vec()));
            }
        });
        Some(Product { name: PoolName(pool.machine.name.as_str().into()), table, legal })
    }

    /// Whether a GPU can hold these devices.
    pub(super) fn holds(&self, counts: &Counts) -> bool {
        self.legal.contains_key(counts)
    }

    /// Where the devices of a GPU are.
    pub(super) fn places(&self, counts: &Counts) -> &[Placed] {
        self.legal.get(counts).map_or(&[], |(_, places)| places)
    }

    /// The same as a geometry.
    pub(super) fn geometry(&self, counts: &Counts) -> Geometry {
        let pairs = self.table.profiles().iter().zip(counts);
        pairs.map(|(profile, count)| (profile.name.clone(), u32::from(*count))).collect()
    }

    /// Devices by name as counts, if the product has them all.
    pub(super) fn counts(&self, devices: &BTreeMap<ProfileName, u32>) -> Option<Counts> {
        let mut counts = vec![0_u8; self.table.profiles().len()];
        for (profile, count) in devices {
            let (slot, _) = self.table.by_name(profile).ok()?;
            let known = &mut counts[usize::from(slot.0)];
            *known = known.checked_add(u8::try_from(*count).ok()?)?;
        }
        Some(counts)
    }
}

/// One machine while its GPUs are cut.
#[derive(Debug)]
pub(super) struct Bench {
    /// Its place in the plan.
    pub(super) node: usize,
    /// Its type.
    pub(super) pool: usize,
    /// What each GPU is cut into.
    pub(super) gpus: Vec<Counts>,
    pub(super) cpu: u64,
    pub(super) memory: u64,
}

/// Whether a GPU is not cut.
pub(super) fn is_whole(counts: &Counts) -> bool {
    counts.iter().all(|count| *count == 0)
}

impl Bench {
    pub(super) fn new(index: usize, node: &PlannedNode, left: &Left, product: &Product) -> Self {
        let whole = vec![0; product.table.profiles().len()];
        let gpus = vec![whole; node.mig.len()];
        Bench { node: index, pool: node.pool, gpus, cpu: left.cpu, memory: left.memory }
    }

    /// How many pods the machine beside its GPUs has room for.
    pub(super) fn host_room(&self, pod: &PodAsk) -> u64 {
        let by = |left: u64, each: u64| left.checked_div(each).unwrap_or(u64::MAX);
        by(self.cpu, pod.cpu_milli).min(by(self.memory, pod.memory.0))
    }

    /// Takes what pods need beside GPUs; the caller has asked for room.
    pub(super) fn take_host(&mut self, pod: &PodAsk, pods: u64) {
        self.cpu = self.cpu.saturating_sub(pod.cpu_milli.saturating_mul(pods));
        self.memory = self.memory.saturating_sub(pod.memory.0.saturating_mul(pods));
    }

    /// The GPU that holds devices beside those it has: the first that is cut, else the first that is whole.
    pub(super) fn place_for(gpus: &[Counts], part: &Counts, product: &Product) -> Option<usize> {
        let fits = |gpu: &&usize| product.holds(&sum(&gpus[**gpu], part));
        let places: Vec<usize> = (0..gpus.len()).collect();
        let cut = places.iter().filter(|gpu| !is_whole(&gpus[**gpu])).find(fits);
        cut.or_else(|| places.iter().filter(|gpu| is_whole(&gpus[**gpu])).find(fits)).copied()
    }

    /// The GPUs that are cut, with their numbers on the machine: they stand last, so that whole ones keep the first numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &Counts)> {
        let last = self.gpus.len();
        let cut = self.gpus.iter().filter(|counts| !is_whole(counts));
        cut.enumerate().map(move |(rank, counts)| (last - 1 - rank, counts))
    }
}

/// Two sets of devices together.
pub(super) fn sum(one: &Counts, other: &Counts) -> Counts {
    one.iter().zip(other).map(|(one, more)| one.saturating_add(*more)).collect()
}
