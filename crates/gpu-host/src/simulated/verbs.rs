//! The driver's side of a simulated machine: every verb of the host trait.

use super::state::{ComputeState, GpuState, InstanceState};
use super::{SimulatedHost, identity};
use crate::machine::{GpuGroup, NvLink};
use crate::{
    BusyPart, ComputeInstance, Driver, Fabric, Gpu, GpuEvent, GpuHost, GpuInstance, GpuProcess, HostError,
    HostFailure, HostResult, Link, MemoryUse, MigDevice, MigMode, ModeOutcome, PciPath, Readings,
    RecoveryAction, RemappedRows, Utilisation, Verb,
};
use carve_gpu_model::{
    Architecture, Bytes, ComputeInstanceId, ComputeProfile, ComputeProfileIndex, GpuIndex, GpuInstanceId,
    GpuProfile, Mebibytes, ModeSwitch, PciId, Placed, Placement, Product, ProfileId, ProfileTable,
};
use std::time::Duration;

/// The first GPUs that tell how busy their instances are.
const FIRST_WITH_BUSY_INSTANCES: (u32, u32) = (9, 0);

/// The first release of the driver that tells what a GPU needs to recover.
const FIRST_WITH_RECOVERY: u32 = 565;

/// Adds verb and GPU to a failure.
fn of<T>(verb: Verb, gpu: impl Into<Option<GpuIndex>>, result: Result<T, HostFailure>) -> HostResult<T> {
    result.map_err(|failure| HostError { verb, gpu: gpu.into(), failure })
}

impl GpuHost for SimulatedHost {
    fn driver(&self) -> HostResult<Driver> {
        let machine = &self.state.machine;
        Ok(Driver { version: machine.driver().to_owned(), cuda: machine.cuda() })
    }

    fn gpus(&self) -> HostResult<Vec<Gpu>> {
        Ok((0..self.state.gpus.len()).filter_map(|index| self.facts(index)).collect())
    }

    fn memory(&self, gpu: GpuIndex) -> HostResult<MemoryUse> {
        of(Verb::Memory, gpu, self.memory_use(gpu))
    }

    fn utilisation(&self, gpu: GpuIndex) -> HostResult<Utilisation> {
        of(Verb::Utilisation, gpu, self.gpu(gpu)).map(|state| {
            let busy: u32 = state.processes.iter().map(|process| process.compute_percent).sum();
            Utilisation { compute_percent: busy.min(100), memory_percent: (busy / 2).min(100) }
        })
    }

    fn readings(&self, gpu: GpuIndex) -> HostResult<Readings> {
        let busy = self.utilisation(gpu).map_err(|error| HostError { verb: Verb::Readings, ..error })?;
        let percent = busy.compute_percent;
        Ok(Readings {
            temperature: Some(32 + percent / 2),
            memory_temperature: Some(36 + percent / 2),
            power: Some(70_000 + 5_000 * percent),
            // What it took so far depends on time, of which nothing is known here.
            energy: None,
            compute_clock: Some(if percent > 0 { 1_980 } else { 345 }),
            memory_clock: Some(2_619),
            pci_replays: Some(0),
            encoder_percent: Some(0),
            decoder_percent: Some(0),
            remapped_rows: Some(RemappedRows::default()),
        })
    }

    /// Load is not scripted through time here: it was what it is now.
    fn busy(&mut self, gpu: GpuIndex, instance: Option<GpuInstanceId>) -> HostResult<Option<BusyPart>> {
        of(Verb::Busy, gpu, self.busy_now(gpu, instance))
    }

    fn processes(&self, gpu: GpuIndex) -> HostResult<Vec<GpuProcess>> {
        of(Verb::Processes, gpu, self.gpu(gpu)).map(|state| {
            let process = |process: &super::state::ProcessState| GpuProcess {
                pid: process.pid,
                kind: process.kind,
                memory: Some(process.memory),
                gpu_instance: process.instance.map(|(instance, _)| instance),
                compute_instance: process.instance.map(|(_, compute)| compute),
            };
            state.processes.iter().map(process).collect()
        })
    }

