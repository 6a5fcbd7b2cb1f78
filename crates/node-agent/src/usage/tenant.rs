//! A container with a part of a GPU, whichever way it came by it, and all of them by the device that they share; pure.

use carve_economics::Parts;
use carve_gpu_host::MigDevice;
use carve_gpu_model::{GpuIndex, GpuInstanceId};
use carve_slicing::{Holder, NodeGpu, NodeGpus};
use std::collections::BTreeMap;

/// What keeps tenants apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mechanism {
    /// Nobody else has the part.
    Whole,
    /// In turns.
    TimeSlicing,
    /// At once, through the multi-process service.
    Mps,
    /// In turns, by the limiter.
    Fraction,
}

impl Mechanism {
    /// The word in labels. A part that is a MIG device and not shared is told as such.
    pub(crate) fn word(self, part: &str) -> &'static str {
        match self {
            Mechanism::Whole if part.starts_with("MIG-") => "mig",
            Mechanism::Whole => "whole",
            Mechanism::TimeSlicing => "time-slicing",
            Mechanism::Mps => "mps",
            Mechanism::Fraction => "fraction",
        }
    }
}

/// What a share has counted so far.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counted {
    /// Which share.
    pub(crate) share: String,
    /// Nanoseconds.
    pub(crate) busy: u64,
}

/// A container with a part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tenant {
    pub(crate) holder: Holder,
    /// UUID of the GPU or MIG device.
    pub(crate) part: String,
    pub(crate) mechanism: Mechanism,
    /// What it has of the part, where the part is given out in equal shares.
    pub(crate) shares: Option<Parts>,
    /// Of the part's time, in thousandths; none where nothing was promised.
    pub(crate) promised: Option<u32>,
    /// Bytes that it may have, where that is less than the part.
    pub(crate) memory_limit: Option<u64>,
    /// Seconds in which it was kept from working.
    pub(crate) throttled: Option<f64>,
    /// How often it was refused memory.
    pub(crate) denied: Option<u64>,
    /// What its shares counted; empty where nobody counts.
    pub(crate) counted: Vec<Counted>,
}

impl Tenant {
    /// One of which nothing is known.
    pub(crate) fn of(holder: Holder) -> Self {
        Tenant {
            holder,
            part: String::new(),
            mechanism: Mechanism::Whole,
            shares: None,
            promised: None,
            memory_limit: None,
            throttled: None,
            denied: None,
            counted: Vec::new(),
        }
    }

    fn join(&mut self, other: Tenant) {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        let add = |one: Parts, other: Parts| Parts(one.0.saturating_add(other.0).min(Parts::ALL.0));
        self.shares = self.shares.zip(other.shares).map(|(one, other)| add(one, other));
        self.promised = self.promised.zip(other.promised).map(|(one, other)| (one + other).min(1000));
        self.memory_limit = sum(self.memory_limit, other.memory_limit);
        self.throttled = self.throttled.zip(other.throttled).map(|(one, other)| one + other);
        self.denied = sum(self.denied, other.denied);
        self.counted.extend(other.counted);
    }
}

/// What the driver tells the use of: a GPU, or a GPU instance of one that is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) gpu: GpuIndex,
    pub(crate) instance: Option<GpuInstanceId>,
    /// UUIDs of its parts: the GPU itself, or the MIG devices in the instance, which are rarely more than one.
    pub(crate) parts: Vec<String>,
}

/// Everything of which the driver tells the use, now.
pub(crate) fn units(node: &NodeGpus) -> Vec<Unit> {
    node.gpus.iter().filter(|gpu| !gpu.lost).flat_map(units_of).collect()
}

fn units_of(gpu: &NodeGpu) -> Vec<Unit> {
    if !gpu.mig_enabled {
        return vec![Unit { gpu: gpu.gpu.index, instance: None, parts: vec![gpu.gpu.uuid.0.clone()] }];
    }
    let mut instances: BTreeMap<GpuInstanceId, Vec<String>> = BTreeMap::new();
    for MigDevice { gpu_instance, uuid, .. } in gpu.migs.iter().map(|mig| &mig.device) {
        instances.entry(*gpu_instance).or_default().push(uuid.0.clone());
    }
    let unit = |(instance, parts)| Unit { gpu: gpu.gpu.index, instance: Some(instance), parts };
    instances.into_iter().map(unit).collect()
}

/// Who has parts of a unit: one entry for each container and part. A container that has several shares of one has them together, and what a share
/// counts takes the place of what the claim says of it.
pub(crate) fn tenants<'a>(unit: &Unit, all: impl Iterator<Item = &'a Tenant>) -> Vec<Tenant> {
    let mut found: BTreeMap<(Holder, String), Tenant> = BTreeMap::new();
    for tenant in all.filter(|tenant| unit.parts.contains(&tenant.part)) {
        let key = (tenant.holder.clone(), tenant.part.clone());
        match found.remove(&key) {
            None => _ = found.insert(key, tenant.clone()),
            Some(known) if known.counted.is_empty() && !tenant.counted.is_empty() => {
                found.insert(key, tenant.clone());
            }
            Some(known) if !known.counted.is_empty() && tenant.counted.is_empty() => {
                found.insert(key, known);
            }
            Some(mut known) => {
                known.join(tenant.clone());
                found.insert(key, known);
            }
        }
    }
    found.into_values().collect()
}
