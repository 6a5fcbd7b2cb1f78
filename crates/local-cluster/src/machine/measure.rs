//! What is used of a machine's GPUs, and how that looks.

use super::Machine;
use crate::serve::{Wish, served};
use crate::tenant::{Given, Held, Stage, Tenant, Use};
use carve_economics::{Account, GpuTime, Parts, SliceTime, dominant, replica, stranded};
use carve_fleet_picture::{Evidence, GpuPicture, GpuState, Instance, Mechanism, Slice};
use carve_slicing::{Mechanism as Sharing, NodeGpu, PartId};
use std::collections::BTreeMap;

/// What was promised to a container, and of what.
#[derive(Debug, Clone)]
pub(super) struct Promise {
    pub(super) gpu: usize,
    /// The GPU, or the MIG device, whose time is shared.
    pub(super) unit: PartId,
    is_mig: bool,
    pub(super) mechanism: Mechanism,
    /// The unit's part of the GPU's compute.
    pub(super) unit_part: f64,
    /// Of the unit's time: what it counts as its own, and the most it may have.
    pub(super) own: f64,
    most: f64,
    /// MiB that count as its own.
    own_memory: u64,
    /// What was said to it: part of the GPU's compute, and MiB.
    compute: Option<f64>,
    memory: Option<u64>,
    weight: Parts,
}

/// Millionths of something.
fn parts(part: f64) -> Parts {
    Parts::of((part.clamp(0.0, 1.0) * 1e6).round() as u64, 1_000_000)
}

impl Machine {
    pub(super) fn promise(&self, held: &Held) -> Option<Promise> {
        match &held.given {
            Given::Part { gpu, memory, compute, burst } => {
                let place = self.gpus.gpus.iter().position(|one| one.gpu.uuid.0 == *gpu)?;
                let all = self.gpus.gpus[place].gpu.memory.0 >> 20;
                let share = f64::from(*compute) / 1000.0;
                let whole = *compute >= 1000;
                Some(Promise {
                    gpu: place,
                    unit: self.gpus.gpus[place].part(),
                    is_mig: false,
                    mechanism: if whole { Mechanism::Exclusive } else { Mechanism::Limiter },
                    unit_part: 1.0,
                    own: if *compute == 0 { 0.5 } else { share },
                    most: if *compute == 0 || *burst { 1.0 } else { share },
                    own_memory: *memory,
                    compute: (*compute > 0).then_some(share),
                    memory: Some(*memory),
                    weight: dominant(Parts::of(*memory, all.max(1)), parts(share)),
                })
            }
            Given::Device { .. } => {
                let device = held.device.as_ref()?;
                let place = self.gpus.gpus.iter().position(|one| one.gpu.index == device.gpu)?;
                let gpu = &self.gpus.gpus[place];
                let mig = gpu.migs.iter().find(|mig| mig.part() == device.part);
                let all = gpu.gpu.memory.0 >> 20;
                let (unit_part, unit_memory) = match mig {
                    Some(mig) => {
                        let slices =
                            self.host.profile_table(device.gpu).map_or(7, |table| table.compute_slices());
                        (f64::from(mig.device.compute_slices) / f64::from(slices.max(1)), mig.device.memory.0)
                    }
                    None => (1.0, all),
                };
                let replicas = u32::try_from(device.share.replicas).unwrap_or(u32::MAX).max(1);
                let each = 1.0 / f64::from(replicas);
                let (mechanism, most) = match device.share.mechanism {
                    Sharing::Exclusive if mig.is_some() => (Mechanism::Mig, 1.0),
                    Sharing::Exclusive => (Mechanism::Exclusive, 1.0),
                    Sharing::TimeSlicing => (Mechanism::TimeSlicing, 1.0),
                    Sharing::Mps => (Mechanism::Mps, each),
                };
                // Who takes turns is promised nothing.
                let promised = mechanism != Mechanism::TimeSlicing;
                let unit_weight = dominant(Parts::of(unit_memory, all.max(1)), parts(unit_part));
                let weight = Parts::of(
                    u64::from(unit_weight.0) * u64::from(replica(replicas).0),
                    u64::from(Parts::ALL.0) * u64::from(Parts::ALL.0),
                );
                Some(Promise {
                    gpu: place,
                    unit: device.part.clone(),
                    is_mig: mig.is_some(),
                    mechanism,
                    unit_part,
                    own: each,
                    most,
                    own_memory: unit_memory / u64::from(replicas),
                    compute: promised.then_some(unit_part * each),
                    memory: promised.then_some(unit_memory / u64::from(replicas)),
                    weight,
                })
            }
        }
    }

