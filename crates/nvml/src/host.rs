//! The upper floor: the host that the rest of carve sees.

use crate::busy::LastOf;
use crate::call::{Answer, Calls, Device};
use crate::events::Watch;
use crate::open::{self, NvmlPaths, OpenError};
use carve_gpu_host::{
    BusyPart, ComputeInstance, Driver, Fabric, Gpu, GpuEvent, GpuHost, GpuInstance, GpuProcess, HostError,
    HostFailure, HostResult, Link, MemoryUse, MigDevice, MigMode, ModeOutcome, Readings, RecoveryAction,
    Utilisation, Verb,
};
use carve_gpu_model::{
    Bytes, ComputeInstanceId, ComputeProfile, ComputeProfileIndex, GpuIndex, GpuInstanceId, Placement,
    ProfileId, ProfileTable,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// This machine's GPUs, through NVML. NVML is shut down when it is dropped.
#[derive(Debug)]
pub struct Nvml {
    pub(crate) calls: Calls,
    pub(crate) paths: NvmlPaths,
    /// GPUs as they were last seen whole, because a lost one tells nothing about itself.
    pub(crate) seen: RefCell<BTreeMap<GpuIndex, Gpu>>,
    /// Made when somebody first waits for an event.
    pub(crate) watch: Option<Watch>,
    /// What `nvidia-smi` said when the last reset failed.
    pub(crate) reset_report: Option<String>,
    /// What was asked last about how busy devices are.
    pub(crate) last: LastOf,
    /// False only between a shutdown for a reset and a start that failed after it.
    pub(crate) started: bool,
}

/// Adds verb and GPU to a failure.
fn of<T>(verb: Verb, gpu: impl Into<Option<GpuIndex>>, answer: Answer<T>) -> HostResult<T> {
    answer.map_err(|failure| HostError { verb, gpu: gpu.into(), failure })
}

impl Nvml {
    /// Loads the library (by default `libnvidia-ml.so.1`, wherever the dynamic linker finds it) and starts NVML.
    pub fn open(library: Option<&Path>) -> Result<Self, OpenError> {
        Self::open_at(NvmlPaths { library: library.map(Path::to_owned), ..NvmlPaths::default() })
    }

    /// The same for a driver installation whose parts are elsewhere.
    pub fn open_at(paths: NvmlPaths) -> Result<Self, OpenError> {
        let calls = open::open(paths.library.as_deref())?;
        Ok(Nvml {
            calls,
            paths,
            seen: RefCell::default(),
            watch: None,
            reset_report: None,
            last: LastOf::new(),
            started: true,
        })
    }

    /// What `nvidia-smi` said when the last reset failed.
    pub fn reset_report(&self) -> Option<&str> {
        self.reset_report.as_deref()
    }

    pub(crate) fn device(&self, gpu: GpuIndex) -> Answer<Device> {
        self.calls.device(gpu.0)
    }

    pub(crate) fn mode(&self, device: Device) -> Answer<Option<MigMode>> {
        match self.calls.mig_mode(device) {
            Ok((current, pending)) => Ok(Some(MigMode { current, pending })),
            // A driver from before MIG has no function for it.
            Err(HostFailure::NotSupported | HostFailure::FunctionNotFound) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn change_mode(&self, gpu: GpuIndex, enabled: bool) -> Answer<ModeOutcome> {
        let device = self.device(gpu)?;
        let status = self.calls.set_mig_mode(device, enabled)?;
        // The status has several codes for "not yet"; the mode itself tells for certain.
        let mode = self.mode(device)?.ok_or(HostFailure::NotSupported)?;
        if mode.current == enabled && mode.pending == enabled {
            Ok(ModeOutcome::Done)
        } else if mode.pending == enabled {
            Ok(ModeOutcome::NeedsReset)
        } else {
            Err(HostFailure::from_code(if status == 0 { HostFailure::NotSupported.code() } else { status }))
        }
    }
}

impl GpuHost for Nvml {
    fn driver(&self) -> HostResult<Driver> {
        let ask = || Ok(Driver { version: self.calls.driver_version()?, cuda: self.calls.cuda_version()? });
        of(Verb::Driver, None, ask())
    }

    fn gpus(&self) -> HostResult<Vec<Gpu>> {
        of(Verb::Gpus, None, self.all_gpus())
    }

    fn memory(&self, gpu: GpuIndex) -> HostResult<MemoryUse> {
        let memory = self.device(gpu).and_then(|device| self.calls.memory(device));
        of(Verb::Memory, gpu, memory).map(|memory| MemoryUse {
            total: Bytes(memory.total),
            reserved: Bytes(memory.reserved),
            used: Bytes(memory.used),
        })
    }

    fn utilisation(&self, gpu: GpuIndex) -> HostResult<Utilisation> {
        let rates = self.device(gpu).and_then(|device| self.calls.utilisation(device));
        of(Verb::Utilisation, gpu, rates)
            .map(|rates| Utilisation { compute_percent: rates.gpu, memory_percent: rates.memory })
    }

    fn readings(&self, gpu: GpuIndex) -> HostResult<Readings> {
        of(Verb::Readings, gpu, self.read(gpu))
    }

    fn busy(&mut self, gpu: GpuIndex, instance: Option<GpuInstanceId>) -> HostResult<Option<BusyPart>> {
        of(Verb::Busy, gpu, self.busy_since(gpu, instance))
    }

    fn processes(&self, gpu: GpuIndex) -> HostResult<Vec<GpuProcess>> {
        of(Verb::Processes, gpu, self.processes_on(gpu))
    }

    fn link(&self, from: GpuIndex, to: GpuIndex) -> HostResult<Link> {
        of(Verb::Link, from, self.link_between(from, to))
    }

    fn fabric(&self, gpu: GpuIndex) -> HostResult<Option<Fabric>> {
        of(Verb::Fabric, gpu, self.device(gpu).and_then(|device| self.fabric_of(device)))
    }

    fn recovery_action(&self, gpu: GpuIndex) -> HostResult<Option<RecoveryAction>> {
        of(Verb::RecoveryAction, gpu, self.device(gpu).and_then(|device| self.recovery_of(device)))
    }

    fn next_event(&mut self, wait: Duration) -> HostResult<Option<GpuEvent>> {
        of(Verb::NextEvent, None, self.wait_for_event(wait))
    }

    fn mig_mode(&self, gpu: GpuIndex) -> HostResult<Option<MigMode>> {
        of(Verb::MigMode, gpu, self.device(gpu).and_then(|device| self.mode(device)))
    }

    fn set_mig_mode(&mut self, gpu: GpuIndex, enabled: bool) -> HostResult<ModeOutcome> {
        of(Verb::SetMigMode, gpu, self.change_mode(gpu, enabled))
    }

    fn reset(&mut self, gpus: &[GpuIndex]) -> HostResult<()> {
        let answer = self.reset_by_program(gpus);
        of(Verb::Reset, gpus.first().copied(), answer)
    }

    fn profile_table(&self, gpu: GpuIndex) -> HostResult<ProfileTable> {
        of(Verb::ProfileTable, gpu, self.reported_table(gpu))
    }

    fn gpu_instances(&self, gpu: GpuIndex) -> HostResult<Vec<GpuInstance>> {
        of(Verb::GpuInstances, gpu, self.instances_on(gpu))
    }

    fn create_gpu_instance(
        &mut self,
        gpu: GpuIndex,
        profile: ProfileId,
        at: Option<Placement>,
    ) -> HostResult<GpuInstance> {
        let create = || {
            let at = at.map(|at| (u32::from(at.start), u32::from(at.size)));
            let made = self.calls.create_gpu_instance(self.device(gpu)?, profile.0, at)?;
            self.instance_facts(made)
        };
        of(Verb::CreateGpuInstance, gpu, create())
    }

    fn destroy_gpu_instance(&mut self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<()> {
        let destroy = || self.calls.destroy_gpu_instance(self.instance(gpu, instance)?);
        of(Verb::DestroyGpuInstance, gpu, destroy())
    }

    fn compute_profiles(&self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<Vec<ComputeProfile>> {
        of(Verb::ComputeProfiles, gpu, self.offered_parts(gpu, instance))
    }

    fn compute_instances(&self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<Vec<ComputeInstance>> {
        of(Verb::ComputeInstances, gpu, self.parts_of(gpu, instance))
    }

    fn create_compute_instance(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        profile: ComputeProfileIndex,
    ) -> HostResult<ComputeInstance> {
        let create = || {
            let instance = self.instance(gpu, instance)?;
            let wanted = self.calls.compute_profile(instance, profile.0)?;
            let made = self.calls.create_compute_instance(instance, wanted.id)?;
            let (id, _) = self.calls.compute_instance_info(made)?;
            Ok(ComputeInstance { id: ComputeInstanceId(id), profile })
        };
        of(Verb::CreateComputeInstance, gpu, create())
    }

    fn destroy_compute_instance(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        compute: ComputeInstanceId,
    ) -> HostResult<()> {
        let destroy = || {
            let instance = self.instance(gpu, instance)?;
            self.calls.destroy_compute_instance(self.calls.compute_instance(instance, compute.0)?)
        };
        of(Verb::DestroyComputeInstance, gpu, destroy())
    }

    fn mig_devices(&self, gpu: GpuIndex) -> HostResult<Vec<MigDevice>> {
        of(Verb::MigDevices, gpu, self.devices_of(gpu))
    }

    fn last_words(&self) -> Option<String> {
        self.reset_report().map(|report| report.trim().to_owned())
    }
}

impl Drop for Nvml {
    /// Nobody is left who could be told that the library did not shut down.
    fn drop(&mut self) {
        self.forget_watch();
        if self.started {
            self.forget_samples();
            let _ = self.calls.shutdown();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Nvml;

    #[test]
    fn a_task_may_own_the_host() {
        fn is_send<T: Send>() {}
        is_send::<Nvml>();
    }
}
