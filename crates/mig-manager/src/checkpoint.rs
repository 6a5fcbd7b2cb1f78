//! Checkpoints in mig-parted's format: the one of its verbs that records slots.

use crate::{GpuState, InstanceLayout, Layout};
use carve_formats::Diagnostic;
use carve_formats::mig_checkpoint::{ComputeInstanceState, DeviceState, GpuInstanceState, MigCheckpoint};
use carve_gpu_model::{ComputeProfileIndex, GpuUuid, Placement, ProfileIndex};
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a checkpoint can not be taken or read.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// A GPU does not answer, so its layout is not known.
    #[error("GPU {gpu} does not answer ({reason}); its layout can not be saved")]
    Unreachable {
        /// The GPU.
        gpu: carve_gpu_model::GpuIndex,
        /// What the driver said.
        reason: String,
    },
    /// The file does not read.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Malformed(Vec<Diagnostic>),
    /// A number in the file that no GPU has.
    #[error("the layout of {uuid} holds a {what} of {found}, which no GPU has")]
    Range {
        /// The GPU.
        uuid: String,
        /// Which number.
        what: &'static str,
        /// The number.
        found: i64,
    },
}

/// The layout of all GPUs with MIG, as mig-parted writes it.
pub fn checkpoint(gpus: &[GpuState]) -> Result<String, CheckpointError> {
    let mut devices = Vec::new();
    for state in gpus {
        if let Some(trouble) = &state.trouble {
            let reason = trouble.failure.to_string();
            return Err(CheckpointError::Unreachable { gpu: state.gpu.index, reason });
        }
        if state.mode.is_some() {
            devices.push(device(state));
        }
    }
    Ok(MigCheckpoint { devices }.to_json())
}

fn device(state: &GpuState) -> DeviceState {
    let mut instances: Vec<GpuInstanceState> = Vec::new();
    for instance in &state.instances {
        let table = state.table.as_ref();
        let profile = table.and_then(|table| table.get(instance.placed.profile));
        let placement = table.and_then(|table| table.placement(instance.placed));
        let Some((profile, placement)) = profile.zip(placement) else { continue };
        let compute = instance.compute.iter().map(|part| {
            let index = state.compute_profiles.get(&(instance.id, part.id)).copied();
            let index = index.or_else(|| ComputeProfileIndex::of_slices(part.slices));
            ComputeInstanceState {
                profile_id: index.map_or(0, |index| i64::from(index.0)),
                eng_profile_id: 0,
            }
        });
        let mut compute: Vec<ComputeInstanceState> = compute.collect();
        compute.sort_by_key(|part| part.profile_id);
        instances.push(GpuInstanceState {
            profile_id: i64::from(profile.index.0),
            start: u32::from(placement.start),
            size: u32::from(placement.size),
            compute_instances: compute,
        });
    }
    instances.sort_by_key(|instance| instance.profile_id);
    DeviceState {
        uuid: state.gpu.uuid.0.clone(),
        mig_mode: i64::from(state.mig_enabled()),
        gpu_instances: instances,
    }
}

impl Layout {
    /// The layouts that a checkpoint holds, by GPU.
    pub fn from_checkpoint(text: &str) -> Result<BTreeMap<GpuUuid, Layout>, CheckpointError> {
        let (saved, _) = MigCheckpoint::parse(text).into_result().map_err(CheckpointError::Malformed)?;
        saved.devices.iter().map(|device| Ok((GpuUuid(device.uuid.clone()), layout(device)?))).collect()
    }
}

fn layout(device: &DeviceState) -> Result<Layout, CheckpointError> {
    let range = |what, found| CheckpointError::Range { uuid: device.uuid.clone(), what, found };
    let mut instances = Vec::new();
    for saved in &device.gpu_instances {
        let small = |what, number: u32| u8::try_from(number).map_err(|_| range(what, i64::from(number)));
        let profile = u32::try_from(saved.profile_id).map_err(|_| range("profile", saved.profile_id))?;
        let division = saved.compute_instances.iter().map(|part| {
            let index = u32::try_from(part.profile_id).ok().map(ComputeProfileIndex);
            index
                .and_then(ComputeProfileIndex::slices)
                .ok_or_else(|| range("compute profile", part.profile_id))
        });
        let mut division = division.collect::<Result<Vec<u8>, _>>()?;
        division.sort_unstable_by_key(|slices| std::cmp::Reverse(*slices));
        instances.push(InstanceLayout {
            profile: ProfileIndex(profile),
            placement: Placement::new(small("start", saved.start)?, small("size", saved.size)?),
            compute: division,
        });
    }
    instances.sort();
    Ok(Layout { mig_enabled: device.mig_mode == 1, instances })
}
