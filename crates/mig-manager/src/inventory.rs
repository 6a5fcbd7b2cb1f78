//! What is on the machine now: GPUs, modes, instances, and who uses them.

use carve_gpu_host::{Gpu, GpuHost, GpuProcess, HostError, HostFailure, HostResult, MigMode, Verb};
use carve_gpu_model::{
    ComputeInstanceId, ComputeProfileIndex, GpuIndex, GpuInstanceId, GpuUuid, Placed, ProfileTable,
};
use carve_planner::{PresentCompute, PresentInstance};
use std::collections::BTreeMap;

/// One GPU as it is now.
#[derive(Debug, Clone)]
pub struct GpuState {
    /// What does not change about it.
    pub gpu: Gpu,
    /// MIG mode, or `None` where it has none.
    pub mode: Option<MigMode>,
    /// What it can be cut into, or `None` without MIG.
    pub table: Option<ProfileTable>,
    /// GPU instances, by ascending id.
    pub instances: Vec<PresentInstance>,
    /// NVML's profile of every compute instance, which two of one size can differ in.
    pub compute_profiles: BTreeMap<(GpuInstanceId, ComputeInstanceId), ComputeProfileIndex>,
    /// Processes on it.
    pub processes: Vec<GpuProcess>,
    /// Why nothing more is known: the GPU is lost, or its driver refuses.
    pub trouble: Option<HostError>,
}

impl GpuState {
    /// Whether MIG is on.
    pub fn mig_enabled(&self) -> bool {
        self.mode.is_some_and(|mode| mode.current)
    }

    /// What exists, in terms of the table.
    pub fn placed(&self) -> Vec<Placed> {
        self.instances.iter().map(|instance| instance.placed).collect()
    }
}

/// Reads every GPU of a machine. A lost GPU is listed with its trouble and does not hide the others.
pub fn inventory(host: &dyn GpuHost) -> HostResult<Vec<GpuState>> {
    host.gpus()?.into_iter().map(|gpu| read_one(host, gpu)).collect()
}

/// Reads some GPUs of a machine, those of them that are there.
pub(crate) fn inventory_of(host: &dyn GpuHost, wanted: &[&GpuUuid]) -> HostResult<Vec<GpuState>> {
    let gpus = host.gpus()?.into_iter().filter(|gpu| wanted.contains(&&gpu.uuid));
    gpus.map(|gpu| read_one(host, gpu)).collect()
}

/// Reads one GPU, or nothing where it is not there.
pub(crate) fn state_of(host: &dyn GpuHost, gpu: &GpuUuid) -> HostResult<Option<GpuState>> {
    Ok(inventory_of(host, &[gpu])?.into_iter().next())
}

fn read_one(host: &dyn GpuHost, gpu: Gpu) -> HostResult<GpuState> {
    let mut state = GpuState {
        gpu,
        mode: None,
        table: None,
        instances: Vec::new(),
        compute_profiles: BTreeMap::new(),
        processes: Vec::new(),
        trouble: None,
    };
    match read(host, &mut state) {
        Err(error) if error.failure == HostFailure::GpuLost => state.trouble = Some(error),
        Err(error) => return Err(error),
        Ok(()) => {}
    }
    Ok(state)
}

fn read(host: &dyn GpuHost, state: &mut GpuState) -> HostResult<()> {
    let gpu = state.gpu.index;
    state.mode = host.mig_mode(gpu)?;
    state.processes = host.processes(gpu)?;
    let Some(mode) = state.mode else { return Ok(()) };
    let table = host.profile_table(gpu)?;
    if mode.current {
        read_instances(host, gpu, &table, state)?;
    }
    state.table = Some(table);
    Ok(())
}

/// The GPU instances of one GPU with their compute instances and whether each is in use.
fn read_instances(
    host: &dyn GpuHost,
    gpu: GpuIndex,
    table: &ProfileTable,
    state: &mut GpuState,
) -> HostResult<()> {
    for instance in host.gpu_instances(gpu)? {
        // An instance whose profile the driver does not list can not be reasoned about, nor safely left out.
        let unknown = HostError { verb: Verb::ProfileTable, gpu: Some(gpu), failure: HostFailure::NotFound };
        let (profile, _) = table.by_id(instance.profile).ok_or(unknown)?;
        let mut compute = Vec::new();
        for part in host.compute_instances(gpu, instance.id)? {
            let in_use = state.processes.iter().any(|process| {
                process.gpu_instance == Some(instance.id)
                    && process.compute_instance.is_none_or(|known| known == part.id)
            });
            state.compute_profiles.insert((instance.id, part.id), part.profile);
            compute.push(PresentCompute { id: part.id, slices: part.profile.slices().unwrap_or(0), in_use });
        }
        let placed = Placed { profile, start: instance.placement.start };
        state.instances.push(PresentInstance { id: instance.id, placed, compute });
    }
    Ok(())
}
