//! What is used of real GPUs: what the limiter has counted of commands with a share, and what the driver tells of everything else.

use super::Machine;
use crate::tenant::{Given, Stage, Use};
use carve_fleet_picture::{Evidence, GpuPicture};
use carve_gpu_model::GpuIndex;
use carve_slicing::PartId;
use std::collections::{BTreeMap, BTreeSet};

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// When a container's share was looked at, and what it had used by then: GPU time and time held back, in seconds.
    before: BTreeMap<(String, String), (i64, f64, f64)>,
    /// Of GPUs by UUID: the busy part, and MiB in use.
    gpus: BTreeMap<String, (Option<f64>, u64)>,
}

impl Observed {
    pub(super) fn forget(&mut self, uid: &str) {
        self.before.retain(|(pod, _), _| pod != uid);
    }

    /// What the driver says of whole GPUs counts, whoever uses them.
    pub(super) fn show(&self, pictures: &mut [GpuPicture]) {
        for picture in pictures {
            if let Some((busy, memory)) = self.gpus.get(&picture.uuid) {
                picture.busy = *busy;
                picture.memory_used = *memory;
            }
        }
    }
}

/// What a container with a share has used since the last look.
struct Rate {
    /// MiB.
    memory: u64,
    /// Part of the GPU's time; none at the first look.
    busy: Option<f64>,
    /// Part of the time in which it was held back.
    throttled: Option<f64>,
}

impl Machine {
    /// Looks what programs do now.
    pub(super) fn observe(&mut self, now: i64) {
        self.changed = true;
        self.look_at_gpus();
        let (units, rates) = (self.busy_units(), self.rates(now));
        let mut uses: Vec<(String, usize, Use)> = Vec::new();
        for (uid, tenant) in &self.tenants {
            for (place, held) in tenant.held.iter().enumerate() {
                let Some(promise) = self.promise(held) else { continue };
                let mut seen = Use { mechanism: promise.mechanism, ..Use::default() };
                match held.given {
                    _ if !matches!(tenant.stage, Stage::Running { .. }) => {}
                    Given::Part { compute, .. } => {
                        let rate = rates.get(&(uid.clone(), held.container.clone()));
                        seen.memory = rate.map_or(0, |rate| rate.memory);
                        seen.throttled = rate.and_then(|rate| rate.throttled).unwrap_or(0.0);
                        // Time is only counted where it is limited.
                        if let Some(busy) = rate.and_then(|rate| rate.busy).filter(|_| compute > 0) {
                            (seen.compute, seen.how) = (busy, Some(Evidence::Limiter));
                        }
                    }
                    Given::Device { .. } => {
                        seen.memory = self.held_by(uid, &held.container, promise.gpu);
                        if let Some((busy, users)) = units.get(&promise.unit) {
                            seen.compute = busy / f64::from((*users).max(1)) * promise.unit_part;
                            seen.how = Some(if *users <= 1 { Evidence::Measured } else { Evidence::Equal });
                        }
                    }
                }
                let own = promise.own * promise.unit_part;
                seen.of_own = if own > 0.0 { (seen.compute / own).min(1.0) } else { 0.0 };
                uses.push((uid.clone(), place, seen));
            }
        }
        for (uid, place, seen) in uses {
            if let Some(held) = self.tenants.get_mut(&uid).and_then(|tenant| tenant.held.get_mut(place)) {
                held.use_ = seen;
            }
        }
    }

    /// What the limiter has counted for containers since the last look.
    fn rates(&mut self, now: i64) -> BTreeMap<(String, String), Rate> {
        let Some(programs) = &self.programs else { return BTreeMap::new() };
        let mut rates = BTreeMap::new();
        for (uid, tenant) in &self.tenants {
            for held in tenant.held.iter().filter(|held| matches!(held.given, Given::Part { .. })) {
                let Some(run) = programs.share(uid, &held.container) else { continue };
                let (time, throttled) = (run.counters.gpu_time, run.counters.throttled);
                let at = (now, time.as_secs_f64(), throttled.as_secs_f64());
                let key = (uid.clone(), held.container.clone());
                let before = self.observed.before.insert(key.clone(), at);
                // One that was started anew counts from nothing.
                let before = before.filter(|before| before.1 <= at.1 && before.2 <= at.2);
                let part = |of: fn(&(i64, f64, f64)) -> f64| {
                    let before = before.as_ref().filter(|before| at.0 > before.0)?;
                    Some(((of(&at) - of(before)) * 1000.0 / (at.0 - before.0) as f64).clamp(0.0, 1.0))
                };
                let memory = run.counters.memory >> 20;
                rates.insert(key, Rate { memory, busy: part(|at| at.1), throttled: part(|at| at.2) });
            }
        }
        rates
    }

    /// MiB that the driver shows for a container's processes on a GPU.
    fn held_by(&self, uid: &str, container: &str, gpu: usize) -> u64 {
        let Some(programs) = &self.programs else { return 0 };
        let ours: BTreeSet<u32> = programs.processes(uid, container);
        let index = self.gpus.gpus[gpu].gpu.index;
        let processes = self.host.processes(index).unwrap_or_default();
        let mine = processes.iter().filter(|process| ours.contains(&process.pid));
        mine.filter_map(|process| process.memory).map(|bytes| bytes.0 >> 20).sum()
    }

    fn look_at_gpus(&mut self) {
        if let Some(programs) = &mut self.programs {
            programs.look();
        }
        let gpus: Vec<(GpuIndex, String)> =
            self.gpus.gpus.iter().map(|gpu| (gpu.gpu.index, gpu.gpu.uuid.0.clone())).collect();
        for (index, uuid) in gpus {
            let busy = match self.host.busy(index, None) {
                Ok(Some(part)) => Some(f64::from(part.0) / 1e6),
                _ => self.host.utilisation(index).ok().map(|used| f64::from(used.compute_percent) / 100.0),
            };
            let memory = self.host.memory(index).map_or(0, |memory| memory.used.0 >> 20);
            self.observed.gpus.insert(uuid, (busy, memory));
        }
    }

    /// How busy each device is that somebody has, and how many have it.
    fn busy_units(&mut self) -> BTreeMap<PartId, (f64, u32)> {
        let mut units: BTreeMap<PartId, (Option<f64>, u32)> = BTreeMap::new();
        let mut instances = Vec::new();
        for tenant in self.tenants.values() {
            for held in &tenant.held {
                let (Given::Device { .. }, Some(promise)) = (&held.given, self.promise(held)) else {
                    continue;
                };
                let device = held.device.as_ref();
                if let Some((instance, _)) = device.and_then(|device| self.instance_of(device)) {
                    instances.push((promise.unit.clone(), self.gpus.gpus[promise.gpu].gpu.index, instance));
                }
                let whole = &self.gpus.gpus[promise.gpu].gpu.uuid.0;
                let busy = self.observed.gpus.get(whole).and_then(|(busy, _)| *busy);
                units.entry(promise.unit).or_insert((busy, 0)).1 += 1;
            }
        }
        for (unit, gpu, instance) in instances {
            let busy = self.host.busy(gpu, Some(instance)).ok().flatten();
            if let Some(known) = units.get_mut(&unit) {
                known.0 = busy.map(|part| f64::from(part.0) / 1e6);
            }
        }
        units.into_iter().filter_map(|(unit, (busy, users))| Some((unit, (busy?, users)))).collect()
    }
}