    fn link(&self, from: GpuIndex, to: GpuIndex) -> HostResult<Link> {
        of(Verb::Link, from, self.link_between(from, to))
    }

    fn fabric(&self, gpu: GpuIndex) -> HostResult<Option<Fabric>> {
        of(Verb::Fabric, gpu, self.gpu(gpu))?;
        Ok(self.state.group(gpu.0 as usize).and_then(|(group, _)| group.fabric))
    }

    fn recovery_action(&self, gpu: GpuIndex) -> HostResult<Option<RecoveryAction>> {
        let state = of(Verb::RecoveryAction, gpu, self.gpu(gpu))?;
        Ok(self.tells_recovery().then_some(state.recovery))
    }

    fn next_event(&mut self, _wait: Duration) -> HostResult<Option<GpuEvent>> {
        let event = self.state.events.get(self.events_seen as usize).copied();
        self.events_seen += u64::from(event.is_some());
        Ok(event)
    }

    fn mig_mode(&self, gpu: GpuIndex) -> HostResult<Option<MigMode>> {
        of(Verb::MigMode, gpu, self.gpu(gpu)).map(|state| state.mode)
    }

    fn set_mig_mode(&mut self, gpu: GpuIndex, enabled: bool) -> HostResult<ModeOutcome> {
        let result = self.change_mode(gpu, enabled);
        of(Verb::SetMigMode, gpu, result)
    }

    fn reset(&mut self, gpus: &[GpuIndex]) -> HostResult<()> {
        for gpu in gpus {
            let state = of(Verb::Reset, *gpu, self.gpu(*gpu))?;
            if !state.processes.is_empty() {
                return of(Verb::Reset, *gpu, Err(HostFailure::InUse));
            }
        }
        for gpu in gpus {
            let state = of(Verb::Reset, *gpu, self.gpu_mut(*gpu))?;
            state.instances.clear();
            if let Some(mode) = &mut state.mode {
                mode.current = mode.pending;
            }
            if state.recovery.is_done_by_reset() {
                state.recovery = RecoveryAction::NoneNeeded;
            }
        }
        Ok(())
    }

    fn profile_table(&self, gpu: GpuIndex) -> HostResult<ProfileTable> {
        of(Verb::ProfileTable, gpu, self.table(gpu)).cloned()
    }

    fn gpu_instances(&self, gpu: GpuIndex) -> HostResult<Vec<GpuInstance>> {
        of(Verb::GpuInstances, gpu, self.gpu(gpu)).map(|state| {
            let seen = |instance: &InstanceState| GpuInstance {
                id: instance.id,
                profile: instance.profile,
                placement: instance.placement,
            };
            state.instances.iter().map(seen).collect()
        })
    }

    fn create_gpu_instance(
        &mut self,
        gpu: GpuIndex,
        profile: ProfileId,
        at: Option<Placement>,
    ) -> HostResult<GpuInstance> {
        let result = self.place(gpu, profile, at);
        of(Verb::CreateGpuInstance, gpu, result)
    }

