//! One instance at one place: made when somebody asks for it, destroyed when they are done, beside whatever else is on the GPU.
//!
//! Each change is a small [`crate::restore`]: the layout of one GPU with an instance more or less, with the same journal, the same check
//! and the same way back. MIG is switched on with the first instance; it is switched off by [`uncut`], when somebody wants the GPU whole.

use crate::apply::{change_saved, recover_locked};
use crate::inventory::state_of;
use crate::plan::plan_layouts;
use crate::{ApplyError, ApplyOptions, GpuState, InstanceLayout, Layout, PlanError, Silent, StateDir};
use carve_gpu_host::{GpuHost, MigDevice};
use carve_gpu_model::{GpuUuid, ProfileId};
use std::collections::BTreeMap;
use thiserror::Error;

/// Why an instance is not made or not destroyed.
#[derive(Debug, Error)]
pub enum InstanceError {
    /// It is not in the machine, or does not answer.
    #[error("{gpu} is not here, or does not answer; look at it with 'carve gpus'")]
    NoGpu {
        /// The GPU.
        gpu: GpuUuid,
    },
    /// The GPU does not have this profile, or not at this place.
    #[error("{gpu} has no profile {profile} at slot {start}; 'carve mig profiles' shows what it has")]
    NoPlace {
        /// The GPU.
        gpu: GpuUuid,
        /// The profile.
        profile: ProfileId,
        /// The first slot.
        start: u8,
    },
    /// Something else is where the instance should be.
    #[error("{gpu}: another instance is in the way of profile {profile} at slot {start}: {what}")]
    InTheWay {
        /// The GPU.
        gpu: GpuUuid,
        /// The profile.
        profile: ProfileId,
        /// The first slot.
        start: u8,
        /// What is there.
        what: String,
    },
    /// The GPU is cut, and is wanted whole.
    #[error(
        "{gpu} is wanted whole and still holds {count} MIG instance(s); it is used whole once they are gone"
    )]
    StillCut {
        /// The GPU.
        gpu: GpuUuid,
        /// How many there are.
        count: usize,
    },
    /// It was tried.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// Makes an instance with one compute instance over all of it, unless it is there already. Tells its MIG device.
pub fn make_instance(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    gpu: &GpuUuid,
    profile: ProfileId,
    start: u8,
) -> Result<MigDevice, InstanceError> {
    let _lock = state_dir.lock().map_err(ApplyError::from)?;
    recover_locked(host, state_dir, &mut Silent)?;
    let state = one(host, gpu)?;
    let wanted = place(&state, profile, start)?;
    let before = Layout::of(&state);
    let there = before.instances.iter().find(|instance| instance.placement == wanted.placement);
    match there {
        Some(there) if *there == wanted => {}
        _ => {
            let mut after = before;
            // One that was left half made is made again: nobody can be using an instance without compute.
            after
                .instances
                .retain(|instance| *instance != InstanceLayout { compute: Vec::new(), ..wanted.clone() });
            if let Some(other) = after.instances.iter().find(|other| overlaps(other, &wanted)) {
                let what =
                    format!("one of NVML's profile {} at slot {}", other.profile.0, other.placement.start);
                return Err(InstanceError::InTheWay { gpu: gpu.clone(), profile, start, what });
            }
            after.mig_enabled = true;
            after.instances.push(wanted);
            after.instances.sort();
            bring(host, state_dir, &state, after, "claim")?;
        }
    }
    let device = device_at(host, gpu, profile, start)?;
    device.ok_or_else(|| InstanceError::NoPlace { gpu: gpu.clone(), profile, start })
}

/// Destroys an instance, unless it is gone already. One that is in use stays, and the error says by whom it is used.
pub fn remove_instance(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    gpu: &GpuUuid,
    profile: ProfileId,
    start: u8,
) -> Result<(), InstanceError> {
    let _lock = state_dir.lock().map_err(ApplyError::from)?;
    recover_locked(host, state_dir, &mut Silent)?;
    let state = one(host, gpu)?;
    if !state.mig_enabled() {
        return Ok(());
    }
    let gone = place(&state, profile, start)?;
    let mut after = Layout::of(&state);
    let before = after.instances.len();
    after
        .instances
        .retain(|instance| (instance.profile, instance.placement) != (gone.profile, gone.placement));
    if after.instances.len() < before {
        bring(host, state_dir, &state, after, "end of a claim")?;
    }
    Ok(())
}

