//! From what is known and what the driver said to meters and rows; pure, but for the clock that others read.

use super::ask::{BusyUntil, GpuSaid, Said};
use super::known::Facts;
use super::row::{ContainerRow, DeviceRow, UnitRow, UsageRows};
use super::tenant::{Mechanism, Tenant, Unit, tenants, units};
use super::who::Whose;
use carve_gpu_host::{BusyPart, GpuProcess};
use carve_gpu_model::{Bytes, GpuIndex, GpuInstanceId};
use carve_slicing::{Holder, NodeGpu, NodeGpus};
use carve_usage::{Busy, Meter, Split, Strangers, TenantTick, Tick, split};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Where shares count, the driver is asked when they were read; if nobody reads them, it is asked all the same after so long.
const WITHOUT_COUNTS: Duration = Duration::from_secs(5);

/// A tenant of a unit.
type Key = (Holder, String);
type UnitKey = (GpuIndex, Option<GpuInstanceId>);

/// What is kept of a unit from look to look.
#[derive(Debug)]
struct Kept {
    /// Its parts: an instance that was made anew under an old number is another one.
    parts: Vec<String>,
    meter: Meter<Key>,
    /// When it was asked about.
    asked: Option<Instant>,
    /// How often doors had looked at their shares by then.
    looks: BTreeMap<String, u64>,
    /// What shares had counted.
    counted: BTreeMap<String, u64>,
    /// What was counted beyond the driver's figure.
    ahead: Busy,
    tenants: Vec<Tenant>,
    last: Option<Last>,
}

/// The last look.
#[derive(Debug)]
struct Last {
    split: Split,
    elapsed: Duration,
    told: bool,
    memory: u64,
}

/// Keeps meters.
#[derive(Debug, Default)]
pub(crate) struct Divider {
    units: BTreeMap<UnitKey, Kept>,
    gpus: BTreeMap<GpuIndex, GpuSaid>,
}

impl Divider {
    /// Which units to ask about now. Those that are gone are forgotten.
    pub(crate) fn due(&mut self, facts: &Facts, node: &NodeGpus, now: Instant) -> Vec<Unit> {
        let all = units(node);
        let there: BTreeMap<UnitKey, &Unit> =
            all.iter().map(|unit| ((unit.gpu, unit.instance), unit)).collect();
        self.units.retain(|key, kept| there.get(key).is_some_and(|unit| unit.parts == kept.parts));
        self.gpus.retain(|gpu, _| all.iter().any(|unit| unit.gpu == *gpu));
        all.into_iter().filter(|unit| self.is_due(facts, unit, now)).collect()
    }

    fn is_due(&self, facts: &Facts, unit: &Unit, now: Instant) -> bool {
        let Some(kept) = self.units.get(&(unit.gpu, unit.instance)) else { return true };
        let elapsed = kept.asked.map_or(Duration::MAX, |asked| now.saturating_duration_since(asked));
        let doors = doors(facts, unit);
        if doors.is_empty() {
            // Somebody else's shares were read; what is asked too often is told too coarsely.
            return elapsed >= super::LOOK * 9 / 10;
        }
        elapsed >= WITHOUT_COUNTS || doors.iter().all(|(door, looks)| kept.looks.get(*door) != Some(looks))
    }

    /// Divides what the driver said among those who have parts.
    pub(crate) fn divide(
        &mut self,
        facts: &Facts,
        held: &[Tenant],
        said: &Said,
        whose: &BTreeMap<u32, Whose>,
    ) {
        self.gpus.extend(said.gpus.iter().map(|(gpu, said)| (*gpu, said.clone())));
        let Some(node) = &facts.node else { return };
        for unit in units(node) {
            let key = (unit.gpu, unit.instance);
            let (Some((part, at)), Some(gpu)) = (said.busy.get(&key), said.gpus.get(&unit.gpu)) else {
                continue;
            };
            let fresh = || Kept {
                parts: unit.parts.clone(),
                meter: Meter::default(),
                asked: None,
                looks: BTreeMap::new(),
                counted: BTreeMap::new(),
                ahead: Busy(0),
                tenants: Vec::new(),
                last: None,
            };
            let kept = self.units.entry(key).or_insert_with(fresh);
            let shares = facts.shares.values().flat_map(|(_, shares)| shares);
            let tenants = tenants(&unit, held.iter().chain(shares));
            kept.take(tenants, &unit, gpu, (*part, *at), whose);
            kept.looks = facts.shares.iter().map(|(door, (looks, _))| (door.clone(), *looks)).collect();
        }
    }

