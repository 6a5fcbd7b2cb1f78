//! From what containers have and used to what they pay for; pure.

use crate::usage::{ContainerRow, UsageRows};
use carve_economics::{Account, GpuTime, Millis, Parts, SliceTime, dominant, stranded};
use carve_gpu_model::{Mechanism, Product};
use carve_slicing::{Holder, NodeGpu, NodeGpus, NodeMig};
use std::collections::{BTreeMap, BTreeSet};

/// A GPU at a moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum GpuNow {
    /// Nobody can have it.
    Withheld,
    /// It is there.
    Serving { slices: Vec<SliceNow>, stranded: Parts },
}

/// What a container has of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SliceNow {
    pub(super) account: Account,
    /// Which container, and of which part.
    key: (Holder, String),
    weight: Parts,
    /// How much of the part's time counts as all of the slice.
    full: Parts,
    /// Seconds of the part so far; none where nobody can tell.
    busy: Option<f64>,
}

/// Everything at a moment. `workload` knows what made a pod, and `sick` names what may not be given out.
pub(super) fn gpus_now(
    rows: &UsageRows,
    node: &NodeGpus,
    sick: &BTreeSet<String>,
    workload: impl Fn(&Holder) -> String,
) -> Vec<GpuNow> {
    let mut of: BTreeMap<&str, Vec<&ContainerRow>> = BTreeMap::new();
    // A claim is ready before kubelet has said which pod holds it, and for a moment after that pod is gone: until then it is nobody's.
    for row in rows.containers.iter().filter(|row| !row.holder.pod.is_empty()) {
        of.entry(row.uuid.as_str()).or_default().push(row);
    }
    let none = Vec::new();
    let on = |part: &str| of.get(part).unwrap_or(&none);
    let gpu_now =
        |gpu: &NodeGpu| {
            let uuid = gpu.gpu.uuid.0.as_str();
            if gpu.lost {
                return GpuNow::Withheld;
            }
            let mut slices = Vec::new();
            let stranded =
                if gpu.mig_enabled {
                    for mig in &gpu.migs {
                        let weight = mig_weight(gpu, mig);
                        let part = mig.device.uuid.0.as_str();
                        slices.extend(on(part).iter().zip(weights(on(part))).map(|(row, within)| {
                            slice_now(row, of_part(weight, within.0), within.1, &workload)
                        }));
                    }
                    uncut(gpu)
                } else {
                    let tenants = on(uuid);
                    let weights = weights(tenants);
                    slices.extend(
                        tenants
                            .iter()
                            .zip(&weights)
                            .map(|(row, (weight, full))| slice_now(row, *weight, *full, &workload)),
                    );
                    left_over(tenants, &weights)
                };
            match (slices.is_empty(), sick.contains(uuid)) {
                (true, true) => GpuNow::Withheld,
                // What is left of a sick GPU can be given to nobody.
                (false, true) => GpuNow::Serving { slices, stranded: Parts::ALL },
                (_, false) => GpuNow::Serving { slices, stranded },
            }
        };
    node.gpus.iter().map(gpu_now).collect()
}

fn slice_now(
    row: &ContainerRow,
    weight: Parts,
    full: Parts,
    workload: &impl Fn(&Holder) -> String,
) -> SliceNow {
    let within_mig = row.uuid.starts_with("MIG-");
    let mechanism = match row.mechanism {
        "mig" => Mechanism::Mig,
        "time-slicing" => Mechanism::TimeSlicing,
        "mps" => Mechanism::Mps,
        "fraction" => Mechanism::Limiter,
        _ => Mechanism::Exclusive,
    };
    let known = row.now.is_some() || !row.seconds.is_empty();
    SliceNow {
        account: Account {
            namespace: row.holder.namespace.clone(),
            workload: workload(&row.holder),
            pod: row.holder.pod.clone(),
            mechanism,
            within_mig: within_mig && mechanism != Mechanism::Mig,
        },
        key: (row.holder.clone(), row.uuid.clone()),
        weight,
        full,
        busy: known.then(|| row.seconds.iter().map(|(_, seconds)| seconds).sum()),
    }
}

