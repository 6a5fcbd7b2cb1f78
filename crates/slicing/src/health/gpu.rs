//! The health of one GPU and of the parts on it.

use super::{Health, HealthSettings, Seconds, Sequence, SickReason, XidVerdict};
use crate::{NodeGpu, PartId};
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId, Xid, XidClass};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What is wrong with a GPU or a MIG device until something heals it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub cause: FaultCause,
    /// The MIG device it is confined to; without one it is about the whole GPU.
    pub part: Option<PartId>,
    /// The input with which it began.
    pub since: Sequence,
    /// Whether good probes heal it.
    pub provable: bool,
    /// Good probes in a row so far.
    pub good_probes: u32,
    /// When it began, or the last good probe counted.
    pub counted_at: Seconds,
}

/// What a fault comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultCause {
    /// An error that the driver reported.
    Xid(Xid),
    /// A probe that failed, in the words of the first that did.
    Probe(String),
}

impl Fault {
    fn class(&self) -> XidClass {
        match &self.cause {
            FaultCause::Xid(xid) => xid.class().max(XidClass::Recoverable),
            FaultCause::Probe(_) => XidClass::Recoverable,
        }
    }

    fn reason(&self) -> SickReason {
        match &self.cause {
            FaultCause::Xid(xid) => {
                SickReason::Xid { xid: *xid, class: self.class(), confined: self.part.is_some() }
            }
            FaultCause::Probe(why) => SickReason::ProbeFailed(why.clone()),
        }
    }

    fn covers(&self, part: &PartId) -> bool {
        self.part.as_ref().is_none_or(|confined| confined == part)
    }

    fn start_proof_again(&mut self, at: Seconds) {
        self.good_probes = 0;
        self.counted_at = at;
    }

    /// Counts a good probe and says whether it was the last one needed.
    fn heals(&mut self, settings: &HealthSettings, at: Seconds) -> bool {
        if at < self.counted_at {
            // The clock was put back: count from here instead of waiting until it has caught up.
            self.counted_at = at;
            return false;
        }
        if !self.provable || at.0 - self.counted_at.0 < settings.probe_spacing.0 {
            return false;
        }
        self.counted_at = at;
        self.good_probes = self.good_probes.saturating_add(1);
        let needed = match self.cause {
            // What a probe found wrong, probes can find right, whatever else the driver can tell.
            FaultCause::Probe(_) => settings.good_probes.max(HealthSettings::default().good_probes),
            FaultCause::Xid(_) => settings.good_probes,
        };
        needed > 0 && self.good_probes >= needed
    }
}

/// Where a MIG device is on its GPU.
type Instance = (GpuInstanceId, ComputeInstanceId);

/// One GPU: lost or there, what is wrong with it, and the parts it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GpuHealth {
    pub(super) index: GpuIndex,
    pub(super) mig_enabled: bool,
    /// Since when it is lost.
    pub(super) lost: Option<Sequence>,
    /// The GPU itself, without an instance, and its MIG devices.
    pub(super) parts: BTreeMap<PartId, Option<Instance>>,
    /// In the order in which they began.
    pub(super) faults: Vec<Fault>,
    /// Parts whose MPS daemon does not serve: since when, and why.
    pub(super) mps: BTreeMap<PartId, (Sequence, String)>,
}

impl GpuHealth {
    pub(super) fn new(node: &NodeGpu, now: Sequence) -> Self {
        GpuHealth {
            index: node.gpu.index,
            mig_enabled: node.mig_enabled,
            lost: node.lost.then_some(now),
            parts: parts(node),
            faults: Vec::new(),
            mps: BTreeMap::new(),
        }
    }

    pub(super) fn health_of(&self, part: &PartId) -> Health {
        let sick = |reason, since| Health::Unhealthy { reason, since };
        if let Some(since) = self.lost {
            return sick(SickReason::GpuLost, since);
        }
        let faults = self.faults.iter().filter(|fault| fault.covers(part));
        if let Some(worst) = faults.min_by_key(|fault| (Reverse(fault.class()), fault.since)) {
            return sick(worst.reason(), worst.since);
        }
        match self.mps.get(part) {
            Some((since, why)) => sick(SickReason::MpsNotReady(why.clone()), *since),
            None => Health::Healthy,
        }
    }