    fn destroy_gpu_instance(&mut self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<()> {
        let result = self.gpu_mut(gpu).and_then(|state| {
            let position = state.position(instance)?;
            if state.instances.get(position).is_some_and(|instance| !instance.compute.is_empty()) {
                return Err(HostFailure::InUse);
            }
            state.instances.remove(position);
            Ok(())
        });
        of(Verb::DestroyGpuInstance, gpu, result)
    }

    fn compute_profiles(&self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<Vec<ComputeProfile>> {
        let found = self.instance(gpu, instance);
        let offers = found.and_then(|(_, profile)| Ok(self.table(gpu)?.compute_profiles(profile)));
        of(Verb::ComputeProfiles, gpu, offers)
    }

    fn compute_instances(&self, gpu: GpuIndex, instance: GpuInstanceId) -> HostResult<Vec<ComputeInstance>> {
        of(Verb::ComputeInstances, gpu, self.instance(gpu, instance)).map(|(state, _)| {
            state
                .compute
                .iter()
                .map(|compute| ComputeInstance { id: compute.id, profile: compute.profile })
                .collect()
        })
    }

    fn create_compute_instance(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        profile: ComputeProfileIndex,
    ) -> HostResult<ComputeInstance> {
        let result = self.divide(gpu, instance, profile);
        of(Verb::CreateComputeInstance, gpu, result)
    }

    fn destroy_compute_instance(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        compute: ComputeInstanceId,
    ) -> HostResult<()> {
        let result = self.gpu_mut(gpu).and_then(|state| {
            let position = state.position(instance)?;
            let used = state.processes.iter().any(|process| process.instance == Some((instance, compute)));
            let parts = state.instances.get_mut(position).map(|instance| &mut instance.compute);
            let parts = parts.ok_or(HostFailure::NotFound)?;
            let part = parts.iter().position(|part| part.id == compute).ok_or(HostFailure::NotFound)?;
            if used {
                return Err(HostFailure::InUse);
            }
            parts.remove(part);
            Ok(())
        });
        of(Verb::DestroyComputeInstance, gpu, result)
    }

    fn mig_devices(&self, gpu: GpuIndex) -> HostResult<Vec<MigDevice>> {
        of(Verb::MigDevices, gpu, self.devices(gpu))
    }
}

impl GpuState {
    pub(super) fn position(&self, instance: GpuInstanceId) -> Result<usize, HostFailure> {
        self.instances.iter().position(|known| known.id == instance).ok_or(HostFailure::NotFound)
    }
}

impl SimulatedHost {
    /// How busy a device is now; see [`GpuHost::busy`], which needs no memory here.
    pub fn busy_now(
        &self,
        gpu: GpuIndex,
        instance: Option<GpuInstanceId>,
    ) -> Result<Option<BusyPart>, HostFailure> {
        let state = self.gpu(gpu)?;
        let cut = state.mode.is_some_and(|mode| mode.current);
        let newer = self
            .facts(gpu.0 as usize)
            .is_some_and(|facts| facts.compute_capability >= FIRST_WITH_BUSY_INSTANCES);
        if instance.is_some() != cut || (cut && !newer) {
            return Ok(None);
        }
        let there = |id: GpuInstanceId| state.instances.iter().any(|known| known.id == id);
        if instance.is_some_and(|id| !there(id)) {
            return Err(HostFailure::NotFound);
        }
        let inside = state.processes.iter().filter(|process| process.instance.map(|(id, _)| id) == instance);
        let percent: u32 = inside.map(|process| process.compute_percent).sum();
        Ok(Some(BusyPart::from_percent(f64::from(percent))))
    }

    fn facts(&self, index: usize) -> Option<Gpu> {
        let (group, place) = self.state.group(index)?;
        let product = Product::by_key(&group.product)?;
        let board = group.board.as_deref().unwrap_or(product.name());
        let pci = product
            .boards
            .iter()
            .find(|known| known.name == board)
            .and_then(|board| board.pci_devices.first());
        let (major, minor) = product.compute_capability;
        Some(Gpu {
            index: GpuIndex(index as u32),
            uuid: identity::gpu_uuid(self.state.machine.name(), index),
            name: board.to_owned(),
            address: identity::pci_address(index),
            pci_id: pci.map_or(PciId::nvidia(0), |device| PciId::nvidia(*device)),
            subsystem: group.subsystem,
            minor: index as u32,
            memory: product.memory()?.value.bytes(),
            compute_capability: (u32::from(major), u32::from(minor)),
            numa_node: numa_node(group, place),
            mig_capable: product.is_mig_capable(),
        })
    }

    /// Whether the machine's driver is new enough to say what a GPU needs.
    fn tells_recovery(&self) -> bool {
        let release =
            self.state.machine.driver().split('.').next().and_then(|number| number.parse::<u32>().ok());
        release.is_some_and(|release| release >= FIRST_WITH_RECOVERY)
    }

    fn memory_use(&self, gpu: GpuIndex) -> Result<MemoryUse, HostFailure> {
        let state = self.gpu(gpu)?;
        let facts = self.facts(gpu.0 as usize).ok_or(HostFailure::InvalidArgument)?;
        let (group, _) = self.state.group(gpu.0 as usize).ok_or(HostFailure::InvalidArgument)?;
        let reserved =
            group.reserved_mib.map_or(facts.memory.0 / 256, |reserved| Mebibytes(reserved).bytes().0);
        let used: u64 = state.processes.iter().map(|process| process.memory.0).sum();
        Ok(MemoryUse {
            total: facts.memory,
            reserved: Bytes(reserved),
            used: Bytes(used.min(facts.memory.0 - reserved.min(facts.memory.0))),
        })
    }

    fn link_between(&self, from: GpuIndex, to: GpuIndex) -> Result<Link, HostFailure> {
        self.gpu(from)?;
        self.gpu(to)?;
        let (a, b) = (from.0 as usize, to.0 as usize);
        let ((group_a, place_a), (group_b, place_b)) =
            self.state.group(a).zip(self.state.group(b)).ok_or(HostFailure::InvalidArgument)?;
        if a == b {
            return Ok(Link { pci: PciPath::SameBoard, nvlinks: 0 });
        }
        let pci = match (numa_node(group_a, place_a), numa_node(group_b, place_b)) {
            (Some(a), Some(b)) if a != b => PciPath::AcrossNodes,
            (Some(_), Some(_)) => PciPath::SeveralSwitches,
            _ => PciPath::HostBridge,
        };
        let joined = std::ptr::eq(group_a, group_b)
            && match group_a.nvlink {
                NvLink::None => false,
                NvLink::Pairs => place_a / 2 == place_b / 2,
                NvLink::Switched => true,
            };
        let each = match Product::by_key(&group_a.product).map(|product| product.architecture) {
            Some(Architecture::Ampere) => 12,
            Some(Architecture::Hopper | Architecture::Blackwell) => 18,
            Some(Architecture::Volta) => 6,
            _ => 0,
        };
        Ok(Link { pci, nvlinks: if joined { each } else { 0 } })
    }

    fn change_mode(&mut self, gpu: GpuIndex, enabled: bool) -> Result<ModeOutcome, HostFailure> {
        let switch = self.state.products().nth(gpu.0 as usize).flatten().and_then(Product::mode_switch);
        let state = self.gpu_mut(gpu)?;
        let busy = !state.processes.is_empty();
        let cut = !state.instances.is_empty();
        let mode = state.mode.as_mut().ok_or(HostFailure::NotSupported)?;
        if !enabled && cut {
            return Err(HostFailure::InUse);
        }
        mode.pending = enabled;
        if mode.current == enabled {
            return Ok(ModeOutcome::Done);
        }
        // A busy GPU keeps its mode until it is reset, whatever its generation.
        if busy || switch != Some(ModeSwitch::Immediate) {
            return Ok(ModeOutcome::NeedsReset);
        }
        mode.current = enabled;
        Ok(ModeOutcome::Done)
    }

    fn place(
        &mut self,
        gpu: GpuIndex,
        profile: ProfileId,
        at: Option<Placement>,
    ) -> Result<GpuInstance, HostFailure> {
        let table = self.table(gpu)?;
        let state = self.gpu(gpu)?;
        if !state.mode.is_some_and(|mode| mode.current) {
            return Err(HostFailure::NotSupported);
        }
        let (slot, known) = table.by_id(profile).ok_or(HostFailure::InvalidArgument)?;
        let mut placed = placed(table, state);
        let placement = match at {
            Some(at) if known.placements.contains(&at) => at,
            Some(_) => return Err(HostFailure::InvalidArgument),
            None => {
                let start = table.driver_choice(&placed, slot).ok_or(HostFailure::InsufficientResources)?;
                Placement::new(start, known.size())
            }
        };
        placed.push(Placed { profile: slot, start: placement.start });
        table.check(&placed).map_err(|_| HostFailure::InsufficientResources)?;
        let id = identity::instance_id(table.slots(), placement);
        let state = self.gpu_mut(gpu)?;
        state.instances.push(InstanceState { id, profile, placement, compute: Vec::new() });
        state.instances.sort_by_key(|instance| instance.id);
        Ok(GpuInstance { id, profile, placement })
    }

    fn instance(
        &self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
    ) -> Result<(&InstanceState, &GpuProfile), HostFailure> {
        let state = self.gpu(gpu)?;
        let found = state.instances.get(state.position(instance)?).ok_or(HostFailure::NotFound)?;
        let (_, profile) = self.table(gpu)?.by_id(found.profile).ok_or(HostFailure::NotFound)?;
        Ok((found, profile))
    }

    fn divide(
        &mut self,
        gpu: GpuIndex,
        instance: GpuInstanceId,
        index: ComputeProfileIndex,
    ) -> Result<ComputeInstance, HostFailure> {
        let (state, profile) = self.instance(gpu, instance)?;
        let offered = self.table(gpu)?.compute_profiles(profile);
        let wanted = offered.iter().find(|offer| offer.index == index).ok_or(HostFailure::NotSupported)?;
        let taken: u8 = state.compute.iter().filter_map(|part| part.profile.slices()).sum();
        let alike = state.compute.iter().filter(|part| part.profile == index).count();
        if taken + wanted.slices > profile.slices || alike >= usize::from(wanted.max_instances) {
            return Err(HostFailure::InsufficientResources);
        }
        let free = |id: &u32| !state.compute.iter().any(|part| part.id.0 == *id);
        let id = ComputeInstanceId((0..8).find(free).ok_or(HostFailure::InsufficientResources)?);
        let state = self.gpu_mut(gpu)?;
        let position = state.position(instance)?;
        if let Some(instance) = state.instances.get_mut(position) {
            instance.compute.push(ComputeState { id, profile: index });
            instance.compute.sort_by_key(|part| part.id);
        }
        Ok(ComputeInstance { id, profile: index })
    }

    fn devices(&self, gpu: GpuIndex) -> Result<Vec<MigDevice>, HostFailure> {
        let uuid = identity::gpu_uuid(self.state.machine.name(), gpu.0 as usize);
        let mut devices = Vec::new();
        for instance in &self.gpu(gpu)?.instances {
            let (_, profile) = self.table(gpu)?.by_id(instance.profile).ok_or(HostFailure::NotFound)?;
            let offered = self.table(gpu)?.compute_profiles(profile);
            for part in &instance.compute {
                let offer =
                    offered.iter().find(|offer| offer.index == part.profile).ok_or(HostFailure::NotFound)?;
                devices.push(MigDevice {
                    uuid: identity::mig_uuid(&uuid, instance.id, part.id),
                    position: devices.len() as u32,
                    gpu_instance: instance.id,
                    compute_instance: part.id,
                    memory: profile.memory.map_or(Mebibytes(0), |fact| fact.value),
                    multiprocessors: u32::from(offer.multiprocessors.unwrap_or(0)),
                    gpu_slices: u32::from(profile.slices),
                    compute_slices: u32::from(part.profile.slices().unwrap_or(0)),
                    engines: profile.engines,
                });
            }
        }
        Ok(devices)
    }
}

/// What exists on a GPU, in terms of its table.
fn placed(table: &ProfileTable, state: &GpuState) -> Vec<Placed> {
    let seen = |instance: &InstanceState| {
        table.by_id(instance.profile).map(|(profile, _)| Placed { profile, start: instance.placement.start })
    };
    state.instances.iter().filter_map(seen).collect()
}

fn numa_node(group: &GpuGroup, place: usize) -> Option<u32> {
    group.numa_nodes.get(place).or(group.numa_nodes.last()).copied()
}
