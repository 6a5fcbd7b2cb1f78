//! Which parts of a node must not be handed out, and when they may be again.
//!
//! ```text
//!              recoverable XID, failed probe                reset, enough good probes,
//!   healthy ───────────────────────────────────▶ sick ───▶ MIG device created anew ─────▶ healthy
//!      │       fatal XID
//!      ├───────────────────────────────────────▶ fatal ──▶ reset ───────────────────────▶ healthy
//!      │                                           │ lost and found again
//!      │                                           └─────▶ sick
//!      │       lost                                found again
//!      └───────────────────────────────────────▶ lost ───▶ as it was before, to be proved anew
//! ```
//!
//! A GPU is lost or not, beside any number of faults; a part is healthy when nothing of it applies. An error of the
//! whole GPU is one of every MIG device on it, and shares of a part have the part's health. An error that the driver
//! confines to an instance marks the MIG devices in there alone. Errors of applications mark nothing.

mod gpu;
mod records;
mod report;
mod settings;

use crate::{NodeGpus, PartId};
use carve_gpu_host::GpuEvent;
use carve_gpu_model::{GpuUuid, Xid, XidClass};
use gpu::GpuHealth;
use std::collections::BTreeMap;

pub use gpu::{Fault, FaultCause};
pub use records::{GpuRecord, HealthRecords, MpsRecord};
pub use report::{Cause, Health, HealthChange, HealthNews, Remark, SickReason};
pub use settings::{HealthSettings, XidVerdict};

/// Seconds on a clock that outlives the agent, such as those since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seconds(pub u64);

/// The how-manieth thing that the book was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

/// What a probe of a GPU found.
///
/// A good one is more than an answer: the driver must name no recovery action for the GPU, where it can tell (NVML does
/// from driver 565 on). Otherwise a GPU that answers questions and waits for its reset would pass for a well one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// The GPU answered and needs nothing.
    Good,
    /// It did not, or needs something: what.
    Bad(String),
}

/// How the MPS daemon of a part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MpsState {
    /// It serves, or the part needs none.
    Ready,
    /// It does not: why.
    NotReady(String),
}

/// The health of every part on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthBook {
    settings: HealthSettings,
    sequence: Sequence,
    gpus: BTreeMap<GpuUuid, GpuHealth>,
}

impl HealthBook {
    /// Everything that is there is healthy; what is lost is not.
    pub fn new(settings: HealthSettings, node: &NodeGpus) -> Self {
        let sequence = Sequence::default();
        let one = |gpu: &crate::NodeGpu| (gpu.gpu.uuid.clone(), GpuHealth::new(gpu, sequence));
        HealthBook { settings, sequence, gpus: node.gpus.iter().map(one).collect() }
    }

    /// How a part is. One that the book does not know is not to be handed out.
    pub fn health_of(&self, part: &PartId) -> Health {
        let gpu = self.gpus.values().find(|gpu| gpu.parts.contains_key(part));
        let absent = || Health::Unhealthy { reason: SickReason::Absent, since: self.sequence };
        gpu.map_or_else(absent, |gpu| gpu.health_of(part))
    }

    /// How every part is.
    pub fn all(&self) -> BTreeMap<PartId, Health> {
        let each = self.gpus.values().flat_map(|gpu| gpu.parts.keys().map(move |part| (gpu, part)));
        each.map(|(gpu, part)| (part.clone(), gpu.health_of(part))).collect()
    }

    /// The driver reported an error.
    pub fn xid(&mut self, event: &GpuEvent, at: Seconds) -> HealthNews {
        let xid = Xid(event.xid);
        self.told(Cause::Xid(xid), |book| book.mark(event, xid, at))
    }

    /// The driver has lost a GPU.
    pub fn lost(&mut self, gpu: &GpuUuid) -> HealthNews {
        self.told(Cause::Lost, |book| {
            let now = book.sequence;
            book.known(gpu).map(|gpu| gpu.lose(now))
        })
    }

    /// A GPU that was lost answers again.
    pub fn found(&mut self, gpu: &GpuUuid, at: Seconds) -> HealthNews {
        self.told(Cause::Found, |book| book.known(gpu).map(|gpu| gpu.find(at)))
    }

    /// A GPU was probed.
    pub fn probe(&mut self, gpu: &GpuUuid, probe: Probe, at: Seconds) -> HealthNews {
        self.told(Cause::Probe, |book| {
            let (now, settings) = (book.sequence, book.settings.clone());
            book.known(gpu).map(|gpu| match probe {
                Probe::Good => gpu.good_probe(&settings, at),
                Probe::Bad(why) => gpu.bad_probe(why, &settings, now, at),
            })
        })
    }

    /// A GPU was reset. One that is lost stays so until it is found.
    pub fn reset(&mut self, gpu: &GpuUuid) -> HealthNews {
        self.told(Cause::Reset, |book| book.known(gpu).map(|gpu| gpu.faults.clear()))
    }

