//! The machine behind the entries: who a handle means, and whether it is still there.

use crate::busy::Samples;
use crate::event::EventLog;
use crate::handle::{Handle, Thing};
use crate::session::Answer;
use carve_gpu_host::{
    ComputeInstance, Driver, FaultInjectingHost, Gpu, GpuHost, GpuInstance, HostFailure, HostResult, Machine,
    MigDevice, SimulatedHost,
};
use carve_gpu_model::{GpuIndex, GpuProfile, ProfileName, ProfileTable};
use carve_sim_store::{DeviceNodes, SharedMachine};
use std::fmt::Debug;

/// A simulated host with planned faults.
pub(crate) trait Simulated: GpuHost + Send + Debug {
    /// The host without its faults, for finding out who a handle means.
    fn plain(&self) -> &dyn GpuHost;

    /// What the machine is made of.
    fn machine(&self) -> Machine;

    /// What went wrong with the state file in the last call, if something did.
    fn take_trouble(&self) -> Option<String>;
}

impl Simulated for FaultInjectingHost<SimulatedHost> {
    fn plain(&self) -> &dyn GpuHost {
        self.inner()
    }

    fn machine(&self) -> Machine {
        self.inner().state().machine.clone()
    }

    fn take_trouble(&self) -> Option<String> {
        None
    }
}

impl Simulated for FaultInjectingHost<SharedMachine> {
    fn plain(&self) -> &dyn GpuHost {
        self.inner()
    }

    fn machine(&self) -> Machine {
        self.inner().machine()
    }

    fn take_trouble(&self) -> Option<String> {
        self.inner().take_trouble().map(|trouble| trouble.to_string())
    }
}

/// The failure alone: C gets no more than its code.
pub(crate) fn said<T>(result: HostResult<T>) -> Answer<T> {
    result.map_err(|error| error.failure)
}

/// A device as C sees one: a whole GPU, or a MIG device of it.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) gpu: GpuIndex,
    pub(crate) mig: Option<MigDevice>,
}

/// The machine, with what never changes about it at hand.
#[derive(Debug)]
pub(crate) struct Simulation {
    /// Every entry's own verb goes here, so that planned faults strike it.
    pub(crate) host: Box<dyn Simulated>,
    pub(crate) machine: Machine,
    pub(crate) driver: Driver,
    /// All GPUs, shown or not: a link leads to a GPU that this process can not open, too.
    pub(crate) gpus: Vec<Gpu>,
    /// GPUs that this process is shown, in the order of their indices in it.
    shown: Vec<GpuIndex>,
    /// The device nodes of this process; none where it is shown everything.
    nodes: Option<DeviceNodes>,
    pub(crate) events: EventLog,
    /// Samples that C holds, by their numbers.
    pub(crate) samples: Samples,
}

impl Simulation {
    /// Looks at the machine for the first time.
    pub(crate) fn new(host: Box<dyn Simulated>, nodes: Option<DeviceNodes>) -> Result<Self, String> {
        let look = |host: &dyn Simulated| -> HostResult<(Driver, Vec<Gpu>)> {
            Ok((host.plain().driver()?, host.plain().gpus()?))
        };
        match look(&*host) {
            Ok((driver, gpus)) => {
                let sees = |gpu: &&Gpu| nodes.as_ref().is_none_or(|nodes| nodes.show_gpu(gpu));
                let shown = gpus.iter().filter(sees).map(|gpu| gpu.index).collect();
                let (machine, events, samples) = (host.machine(), EventLog::default(), Samples::default());
                Ok(Simulation { host, machine, driver, gpus, shown, nodes, events, samples })
            }
            Err(error) => Err(host.take_trouble().unwrap_or_else(|| error.to_string())),
        }
    }

    /// Looks again after a shutdown: the state file may hold another machine by now.
    pub(crate) fn look_again(self) -> Result<Self, String> {
        let events = self.events;
        Simulation::new(self.host, self.nodes).map(|simulation| Simulation { events, ..simulation })
    }

    /// What went wrong with the state file in the last call, if something did.
    pub(crate) fn take_trouble(&self) -> Option<String> {
        self.host.take_trouble()
    }

    /// What does not change about a GPU.
    pub(crate) fn facts(&self, gpu: GpuIndex) -> Answer<&Gpu> {
        self.gpus.get(gpu.0 as usize).ok_or(HostFailure::InvalidArgument)
    }