/// What each tenant of a part has of it that nobody else can have, and how much of its time counts as all of that.
fn weights(tenants: &[&ContainerRow]) -> Vec<(Parts, Parts)> {
    let known: Vec<Option<(Parts, Parts)>> = tenants.iter().map(|row| weight(row)).collect();
    let given: u64 = known.iter().flatten().map(|(weight, _)| u64::from(weight.0)).sum();
    let rest = Parts(u32::try_from(u64::from(Parts::ALL.0).saturating_sub(given)).unwrap_or(0));
    // Those who were promised nothing share what is left evenly.
    let others = known.iter().filter(|one| one.is_none()).count();
    let each = Parts(rest.0 / u32::try_from(others.max(1)).unwrap_or(u32::MAX));
    known.into_iter().map(|one| one.unwrap_or((each, each))).collect()
}

fn weight(row: &ContainerRow) -> Option<(Parts, Parts)> {
    if let Some(shares) = row.shares {
        return Some((shares, shares));
    }
    if matches!(row.mechanism, "whole" | "mig") {
        return Some((Parts::ALL, Parts::ALL));
    }
    // Who takes turns was promised nothing; that it may have all of the memory is no promise.
    if row.mechanism == "time-slicing" {
        return None;
    }
    let (memory, compute) = promised(row);
    let weight = dominant(memory, compute);
    let full = if compute == Parts::NONE { weight } else { compute };
    (weight != Parts::NONE).then_some((weight, full))
}

/// Memory and compute that were promised, as parts of what there is.
fn promised(row: &ContainerRow) -> (Parts, Parts) {
    let memory = row.memory_limit.zip(row.part_memory).map(|(limit, all)| Parts::of(limit, all));
    let compute = row.promised.map(|ratio| Parts::of((ratio * 1e6).round() as u64, 1_000_000));
    (memory.unwrap_or(Parts::NONE), compute.unwrap_or(Parts::NONE))
}

/// What nobody can be given of the rest of a GPU, because it has memory without compute or compute without memory.
fn left_over(tenants: &[&ContainerRow], weights: &[(Parts, Parts)]) -> Parts {
    let parts = tenants.iter().filter(|row| row.shares.is_none() && row.mechanism == "fraction");
    let (mut memory, mut compute) = (0_u32, 0_u32);
    for row in parts {
        let (of_memory, of_compute) = promised(row);
        (memory, compute) = (memory.saturating_add(of_memory.0), compute.saturating_add(of_compute.0));
    }
    if memory == 0 || compute == 0 {
        return Parts::NONE;
    }
    let given = weights.iter().fold(0_u32, |sum, (weight, _)| sum.saturating_add(weight.0));
    stranded(Parts(given).rest(), Parts(memory).rest(), Parts(compute).rest())
}

fn of_part(part: Parts, within: Parts) -> Parts {
    Parts::of(u64::from(part.0) * u64::from(within.0), u64::from(Parts::ALL.0) * u64::from(Parts::ALL.0))
}

/// Compute slices of the whole GPU: seven, but for smaller ones.
fn compute_slices(gpu: &NodeGpu) -> u64 {
    let table = Product::by_pci_id(gpu.gpu.pci_id).and_then(Product::profile_table);
    let most = table.and_then(|table| table.profiles().iter().map(|profile| profile.slices).max());
    most.map_or(7, u64::from)
}

/// Memory and compute of a MIG device, as parts of its GPU.
fn mig_parts(gpu: &NodeGpu, mig: &NodeMig) -> (Parts, Parts) {
    let device = &mig.device;
    let compute = Parts::of(u64::from(device.compute_slices), compute_slices(gpu));
    // Compute instances of one GPU instance share its memory.
    let memory = Parts::of(device.memory.0 << 20, gpu.gpu.memory.0);
    (of_part(memory, Parts::of(u64::from(device.compute_slices), u64::from(device.gpu_slices))), compute)
}