    /// Looks what programs do now.
    pub(crate) fn measure(&mut self, now: i64) {
        if self.programs.is_some() {
            return self.observe(now);
        }
        if self.tenants.is_empty() {
            return;
        }
        self.changed = true;
        let mut units: BTreeMap<PartId, Vec<(String, usize, Promise)>> = BTreeMap::new();
        for (uid, tenant) in &self.tenants {
            for (place, held) in tenant.held.iter().enumerate() {
                if let Some(promise) = self.promise(held) {
                    units.entry(promise.unit.clone()).or_default().push((uid.clone(), place, promise));
                }
            }
        }
        for sharing in units.into_values() {
            let wants = |uid: &str, promise: &Promise| {
                let tenant = &self.tenants[uid];
                tenant.age(now).map_or(0.0, |age| tenant.behaviour.wants_compute(age) * promise.own)
            };
            let wishes: Vec<Wish> = sharing
                .iter()
                .map(|(uid, _, promise)| Wish { wants: wants(uid, promise), most: promise.most })
                .collect();
            for ((uid, place, promise), (got, wish)) in
                sharing.iter().zip(served(&wishes).into_iter().zip(&wishes))
            {
                let Some(tenant) = self.tenants.get_mut(uid) else { continue };
                let age = tenant.age(now);
                let memory =
                    age.map_or(0.0, |age| tenant.behaviour.wants_memory(age) * promise.own_memory as f64);
                let how = match promise.mechanism {
                    Mechanism::Mps => Evidence::Quota,
                    Mechanism::Limiter => Evidence::Limiter,
                    _ => Evidence::Measured,
                };
                tenant.held[*place].use_ = Use {
                    compute: got * promise.unit_part,
                    of_own: if promise.own > 0.0 { (got / promise.own).min(1.0) } else { 0.0 },
                    memory: memory as u64,
                    throttled: if wish.wants > got + 1e-9 { (wish.wants - got) / wish.wants } else { 0.0 },
                    how: age.map(|_| how),
                    mechanism: promise.mechanism,
                };
            }
        }
    }

    /// Its GPUs as people see them.
    pub(crate) fn picture(&self) -> Vec<GpuPicture> {
        let withheld = self.withheld();
        let mut pictures: Vec<GpuPicture> =
            self.gpus.gpus.iter().map(|gpu| self.empty(gpu, &withheld)).collect();
        for tenant in self.tenants.values() {
            for held in &tenant.held {
                let Some(promise) = self.promise(held) else { continue };
                let picture = &mut pictures[promise.gpu];
                let used = held.use_;
                picture.memory_used += used.memory;
                picture.busy = Some(picture.busy.unwrap_or(0.0) + used.compute);
                picture.slices.push(Slice {
                    pod: tenant.pod(),
                    container: held.container.clone(),
                    workload: tenant.workload.clone(),
                    mechanism: promise.mechanism,
                    instance: promise.is_mig.then(|| promise.unit.as_str().to_owned()),
                    compute: promise.compute,
                    memory: promise.memory,
                    compute_used: used.how.map(|_| rounded(used.compute)),
                    memory_used: used.memory,
                    how: used.how,
                    throttled: rounded(used.throttled),
                    since: since(tenant),
                });
            }
        }
        if self.programs.is_some() {
            self.observed.show(&mut pictures);
        }
        for picture in &mut pictures {
            picture.busy = picture.busy.map(rounded);
            picture
                .slices
                .sort_by(|one, other| (&one.pod, &one.container).cmp(&(&other.pod, &other.container)));
        }
        pictures
    }

