//! This node as people see it: its GPUs with their instances, who has what of them and what is used; painted at every look, shown over HTTP.
//!
//! The controller's dashboard asks every agent for its picture, so that whoever looks at a fleet sees what agents measure and no copy of it.

use crate::usage::{ContainerRow, UsageRows};
use carve_economics::Parts;
use carve_fleet_picture::{Evidence, GpuPicture, GpuState, Instance, Mechanism, NodePicture, Slice};
use carve_gpu_host::GpuHost;
use carve_gpu_model::{GpuIndex, GpuInstanceId, Placement};
use carve_slicing::{Holder, NodeGpu, NodeGpus, NodeMig};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where the picture stands for whoever asks.
#[derive(Debug, Default)]
pub(crate) struct Easel(Mutex<Option<NodePicture>>);

impl Easel {
    fn picture_now(&self) -> MutexGuard<'_, Option<NodePicture>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn show(&self, picture: NodePicture) {
        *self.picture_now() = Some(picture);
    }

    /// The newest picture; `hindered` says what keeps the agent from its work.
    pub(crate) fn picture(&self, hindered: Option<String>) -> Option<NodePicture> {
        let mut picture = self.picture_now().clone()?;
        if let (true, Some(why)) = (picture.why.is_empty(), hindered) {
            picture.why = why;
        }
        Some(picture)
    }
}

/// How a GPU is divided by MIG.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cut {
    slots: u8,
    compute_slices: u8,
    at: BTreeMap<GpuInstanceId, Placement>,
}

/// All that are.
pub(crate) type Cuts = BTreeMap<GpuIndex, Cut>;

/// Asks how GPUs in MIG mode are divided. Of one that does not tell, the others are told all the same.
pub(crate) fn read_cuts(host: &dyn GpuHost, gpus: &[GpuIndex]) -> Cuts {
    let read = |index: &GpuIndex| {
        let table = host.profile_table(*index).ok()?;
        let instances = host.gpu_instances(*index).ok()?;
        let at = instances.into_iter().map(|one| (one.id, one.placement)).collect();
        Some((*index, Cut { slots: table.slots(), compute_slices: table.compute_slices(), at }))
    };
    gpus.iter().filter_map(read).collect()
}

/// What is painted.
pub(crate) struct Scene<'a> {
    pub(crate) node: &'a NodeGpus,
    pub(crate) rows: &'a UsageRows,
    pub(crate) cuts: &'a Cuts,
    /// Parts that may not be given out, and why.
    pub(crate) sick: &'a BTreeMap<String, String>,
    /// Parts that are about to be cut otherwise.
    pub(crate) cutting: &'a BTreeSet<String>,
    /// What kind of machine it is.
    pub(crate) kind: &'a str,
    /// Dollars of an hour.
    pub(crate) price: Option<f64>,
    /// Whether the driver has not answered for long.
    pub(crate) silent: bool,
}

/// What is remembered of a container from one look to the next.
#[derive(Debug, Clone, Copy)]
struct Remembered {
    /// When it was first seen, in seconds since 1970.
    first: i64,
    /// Seconds in which it was held back so far, and when that was counted.
    held_back: (f64, Instant),
    /// Part of the time between the last two counts.
    throttled: f64,
}

/// Paints, and remembers what a single look does not tell.
#[derive(Debug, Default)]
pub(crate) struct Painter {
    known: BTreeMap<(Holder, String), Remembered>,
}

impl Painter {
    /// The picture of a moment. `workload` and `since` know what made a pod, and when it came.
    pub(crate) fn paint(
        &mut self,
        scene: &Scene<'_>,
        workload: impl Fn(&Holder) -> String,
        since: impl Fn(&Holder) -> Option<i64>,
        now: Instant,
    ) -> NodePicture {
        self.remember(scene.rows, now);
        let gpus = scene.node.gpus.iter().map(|gpu| {
            let mut picture = empty(scene, gpu);
            let on =
                scene.rows.containers.iter().filter_map(|row| Some((row, part_of(scene, gpu, &row.uuid)?)));
            for (row, part) in on {
                let remembered = self.known.get(&(row.holder.clone(), row.uuid.clone()));
                let first = remembered.map_or(0, |one| one.first);
                picture.slices.push(Slice {
                    workload: workload(&row.holder),
                    throttled: remembered.map_or(0.0, |one| one.throttled),
                    since: since(&row.holder).unwrap_or(first),
                    ..slice(row, part)
                });
            }
            picture
                .slices
                .sort_by(|one, other| (&one.pod, &one.container).cmp(&(&other.pod, &other.container)));
            picture
        });
        NodePicture {
            kind: scene.kind.to_owned(),
            gpus: gpus.collect(),
            ready: true,
            why: if scene.silent {
                "the driver does not answer; what is used is not known".to_owned()
            } else {
                String::new()
            },
            dollars_per_hour: scene.price,
        }
    }

    /// Who is gone is forgotten.
    fn remember(&mut self, rows: &UsageRows, now: Instant) {
        let before = std::mem::take(&mut self.known);
        for row in &rows.containers {
            let key = (row.holder.clone(), row.uuid.clone());
            let counted = row.throttled.unwrap_or(0.0);
            let fresh = || Remembered { first: seconds(), held_back: (counted, now), throttled: 0.0 };
            let mut one = before.get(&key).copied().unwrap_or_else(fresh);
            let elapsed = now.saturating_duration_since(one.held_back.1).as_secs_f64();
            // Shares are counted every few seconds: between two counts the last figure stands.
            if counted != one.held_back.0 || elapsed >= 5.0 {
                one.throttled = if elapsed > 0.0 {
                    rounded(((counted - one.held_back.0) / elapsed).clamp(0.0, 1.0))
                } else {
                    0.0
                };
                one.held_back = (counted, now);
            }
            self.known.insert(key, one);
        }
    }
}