fn mig_weight(gpu: &NodeGpu, mig: &NodeMig) -> Parts {
    let (memory, compute) = mig_parts(gpu, mig);
    dominant(memory, compute)
}

/// What nobody can be given of what is not cut.
fn uncut(gpu: &NodeGpu) -> Parts {
    let (mut weight, mut memory, mut compute) = (0_u32, 0_u32, 0_u32);
    for mig in &gpu.migs {
        let (of_memory, of_compute) = mig_parts(gpu, mig);
        weight = weight.saturating_add(dominant(of_memory, of_compute).0);
        (memory, compute) = (memory.saturating_add(of_memory.0), compute.saturating_add(of_compute.0));
    }
    stranded(Parts(weight).rest(), Parts(memory).rest(), Parts(compute).rest())
}

/// Whether the same containers have the same.
pub(super) fn same(before: &[GpuNow], after: &[GpuNow]) -> bool {
    let alike = |(before, after): (&GpuNow, &GpuNow)| match (before, after) {
        (GpuNow::Withheld, GpuNow::Withheld) => true,
        (
            GpuNow::Serving { slices: before, stranded: lost },
            GpuNow::Serving { slices: after, stranded: lost_now },
        ) => {
            let slice = |(before, after): (&SliceNow, &SliceNow)| {
                (&before.account, &before.key, before.weight, before.full)
                    == (&after.account, &after.key, after.weight, after.full)
            };
            lost == lost_now && before.len() == after.len() && before.iter().zip(after).all(slice)
        }
        _ => false,
    };
    before.len() == after.len() && before.iter().zip(after).all(alike)
}

/// What containers had used by an earlier moment, for those who were there.
pub(super) fn as_of(now: &mut [GpuNow], earlier: &[GpuNow]) {
    let known: BTreeMap<&(Holder, String), Option<f64>> =
        slices(earlier).map(|slice| (&slice.key, slice.busy)).collect();
    for gpu in now {
        if let GpuNow::Serving { slices, .. } = gpu {
            for slice in slices {
                slice.busy = known.get(&slice.key).copied().unwrap_or(slice.busy);
            }
        }
    }
}

/// All slices.
pub(super) fn slices(gpus: &[GpuNow]) -> impl Iterator<Item = &SliceNow> {
    gpus.iter().flat_map(|gpu| match gpu {
        GpuNow::Withheld => &[][..],
        GpuNow::Serving { slices, .. } => slices,
    })
}

/// What happened between two moments at which the same containers had the same.
pub(super) fn between(before: &[GpuNow], after: &[GpuNow], time: Millis) -> Vec<GpuTime> {
    let seconds = time.0 as f64 / 1000.0;
    let slice = |(before, after): (&SliceNow, &SliceNow)| {
        let full = seconds * f64::from(after.full.0) / f64::from(Parts::ALL.0);
        let used = before.busy.zip(after.busy).map(|(before, after)| {
            let part = if full > 0.0 { ((after - before) / full).clamp(0.0, 1.0) } else { 0.0 };
            Parts((part * f64::from(Parts::ALL.0)).round() as u32)
        });
        SliceTime { account: after.account.clone(), weight: after.weight, used }
    };
    let gpu = |(before, after): (&GpuNow, &GpuNow)| match (before, after) {
        (GpuNow::Serving { slices: before, .. }, GpuNow::Serving { slices: after, stranded }) => {
            GpuTime::Serving { slices: before.iter().zip(after).map(slice).collect(), stranded: *stranded }
        }
        _ => GpuTime::Withheld,
    };
    before.iter().zip(after).map(gpu).collect()
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