    fn empty(&self, gpu: &NodeGpu, withheld: &BTreeMap<String, String>) -> GpuPicture {
        let uuid = &gpu.gpu.uuid.0;
        let table = self.host.profile_table(gpu.gpu.index).ok();
        let placed = self.host.gpu_instances(gpu.gpu.index).unwrap_or_default();
        let instance = |mig: &carve_slicing::NodeMig| {
            let at = placed.iter().find(|one| one.id == mig.device.gpu_instance)?.placement;
            Some(Instance {
                uuid: mig.device.uuid.0.clone(),
                profile: mig.profile.to_string(),
                start: at.start,
                size: at.size,
                memory: mig.device.memory.0,
            })
        };
        let mut instances: Vec<Instance> = gpu.migs.iter().filter_map(instance).collect();
        instances.sort_by_key(|one| one.start);
        let cutting = self.cutting.as_ref().is_some_and(|cutting| cutting.gpus.contains(uuid));
        GpuPicture {
            uuid: uuid.clone(),
            index: gpu.gpu.index.0,
            product: gpu.gpu.name.clone(),
            memory: gpu.gpu.memory.0 >> 20,
            state: match (gpu.lost, cutting) {
                (true, _) => GpuState::Lost,
                (false, true) => GpuState::Cutting,
                (false, false) => GpuState::Ok,
            },
            why: withheld.get(uuid).cloned().unwrap_or_default(),
            slots: table.filter(|_| gpu.mig_enabled).map(|table| table.slots()),
            instances,
            busy: (!gpu.lost).then_some(0.0),
            ..GpuPicture::default()
        }
    }

    /// Its GPUs as those who pay see them.
    pub(crate) fn times(&self) -> Vec<GpuTime> {
        let mut slices: Vec<Vec<SliceTime>> = self.gpus.gpus.iter().map(|_| Vec::new()).collect();
        for tenant in self.tenants.values() {
            for held in &tenant.held {
                let Some(promise) = self.promise(held) else { continue };
                slices[promise.gpu].push(SliceTime {
                    account: Account {
                        namespace: tenant.namespace.clone(),
                        workload: tenant.workload.clone(),
                        pod: tenant.name.clone(),
                        mechanism: mechanism(promise.mechanism),
                        within_mig: promise.is_mig && promise.mechanism != Mechanism::Mig,
                    },
                    weight: promise.weight,
                    used: Some(parts(held.use_.of_own)),
                });
            }
        }
        let withheld = self.withheld();
        let gpus = self.gpus.gpus.iter().zip(slices);
        gpus.map(|(gpu, slices)| match slices.is_empty() && withheld.contains_key(&gpu.gpu.uuid.0) {
            true => GpuTime::Withheld,
            false => GpuTime::Serving { stranded: self.stranded(gpu, &slices), slices },
        })
        .collect()
    }

    /// What nobody can be given of the rest of a GPU.
    fn stranded(&self, gpu: &NodeGpu, slices: &[SliceTime]) -> Parts {
        let (mut memory, mut compute) = (0_u64, 0.0_f64);
        if gpu.mig_enabled {
            let of = self.host.profile_table(gpu.gpu.index).map_or(7, |table| table.compute_slices());
            for mig in &gpu.migs {
                memory += mig.device.memory.0;
                compute += f64::from(mig.device.compute_slices) / f64::from(of.max(1));
            }
            let given = gpu.migs.iter().map(|mig| {
                let share = f64::from(mig.device.compute_slices) / f64::from(of.max(1));
                dominant(Parts::of(mig.device.memory.0 << 20, gpu.gpu.memory.0), parts(share)).0
            });
            let given = Parts(given.fold(0, u32::saturating_add));
            let memory = Parts::of(memory << 20, gpu.gpu.memory.0);
            return stranded(given.rest(), memory.rest(), parts(compute).rest());
        }
        for (_, given) in self.given() {
            if let Given::Part { gpu: uuid, memory: more, compute: share, .. } = given
                && *uuid == gpu.gpu.uuid.0
            {
                memory += more;
                compute += f64::from(*share) / 1000.0;
            }
        }
        if memory == 0 || compute == 0.0 {
            return Parts::NONE;
        }
        let given = Parts(slices.iter().fold(0, |sum, slice| sum.saturating_add(slice.weight.0)));
        stranded(given.rest(), Parts::of(memory << 20, gpu.gpu.memory.0).rest(), parts(compute).rest())
    }
}

/// Thousandths are enough for people, and change less often.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

fn since(tenant: &Tenant) -> i64 {
    match tenant.stage {
        Stage::Running { since } => since / 1000,
        Stage::Starting { until } | Stage::Ending { until } => until / 1000,
    }
}

fn mechanism(mechanism: Mechanism) -> carve_gpu_model::Mechanism {
    match mechanism {
        Mechanism::Exclusive => carve_gpu_model::Mechanism::Exclusive,
        Mechanism::TimeSlicing => carve_gpu_model::Mechanism::TimeSlicing,
        Mechanism::Mps => carve_gpu_model::Mechanism::Mps,
        Mechanism::Mig => carve_gpu_model::Mechanism::Mig,
        Mechanism::Limiter => carve_gpu_model::Mechanism::Limiter,
    }
}