    /// The driver was loaded anew, by a restart of the machine for example: every GPU was reset.
    pub fn driver_reloaded(&mut self) -> HealthNews {
        self.told(Cause::DriverReloaded, |book| {
            book.gpus.values_mut().for_each(|gpu| gpu.faults.clear());
            Ok(())
        })
    }

    /// A MIG device was destroyed and created anew, under the same name: drivers derive the name from the place.
    pub fn recreated(&mut self, part: &PartId) -> HealthNews {
        self.told(Cause::Recreated, |book| book.holding(part).map(|gpu| gpu.recreate(part)))
    }

    /// The MPS daemon of a part serves or does not. A part that is no longer shared by MPS is [`MpsState::Ready`].
    pub fn mps(&mut self, part: &PartId, state: MpsState) -> HealthNews {
        self.told(Cause::Mps, |book| {
            let now = book.sequence;
            let gpu = book.holding(part)?;
            match state {
                MpsState::Ready => {
                    gpu.mps.remove(part);
                }
                MpsState::NotReady(why) => {
                    // The first words stay, so that a daemon that is down is told once.
                    gpu.mps.entry(part.clone()).or_insert((now, why));
                }
            }
            Ok(())
        })
    }

    /// The node was read anew: GPUs replaced, lost or found, MIG devices cut otherwise.
    ///
    /// A GPU that the reading does not list is forgotten with all its faults, as one that was replaced; a reading that
    /// went through [`NodeGpus::remembering`] lists the ones that a driver merely dropped. MIG devices that are gone take
    /// their faults along.
    pub fn node_changed(&mut self, node: &NodeGpus, at: Seconds) -> HealthNews {
        self.told(Cause::NodeChanged, |book| {
            let now = book.sequence;
            book.gpus.retain(|uuid, _| node.gpus.iter().any(|gpu| gpu.gpu.uuid == *uuid));
            for gpu in &node.gpus {
                book.gpus
                    .entry(gpu.gpu.uuid.clone())
                    .and_modify(|known| known.update(gpu, now, at))
                    .or_insert_with(|| GpuHealth::new(gpu, now));
            }
            Ok(())
        })
    }

    /// Does something and says what came of it.
    fn told(&mut self, cause: Cause, act: impl FnOnce(&mut Self) -> Result<(), Remark>) -> HealthNews {
        let before = self.all();
        self.sequence.0 += 1;
        let remarks = act(self).err().into_iter().collect();
        let mut changes = Vec::new();
        for (uuid, gpu) in &self.gpus {
            for part in gpu.parts.keys() {
                let to = gpu.health_of(part);
                if let Some(from) = before.get(part).filter(|from| **from != to) {
                    let (gpu, part, from) = (uuid.clone(), part.clone(), from.clone());
                    changes.push(HealthChange { gpu, part, from, to, cause });
                }
            }
        }
        HealthNews { changes, remarks }
    }

    fn mark(&mut self, event: &GpuEvent, xid: Xid, at: Seconds) -> Result<(), Remark> {
        let now = self.sequence;
        // After a GPU dropped out, another may have taken its place in the order while it is remembered.
        let at_place = self.gpus.iter().filter(|(_, gpu)| gpu.index == event.gpu);
        let uuid = at_place.min_by_key(|(_, gpu)| gpu.lost.is_some()).map(|(uuid, _)| uuid.clone());
        let uuid = uuid.ok_or(Remark::UnknownGpu { xid, gpu: event.gpu })?;
        let class = match self.settings.verdict(xid) {
            XidVerdict::Sick(class) => class,
            XidVerdict::Harmless(class) => return Err(Remark::Harmless { xid, gpu: uuid, class }),
            XidVerdict::SwitchedOff => return Err(Remark::SwitchedOff { xid, gpu: uuid }),
        };
        let gpu = self.known(&uuid)?;
        // A GPU that is off the bus is off for all its instances, whichever of them noticed.
        let instance = event.gpu_instance.filter(|_| gpu.mig_enabled && class < XidClass::Fatal);
        let Some(instance) = instance else {
            gpu.note(FaultCause::Xid(xid), None, now, at);
            return Ok(());
        };
        let parts = gpu.within(instance, event.compute_instance);
        if parts.is_empty() {
            let (gpu_instance, compute_instance) = (instance, event.compute_instance);
            return Err(Remark::UnknownInstance { xid, gpu: uuid, gpu_instance, compute_instance });
        }
        for part in parts {
            gpu.note(FaultCause::Xid(xid), Some(part), now, at);
        }
        Ok(())
    }

    fn known(&mut self, gpu: &GpuUuid) -> Result<&mut GpuHealth, Remark> {
        self.gpus.get_mut(gpu).ok_or_else(|| Remark::NotHere(gpu.to_string()))
    }

    fn holding(&mut self, part: &PartId) -> Result<&mut GpuHealth, Remark> {
        let mut gpus = self.gpus.values_mut();
        gpus.find(|gpu| gpu.parts.contains_key(part)).ok_or_else(|| Remark::NotHere(part.to_string()))
    }
}
