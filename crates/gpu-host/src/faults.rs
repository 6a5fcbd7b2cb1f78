//! Makes any host fail at a chosen verb: with an error, or by the death of the process.

use crate::{
    BusyPart, ComputeInstance, Driver, Fabric, Gpu, GpuEvent, GpuHost, GpuInstance, GpuProcess, HostError,
    HostFailure, HostResult, Link, MemoryUse, MigDevice, MigMode, ModeOutcome, Readings, RecoveryAction,
    Utilisation, Verb,
};
use carve_gpu_model::{
    ComputeInstanceId, ComputeProfile, ComputeProfileIndex, GpuIndex, GpuInstanceId, Placement, ProfileId,
    ProfileTable,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Whether the fault strikes before the verb took effect or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultWhen {
    /// The machine has not changed yet.
    Before,
    /// The machine has changed, but the caller is not told.
    After,
}

/// What the fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultReaction {
    /// The verb answers this failure.
    Fail(HostFailure),
    /// The process dies, as if by SIGKILL.
    Die,
}

/// One planned fault: the `nth` call (from 1) of a verb, or of any verb that changes the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InjectedFault {
    /// Which verb; `None` counts every verb that changes the machine.
    pub verb: Option<Verb>,
    /// Which call of it, from 1; 0 means every call.
    pub nth: u64,
    /// Before or after the effect.
    pub when: FaultWhen,
    /// What happens.
    pub reaction: FaultReaction,
}

/// The text describes no fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not a fault; write VERB:NTH:before|after:CODE|die, \
     for example create-gpu-instance:2:before:23 or change:3:after:die"
)]
pub struct FaultPlanError(pub String);

impl FromStr for InjectedFault {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || FaultPlanError(text.to_owned());
        let parts: Vec<&str> = text.split(':').collect();
        let [verb, nth, when, reaction] = parts[..] else { return Err(error()) };
        Ok(InjectedFault {
            verb: match verb {
                "change" => None,
                verb => Some(verb.parse().map_err(|_| error())?),
            },
            nth: nth.parse().map_err(|_| error())?,
            when: match when {
                "before" => FaultWhen::Before,
                "after" => FaultWhen::After,
                _ => return Err(error()),
            },
            reaction: match reaction {
                "die" => FaultReaction::Die,
                code => FaultReaction::Fail(code.parse().map_err(|_| error())?),
            },
        })
    }
}

/// The faults still to come, and how often each verb was called so far.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    faults: Vec<InjectedFault>,
    calls: BTreeMap<Verb, u64>,
    changes: u64,
}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    /// Reads faults separated by commas; an empty text plans none.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let faults = text.split(',').filter(|part| !part.trim().is_empty()).map(|part| part.trim().parse());
        Ok(FaultPlan::new(faults.collect::<Result<_, _>>()?))
    }
}

impl FaultPlan {
    /// A plan of these faults.
    pub fn new(faults: Vec<InjectedFault>) -> Self {
        FaultPlan { faults, ..FaultPlan::default() }
    }

    /// Counts a call and says which fault strikes it.
    pub fn strike(&mut self, verb: Verb) -> Option<(FaultWhen, FaultReaction)> {
        let calls = self.calls.entry(verb).or_insert(0);
        *calls += 1;
        let calls = *calls;
        self.changes += u64::from(verb.changes_the_machine());
        let fault = self.faults.iter().find(|fault| match fault.verb {
            Some(named) => named == verb && (fault.nth == calls || fault.nth == 0),
            None => verb.changes_the_machine() && (fault.nth == self.changes || fault.nth == 0),
        })?;
        Some((fault.when, fault.reaction))
    }

    /// How many verbs that change the machine were called so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

/// A host that fails where its plan says so.
///
/// What "dying" means is the caller's: a test unwinds, a process kills itself.
#[derive(Debug)]
pub struct FaultInjectingHost<H> {
    inner: H,
    plan: RefCell<FaultPlan>,
    die: fn(Verb) -> HostFailure,
}

impl<H> FaultInjectingHost<H> {
    /// Wraps a host. `die` is called for [`FaultReaction::Die`] and should not return; if it does, its answer is
    /// the verb's failure.
    pub fn new(inner: H, plan: FaultPlan, die: fn(Verb) -> HostFailure) -> Self {
        FaultInjectingHost { inner, plan: RefCell::new(plan), die }
    }

    /// The host inside.
    pub fn inner(&self) -> &H {
        &self.inner
    }

    /// The host inside, to change it behind the caller's back.
    pub fn inner_mut(&mut self) -> &mut H {
        &mut self.inner
    }

    /// The host inside, with the faults gone.
    pub fn into_inner(self) -> H {
        self.inner
    }

    /// How many verbs that change the machine were called so far.
    pub fn changes(&self) -> u64 {
        self.plan.borrow().changes()
    }

    fn react(&self, verb: Verb, gpu: Option<GpuIndex>, reaction: FaultReaction) -> HostError {
        let failure = match reaction {
            FaultReaction::Fail(failure) => failure,
            FaultReaction::Die => (self.die)(verb),
        };
        HostError { verb, gpu, failure }
    }

    fn ask<T>(
        &self,
        verb: Verb,
        gpu: Option<GpuIndex>,
        act: impl FnOnce(&H) -> HostResult<T>,
    ) -> HostResult<T> {
        let strike = self.plan.borrow_mut().strike(verb);
        match strike {
            None => act(&self.inner),
            Some((FaultWhen::Before, reaction)) => Err(self.react(verb, gpu, reaction)),
            Some((FaultWhen::After, reaction)) => {
                let _ = act(&self.inner);
                Err(self.react(verb, gpu, reaction))
            }
        }
    }