fn seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Thousandths are enough for people, and change less often.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// A part of a GPU: all of it, or a MIG device's part of its compute.
fn part_of(scene: &Scene<'_>, gpu: &NodeGpu, uuid: &str) -> Option<f64> {
    if gpu.gpu.uuid.0 == uuid {
        return Some(1.0);
    }
    let mig = gpu.migs.iter().find(|mig| mig.device.uuid.0 == uuid)?;
    let all = scene.cuts.get(&gpu.gpu.index).map_or(7, |cut| cut.compute_slices).max(1);
    Some(f64::from(mig.device.compute_slices) / f64::from(all))
}

/// A GPU without its slices.
fn empty(scene: &Scene<'_>, gpu: &NodeGpu) -> GpuPicture {
    let uuid = &gpu.gpu.uuid.0;
    let cut = scene.cuts.get(&gpu.gpu.index).filter(|_| gpu.mig_enabled);
    let mut instances: Vec<Instance> =
        cut.map(|cut| gpu.migs.iter().filter_map(|mig| instance(mig, cut)).collect()).unwrap_or_default();
    instances.sort_by_key(|one| one.start);
    let its = |parts: &dyn Fn(&str) -> bool| {
        parts(uuid) || gpu.migs.iter().any(|mig| parts(mig.device.uuid.0.as_str()))
    };
    let units = || scene.rows.units.iter().filter(|unit| unit.gpu == gpu.gpu.index.0);
    let busy = units().filter_map(|unit| Some(unit.now? * part_of(scene, gpu, &unit.uuid)?));
    let told = !scene.silent && units().any(|unit| unit.now.is_some());
    let state = match () {
        () if gpu.lost => GpuState::Lost,
        () if scene.sick.contains_key(uuid) => GpuState::Sick,
        () if its(&|part| scene.cutting.contains(part)) => GpuState::Cutting,
        () => GpuState::Ok,
    };
    GpuPicture {
        uuid: uuid.clone(),
        index: gpu.gpu.index.0,
        product: gpu.gpu.name.clone(),
        memory: gpu.gpu.memory.0 >> 20,
        state,
        why: why(scene, gpu, state),
        slots: cut.map(|cut| cut.slots),
        instances,
        busy: told.then(|| rounded(busy.sum::<f64>().min(1.0))),
        memory_used: units().map(|unit| unit.memory).sum::<u64>() >> 20,
        slices: Vec::new(),
    }
}

fn why(scene: &Scene<'_>, gpu: &NodeGpu, state: GpuState) -> String {
    let uuid = &gpu.gpu.uuid.0;
    if let Some(reason) = scene.sick.get(uuid) {
        return reason.clone();
    }
    let sick = gpu.migs.iter().filter_map(|mig| {
        let reason = scene.sick.get(mig.device.uuid.0.as_str())?;
        Some(format!("{} is not given out: {reason}", mig.device.uuid.0))
    });
    let mut words: Vec<String> = sick.collect();
    words.extend((state == GpuState::Cutting).then(|| "being cut anew".to_owned()));
    words.extend((state == GpuState::Lost).then(|| "gone from the bus".to_owned()));
    words.join("; ")
}

fn instance(mig: &NodeMig, cut: &Cut) -> Option<Instance> {
    let at = cut.at.get(&mig.device.gpu_instance)?;
    Some(Instance {
        uuid: mig.device.uuid.0.clone(),
        profile: mig.profile.to_string(),
        start: at.start,
        size: at.size,
        memory: mig.device.memory.0,
    })
}

/// What a container has of a GPU; its part may be a MIG device, which is so much of the GPU.
fn slice(row: &ContainerRow, part: f64) -> Slice {
    let mechanism = match row.mechanism {
        "mig" => Mechanism::Mig,
        "time-slicing" => Mechanism::TimeSlicing,
        "mps" => Mechanism::Mps,
        "fraction" => Mechanism::Limiter,
        _ => Mechanism::Exclusive,
    };
    let mebi = |bytes: u64| bytes >> 20;
    let share = |memory: u64, shares: Parts| {
        u64::try_from(u128::from(memory) * u128::from(shares.0) / u128::from(Parts::ALL.0)).unwrap_or(memory)
    };
    let (compute, memory) = match mechanism {
        // Who takes turns was promised nothing; that it may have all of the memory is no promise.
        Mechanism::TimeSlicing => (None, None),
        Mechanism::Exclusive | Mechanism::Mig => (Some(part), row.part_memory),
        Mechanism::Mps => {
            let equal = row.shares.zip(row.part_memory).map(|(shares, memory)| share(memory, shares));
            (row.promised.map(|promised| promised * part), equal.or(row.memory_limit))
        }
        Mechanism::Limiter => (row.promised.map(|promised| promised * part), row.memory_limit),
    };
    Slice {
        pod: format!("{}/{}", row.holder.namespace, row.holder.pod),
        container: row.holder.container.clone(),
        mechanism,
        instance: row.uuid.starts_with("MIG-").then(|| row.uuid.clone()),
        compute: compute.map(rounded),
        memory: memory.map(mebi),
        compute_used: row.now.map(|now| rounded((now * part).min(1.0))),
        memory_used: mebi(row.memory),
        how: row.how.map(|how| match how {
            carve_usage::Evidence::Measured => Evidence::Measured,
            carve_usage::Evidence::Limiter => Evidence::Limiter,
            carve_usage::Evidence::Quota => Evidence::Quota,
            carve_usage::Evidence::Equal => Evidence::Equal,
        }),
        ..Slice::default()
    }
}

#[cfg(test)]
#[path = "easel_tests.rs"]
mod tests;