    /// The MIG devices in an instance.
    pub(super) fn within(&self, instance: GpuInstanceId, compute: Option<ComputeInstanceId>) -> Vec<PartId> {
        let meant = |place: &Option<Instance>| {
            place.is_some_and(|(gpu, own)| gpu == instance && compute.is_none_or(|compute| compute == own))
        };
        self.parts.iter().filter(|(_, place)| meant(place)).map(|(part, _)| part.clone()).collect()
    }

    /// Notes a fault. The same one again does not make two, but spoils the proof so far.
    pub(super) fn note(&mut self, cause: FaultCause, part: Option<PartId>, now: Sequence, at: Seconds) {
        let same = |fault: &&mut Fault| {
            fault.part == part
                && match (&fault.cause, &cause) {
                    (FaultCause::Xid(known), FaultCause::Xid(xid)) => known == xid,
                    (FaultCause::Probe(_), FaultCause::Probe(_)) => true,
                    _ => false,
                }
        };
        if let Some(known) = self.faults.iter_mut().find(same) {
            known.start_proof_again(at);
            known.provable = known.class() < XidClass::Fatal;
            return;
        }
        let mut fault = Fault { cause, part, since: now, provable: true, good_probes: 0, counted_at: at };
        fault.provable = fault.class() < XidClass::Fatal;
        self.faults.push(fault);
    }

    pub(super) fn lose(&mut self, now: Sequence) {
        self.lost.get_or_insert(now);
    }

    /// A GPU that was away and came back has been set up anew; what was fatal may now be disproved by probes.
    pub(super) fn find(&mut self, at: Seconds) {
        if self.lost.take().is_some() {
            for fault in &mut self.faults {
                fault.start_proof_again(at);
                fault.provable = true;
            }
        }
    }

    pub(super) fn good_probe(&mut self, settings: &HealthSettings, at: Seconds) {
        // An answer of a GPU that is known to be lost proves nothing; it must be found first.
        if self.lost.is_none() {
            self.faults.retain_mut(|fault| !fault.heals(settings, at));
        }
    }

    pub(super) fn bad_probe(&mut self, why: String, settings: &HealthSettings, now: Sequence, at: Seconds) {
        for fault in &mut self.faults {
            fault.start_proof_again(at);
        }
        if settings.probes_act {
            self.note(FaultCause::Probe(why), None, now, at);
        }
    }

    pub(super) fn recreate(&mut self, part: &PartId) {
        self.faults.retain(|fault| fault.part.as_ref() != Some(part));
    }

    /// Takes a new reading of the same GPU.
    pub(super) fn update(&mut self, node: &NodeGpu, now: Sequence, at: Seconds) {
        self.index = node.gpu.index;
        if node.lost {
            // The reading of a lost GPU tells nothing of its MIG devices.
            self.lose(now);
            return;
        }
        self.find(at);
        self.mig_enabled = node.mig_enabled;
        let before = std::mem::replace(&mut self.parts, parts(node));
        // Under the same name in another place it is another MIG device. Of one that was recorded before the GPU was
        // lost, the place is not known.
        let stays = |part: &PartId| match (before.get(part), self.parts.get(part)) {
            (Some(before), Some(now)) => before == now,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        self.faults.retain(|fault| fault.part.as_ref().is_none_or(stays));
        self.mps.retain(|part, _| self.parts.contains_key(part));
    }

    /// Takes what was recorded before, as far as it still is about something that is here.
    pub(super) fn remember(&mut self, faults: &[Fault], settings: &HealthSettings) {
        // A lost GPU does not tell its MIG devices; what is known of them waits until it is found.
        let lost = self.lost.is_some();
        let here =
            |fault: &&Fault| lost || fault.part.as_ref().is_none_or(|part| self.parts.contains_key(part));
        let wanted = |fault: &&Fault| match fault.cause {
            FaultCause::Xid(xid) => matches!(settings.verdict(xid), XidVerdict::Sick(_)),
            FaultCause::Probe(_) => settings.probes_act,
        };
        self.faults = faults.iter().filter(here).filter(wanted).cloned().collect();
    }
}

fn parts(node: &NodeGpu) -> BTreeMap<PartId, Option<Instance>> {
    let mig = node.migs.iter();
    let mig = mig.map(|mig| (mig.part(), Some((mig.device.gpu_instance, mig.device.compute_instance))));
    std::iter::once((node.part(), None)).chain(mig).collect()
}