    /// What is told of all of it.
    pub(crate) fn rows(&self, node: &NodeGpus) -> UsageRows {
        let mut rows = UsageRows::default();
        for gpu in node.gpus.iter().filter(|gpu| !gpu.lost) {
            let first = rows.containers.len();
            let units = self.units.iter().filter(|((index, _), _)| *index == gpu.gpu.index);
            for ((_, instance), kept) in units {
                let row = kept.rows(gpu, *instance, &mut rows.containers);
                rows.units.push(row);
            }
            let only = (rows.containers.len() == first + 1).then_some(first);
            rows.devices.extend(self.gpus.get(&gpu.gpu.index).map(|said| device_row(gpu, said, only)));
        }
        rows
    }
}

/// Doors with shares on a unit, and how often each has looked.
fn doors<'a>(facts: &'a Facts, unit: &Unit) -> Vec<(&'a str, u64)> {
    let counts = |tenant: &Tenant| unit.parts.contains(&tenant.part) && !tenant.counted.is_empty();
    let doors = facts.shares.iter().filter(|(_, (_, shares))| shares.iter().any(counts));
    doors.map(|(door, (looks, _))| (door.as_str(), *looks)).collect()
}

impl Kept {
    fn take(
        &mut self,
        tenants: Vec<Tenant>,
        unit: &Unit,
        gpu: &GpuSaid,
        (part, at): BusyUntil,
        whose: &BTreeMap<u32, Whose>,
    ) {
        let elapsed = match (at, self.asked) {
            (Some(now), Some(before)) => now.saturating_duration_since(before),
            _ => Duration::ZERO,
        };
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        // Of the time before the first look nothing is known.
        let busy = part.filter(|_| !elapsed.is_zero()).map(|part| {
            let busy = u128::from(nanoseconds) * u128::from(part.0) / u128::from(BusyPart::ALL.0);
            Busy(u64::try_from(busy).unwrap_or(u64::MAX))
        });
        let (ticks, strangers) = self.ticks(unit, &tenants, &gpu.processes, whose);
        let shown: u64 = ticks.iter().map(|tick| tick.memory.0).sum::<u64>() + strangers.memory.0;
        let memory = match (unit.instance, gpu.memory) {
            (None, Some(memory)) => memory.used.0,
            _ => shown,
        };
        let tick = Tick {
            busy,
            memory: Bytes(memory),
            at_once: tenants.iter().any(|tenant| tenant.mechanism == Mechanism::Mps),
            tenants: ticks,
            strangers,
            ahead: self.ahead,
        };
        let split = split(&tick);
        let keys: Vec<Key> =
            tenants.iter().map(|tenant| (tenant.holder.clone(), tenant.part.clone())).collect();
        self.meter.add(&keys, &split);
        self.ahead = split.ahead;
        self.asked = at;
        self.last = Some(Last { split, elapsed, told: busy.is_some(), memory });
        self.tenants = tenants;
    }

    /// What each tenant did, as far as it can be told of it alone.
    fn ticks(
        &mut self,
        unit: &Unit,
        tenants: &[Tenant],
        processes: &[GpuProcess],
        whose: &BTreeMap<u32, Whose>,
    ) -> (Vec<TenantTick>, Strangers) {
        let mut counted = BTreeMap::new();
        let mut ticks: Vec<TenantTick> = Vec::new();
        for tenant in tenants {
            let mut since = 0u64;
            for share in &tenant.counted {
                // What a share counted before it was first seen is of a time that nobody divided.
                let before = self.counted.get(&share.share).copied().unwrap_or(share.busy);
                since = since.saturating_add(share.busy.saturating_sub(before));
                counted.insert(share.share.clone(), share.busy);
            }
            ticks.push(TenantTick {
                promised: tenant.promised,
                counted: (!tenant.counted.is_empty()).then_some(Busy(since)),
                ..TenantTick::default()
            });
        }
        self.counted = counted;
        let mut strangers = Strangers::default();
        let inside = processes.iter().filter(|process| process.gpu_instance == unit.instance);
        let mut seen = BTreeSet::new();
        for process in inside.filter(|process| seen.insert(process.pid)) {
            let bytes = process.memory.unwrap_or(Bytes(0));
            match whose.get(&process.pid) {
                Some(Whose::Container(holder)) => {
                    match tenants.iter().position(|tenant| tenant.holder == *holder) {
                        Some(at) => {
                            ticks[at].processes += 1;
                            ticks[at].memory.0 += bytes.0;
                        }
                        None => {
                            strangers.processes += 1;
                            strangers.memory.0 += bytes.0;
                        }
                    }
                }
                // A server works for its clients.
                Some(Whose::Ours) => strangers.memory.0 += bytes.0,
                Some(Whose::Stranger) => {
                    strangers.processes += 1;
                    strangers.memory.0 += bytes.0;
                }
                // It may be anybody's, so everybody may have worked.
                Some(Whose::Unknown) | None => {
                    ticks.iter_mut().for_each(|tick| tick.processes = tick.processes.max(1));
                }
            }
        }
        (ticks, strangers)
    }