/// Switches MIG off on a GPU that holds no instance, so that it can be used whole. Tells whether there was anything to do.
pub fn uncut(host: &mut dyn GpuHost, state_dir: &StateDir, gpu: &GpuUuid) -> Result<bool, InstanceError> {
    let _lock = state_dir.lock().map_err(ApplyError::from)?;
    recover_locked(host, state_dir, &mut Silent)?;
    let state = one(host, gpu)?;
    if !state.mode.is_some_and(|mode| mode.current || mode.pending) {
        return Ok(false);
    }
    if !state.instances.is_empty() {
        return Err(InstanceError::StillCut { gpu: gpu.clone(), count: state.instances.len() });
    }
    let after = Layout { mig_enabled: false, instances: Vec::new() };
    bring(host, state_dir, &state, after, "whole GPU")?;
    Ok(true)
}

/// The instances on a GPU, as profile and first slot.
pub fn instances_on(host: &dyn GpuHost, gpu: &GpuUuid) -> Result<Vec<(ProfileId, u8)>, InstanceError> {
    let state = one(host, gpu)?;
    let table = state.table.as_ref();
    let each = state
        .instances
        .iter()
        .filter_map(|instance| Some((table?.get(instance.placed.profile)?.id, instance.placed.start)));
    Ok(each.collect())
}

fn one(host: &dyn GpuHost, gpu: &GpuUuid) -> Result<GpuState, InstanceError> {
    let state = state_of(host, gpu).map_err(ApplyError::Read)?;
    state.filter(|state| state.trouble.is_none()).ok_or_else(|| InstanceError::NoGpu { gpu: gpu.clone() })
}

/// The instance that is meant, as a layout has it.
fn place(state: &GpuState, profile: ProfileId, start: u8) -> Result<InstanceLayout, InstanceError> {
    let found = state.table.as_ref().and_then(|table| {
        let (_, known) = table.by_id(profile)?;
        let placement = known.placements.iter().find(|placement| placement.start == start)?;
        Some(InstanceLayout { profile: known.index, placement: *placement, compute: vec![known.slices] })
    });
    found.ok_or_else(|| InstanceError::NoPlace { gpu: state.gpu.uuid.clone(), profile, start })
}

fn overlaps(one: &InstanceLayout, other: &InstanceLayout) -> bool {
    let (one, other) = (one.placement, other.placement);
    one.start < other.start + other.size && other.start < one.start + one.size
}

fn bring(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    state: &GpuState,
    after: Layout,
    label: &str,
) -> Result<(), InstanceError> {
    let layouts = BTreeMap::from([(state.gpu.uuid.clone(), after)]);
    let plan = plan_layouts(&layouts, std::slice::from_ref(state), false);
    let plan = plan.map_err(|errors: Vec<PlanError>| ApplyError::NoWay(errors))?;
    if !plan.is_empty() {
        change_saved(host, state_dir, label, &plan, ApplyOptions::default(), &mut Silent)?;
    }
    Ok(())
}

fn device_at(
    host: &dyn GpuHost,
    gpu: &GpuUuid,
    profile: ProfileId,
    start: u8,
) -> Result<Option<MigDevice>, InstanceError> {
    let read = || {
        let Some(index) = host.gpus()?.into_iter().find(|known| known.uuid == *gpu).map(|gpu| gpu.index)
        else {
            return Ok(None);
        };
        let instances = host.gpu_instances(index)?;
        let instance = instances
            .iter()
            .find(|instance| instance.profile == profile && instance.placement.start == start)
            .map(|instance| instance.id);
        Ok(host.mig_devices(index)?.into_iter().find(|device| Some(device.gpu_instance) == instance))
    };
    Ok(read().map_err(ApplyError::Read)?)
}