    fn change<T>(
        &mut self,
        verb: Verb,
        gpu: Option<GpuIndex>,
        act: impl FnOnce(&mut H) -> HostResult<T>,
    ) -> HostResult<T> {
        let strike = self.plan.borrow_mut().strike(verb);
        match strike {
            None => act(&mut self.inner),
            Some((FaultWhen::Before, reaction)) => Err(self.react(verb, gpu, reaction)),
            Some((FaultWhen::After, reaction)) => {
                let _ = act(&mut self.inner);
                Err(self.react(verb, gpu, reaction))
            }
        }
    }
}

impl<H: GpuHost> GpuHost for FaultInjectingHost<H> {
    fn driver(&self) -> HostResult<Driver> {
        self.ask(Verb::Driver, None, |host| host.driver())
    }

    fn gpus(&self) -> HostResult<Vec<Gpu>> {
        self.ask(Verb::Gpus, None, |host| host.gpus())
    }

    fn memory(&self, gpu: GpuIndex) -> HostResult<MemoryUse> {
        self.ask(Verb::Memory, Some(gpu), |host| host.memory(gpu))
    }

    fn utilisation(&self, gpu: GpuIndex) -> HostResult<Utilisation> {
        self.ask(Verb::Utilisation, Some(gpu), |host| host.utilisation(gpu))
    }

    fn readings(&self, gpu: GpuIndex) -> HostResult<Readings> {
        self.ask(Verb::Readings, Some(gpu), |host| host.readings(gpu))
    }

    fn busy(&mut self, gpu: GpuIndex, instance: Option<GpuInstanceId>) -> HostResult<Option<BusyPart>> {
        self.change(Verb::Busy, Some(gpu), |host| host.busy(gpu, instance))
    }

    fn processes(&self, gpu: GpuIndex) -> HostResult<Vec<GpuProcess>> {
        self.ask(Verb::Processes, Some(gpu), |host| host.processes(gpu))
    }

    fn link(&self, from: GpuIndex, to: GpuIndex) -> HostResult<Link> {
        self.ask(Verb::Link, Some(from), |host| host.link(from, to))
    }

    fn fabric(&self, gpu: GpuIndex) -> HostResult<Option<Fabric>> {
        self.ask(Verb::Fabric, Some(gpu), |host| host.fabric(gpu))
    }

    fn recovery_action(&self, gpu: GpuIndex) -> HostResult<Option<RecoveryAction>> {
        self.ask(Verb::RecoveryAction, Some(gpu), |host| host.recovery_action(gpu))
    }

    fn next_event(&mut self, wait: Duration) -> HostResult<Option<GpuEvent>> {
        self.change(Verb::NextEvent, None, |host| host.next_event(wait))
    }

    fn mig_mode(&self, gpu: GpuIndex) -> HostResult<Option<MigMode>> {
        self.ask(Verb::MigMode, Some(gpu), |host| host.mig_mode(gpu))
    }

    fn set_mig_mode(&mut self, gpu: GpuIndex, enabled: bool) -> HostResult<ModeOutcome> {
        self.change(Verb::SetMigMode, Some(gpu), |host| host.set_mig_mode(gpu, enabled))
    }

    fn reset(&mut self, gpus: &[GpuIndex]) -> HostResult<()> {
        self.change(Verb::Reset, gpus.first().copied(), |host| host.reset(gpus))
    }

    fn profile_table(&self, gpu: GpuIndex) -> HostResult<ProfileTable> {
        self.ask(Verb::ProfileTable, Some(gpu), |host| host.profile_table(gpu))
    }

    fn gpu_instances(&self, gpu: GpuIndex) -> HostResult<Vec<GpuInstance>> {
        self.ask(Verb::GpuInstances, Some(gpu), |host| host.gpu_instances(gpu))
    }

    fn create_gpu_instance(
        &mut self,
        gpu: GpuIndex,
        profile: ProfileId,
        at: Option<Placement>,
    ) -> HostResult<GpuInstance> {
        self.change(Verb::CreateGpuInstance, Some(gpu), |host| host.create_gpu_instance(gpu, profile, at))
    }

    fn destroy_gpu_instance(&mut self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<()> {
        self.change(Verb::DestroyGpuInstance, Some(gpu), |host| host.destroy_gpu_instance(gpu, instance))
    }

    fn compute_profiles(&self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<Vec<ComputeProfile>> {
        self.ask(Verb::ComputeProfiles, Some(gpu), |host| host.compute_profiles(gpu, instance))
    }

    fn compute_instances(&self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<Vec<ComputeInstance>> {
        self.ask(Verb::ComputeInstances, Some(gpu), |host| host.compute_instances(gpu, instance))
    }

    fn create_compute_instance(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        profile: ComputeProfileIndex,
    ) -> HostResult<ComputeInstance> {
        self.change(Verb::CreateComputeInstance, Some(gpu), |host| {
            host.create_compute_instance(gpu, instance, profile)
        })
    }

    fn destroy_compute_instance(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        compute: ComputeInstanceId,
    ) -> HostResult<()> {
        self.change(Verb::DestroyComputeInstance, Some(gpu), |host| {
            host.destroy_compute_instance(gpu, instance, compute)
        })
    }

    fn mig_devices(&self, gpu: GpuIndex) -> HostResult<Vec<MigDevice>> {
        self.ask(Verb::MigDevices, Some(gpu), |host| host.mig_devices(gpu))
    }

    fn last_words(&self) -> Option<String> {
        self.inner.last_words()
    }
}