    fn rows(
        &self,
        gpu: &NodeGpu,
        instance: Option<GpuInstanceId>,
        containers: &mut Vec<ContainerRow>,
    ) -> UnitRow {
        let first = containers.len();
        let part = |busy: Busy, last: &Last| match last.elapsed.as_secs_f64() {
            0.0 => 0.0,
            elapsed => busy.seconds() / elapsed,
        };
        let last = self.last.as_ref();
        let parts = last.map(|last| &last.split.parts);
        let metered: BTreeMap<&Key, _> = self.meter.tenants().collect();
        for (at, tenant) in self.tenants.iter().enumerate() {
            let metered = metered.get(&(tenant.holder.clone(), tenant.part.clone()));
            let now = parts.and_then(|parts| parts.get(at)?.busy).zip(last);
            let seconds = metered.into_iter().flat_map(|metered| &metered.busy);
            containers.push(ContainerRow {
                holder: tenant.holder.clone(),
                uuid: tenant.part.clone(),
                mechanism: tenant.mechanism.word(&tenant.part),
                seconds: seconds.map(|(evidence, busy)| (*evidence, busy.seconds())).collect(),
                now: now.map(|((busy, _), last)| part(busy, last)),
                how: now.map(|((_, evidence), _)| evidence),
                memory: metered.map_or(0, |metered| metered.memory.0),
                memory_limit: tenant.memory_limit.or_else(|| memory_of(gpu, &tenant.part)),
                part_memory: memory_of(gpu, &tenant.part),
                shares: tenant.shares,
                promised: tenant.promised.map(|promised| f64::from(promised) / 1000.0),
                throttled: tenant.throttled,
                denied: tenant.denied,
            });
        }
        let mig = gpu.migs.iter().find(|mig| Some(mig.device.gpu_instance) == instance);
        let rest = self.meter.rest();
        UnitRow {
            uuid: self.parts.first().cloned().unwrap_or_default(),
            gpu: gpu.gpu.index.0,
            instance: mig.map(|mig| (mig.device.gpu_instance.0, mig.profile.to_string())),
            seconds: self.meter.busy().seconds(),
            former: self.meter.gone().seconds(),
            unattributed: rest.busy.seconds(),
            now: last.filter(|last| last.told).map(|last| part(last.split.busy(), last)),
            rest_now: last.map_or(0.0, |last| part(last.split.rest.busy, last)),
            rest_memory: rest.memory.0,
            memory: last.map_or(0, |last| last.memory),
            memory_total: self.parts.first().and_then(|part| memory_of(gpu, part)),
            containers: (first..containers.len()).collect(),
        }
    }
}

/// Bytes of a part.
fn memory_of(gpu: &NodeGpu, part: &str) -> Option<u64> {
    if gpu.gpu.uuid.0 == part {
        return Some(gpu.gpu.memory.0);
    }
    let mig = gpu.migs.iter().find(|mig| mig.device.uuid.0 == part)?;
    Some(mig.device.memory.0 << 20)
}

fn device_row(gpu: &NodeGpu, said: &GpuSaid, only: Option<usize>) -> DeviceRow {
    DeviceRow {
        uuid: gpu.gpu.uuid.0.clone(),
        gpu: gpu.gpu.index.0,
        minor: gpu.gpu.minor,
        pci: gpu.gpu.address.to_string(),
        model: gpu.gpu.name.clone(),
        memory: said.memory.map(|memory| {
            let free = memory.total.0.saturating_sub(memory.used.0).saturating_sub(memory.reserved.0);
            (memory.used.0, free, memory.reserved.0)
        }),
        readings: said.readings,
        memory_percent: said.utilisation.map(|use_| use_.memory_percent),
        only,
    }
}