    /// The GPUs that this process is shown, in its order. Which they are is found out when NVML is initialised.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Gpu> {
        self.shown.iter().filter_map(|gpu| self.facts(*gpu).ok())
    }

    /// The GPU at an index of this process.
    pub(crate) fn at_index(&self, index: u32) -> Answer<GpuIndex> {
        let gpu = self.shown.get(index as usize).copied().ok_or(HostFailure::InvalidArgument)?;
        self.alive(gpu)
    }

    /// The index of a GPU in this process.
    pub(crate) fn index_of(&self, gpu: GpuIndex) -> Answer<u32> {
        let position = self.shown.iter().position(|shown| *shown == gpu);
        position.map(|position| position as u32).ok_or(HostFailure::InvalidArgument)
    }

    /// Those of a GPU's MIG devices that this process is shown, numbered anew. Their nodes are looked for each time.
    pub(crate) fn shown_migs(&self, gpu: GpuIndex, all: Vec<MigDevice>) -> Answer<Vec<MigDevice>> {
        self.index_of(gpu)?;
        let Some(nodes) = &self.nodes else { return Ok(all) };
        let facts = self.facts(gpu)?;
        let seen = all.into_iter().filter(|mig| nodes.show_mig(facts, mig));
        Ok((0..).zip(seen).map(|(position, mig)| MigDevice { position, ..mig }).collect())
    }

    /// Fails for a GPU that is lost, was never there, or is not shown to this process.
    pub(crate) fn alive(&self, gpu: GpuIndex) -> Answer<GpuIndex> {
        self.index_of(gpu)?;
        said(self.host.plain().mig_mode(gpu)).map(|_| gpu)
    }

    /// The handle of a whole GPU; that of a MIG device is refused.
    pub(crate) fn gpu(&self, handle: Handle) -> Answer<GpuIndex> {
        match handle.thing()? {
            Thing::Gpu(gpu) => self.alive(gpu),
            _ => Err(HostFailure::InvalidArgument),
        }
    }

    /// The handle of a GPU or of a MIG device.
    pub(crate) fn device(&self, handle: Handle) -> Answer<Device> {
        match handle.thing()? {
            Thing::Gpu(gpu) => Ok(Device { gpu: self.alive(gpu)?, mig: None }),
            Thing::MigDevice(gpu, instance, compute) => {
                let devices = said(self.host.plain().mig_devices(gpu))?;
                let mig = self
                    .shown_migs(gpu, devices)?
                    .into_iter()
                    .find(|device| device.gpu_instance == instance && device.compute_instance == compute)
                    .ok_or(HostFailure::InvalidArgument)?;
                Ok(Device { gpu, mig: Some(mig) })
            }
            _ => Err(HostFailure::InvalidArgument),
        }
    }

    /// The handle of a GPU instance that still exists.
    pub(crate) fn gpu_instance(&self, handle: Handle) -> Answer<(GpuIndex, GpuInstance)> {
        let Thing::GpuInstance(gpu, id) = handle.thing()? else { return Err(HostFailure::InvalidArgument) };
        let instances = said(self.host.plain().gpu_instances(gpu))?;
        let found = instances.into_iter().find(|instance| instance.id == id);
        found.map(|instance| (gpu, instance)).ok_or(HostFailure::InvalidArgument)
    }

    /// The handle of a compute instance that still exists.
    pub(crate) fn compute_instance(
        &self,
        handle: Handle,
    ) -> Answer<(GpuIndex, GpuInstance, ComputeInstance)> {
        let Thing::ComputeInstance(gpu, id, compute) = handle.thing()? else {
            return Err(HostFailure::InvalidArgument);
        };
        let (gpu, instance) = self.gpu_instance(Handle::of(Thing::GpuInstance(gpu, id)))?;
        let parts = said(self.host.plain().compute_instances(gpu, id))?;
        let found = parts.into_iter().find(|part| part.id == compute);
        found.map(|part| (gpu, instance, part)).ok_or(HostFailure::InvalidArgument)
    }

    /// What the GPU can be cut into, without planned faults.
    pub(crate) fn table(&self, gpu: GpuIndex) -> Answer<ProfileTable> {
        said(self.host.plain().profile_table(gpu))
    }

    /// Whether MIG is on now.
    pub(crate) fn in_mig_mode(&self, gpu: GpuIndex) -> Answer<bool> {
        Ok(said(self.host.plain().mig_mode(gpu))?.is_some_and(|mode| mode.current))
    }

    /// The profile name of a MIG device: that of its GPU instance, with the part it has of it.
    pub(crate) fn mig_profile(&self, gpu: GpuIndex, mig: &MigDevice) -> Answer<ProfileName> {
        let (_, instance) = self.gpu_instance(Handle::of(Thing::GpuInstance(gpu, mig.gpu_instance)))?;
        let profile = self.gpu_profile(gpu, &instance)?;
        Ok(profile.name.with_compute_slices(u64::from(mig.compute_slices)))
    }

    /// The profile of a GPU instance.
    pub(crate) fn gpu_profile(&self, gpu: GpuIndex, instance: &GpuInstance) -> Answer<GpuProfile> {
        let table = self.table(gpu)?;
        let (_, profile) = table.by_id(instance.profile).ok_or(HostFailure::NotFound)?;
        Ok(profile.clone())
    }
}
