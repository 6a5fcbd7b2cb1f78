//! The MIG layout of a GPU in a form that can be kept, compared and written to a file.

use crate::GpuState;
use carve_formats::mig_parted::{ConfigEntry, Devices, MigPartedConfig, WantedProfile};
use carve_gpu_model::{Placement, ProfileIndex, ProfileName};
use carve_planner::PresentInstance;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A GPU instance at its place, divided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InstanceLayout {
    /// NVML's index of its profile, which is the same under every driver.
    pub profile: ProfileIndex,
    /// Where it sits.
    pub placement: Placement,
    /// Slices of its compute instances, large to small.
    pub compute: Vec<u8>,
}

/// The MIG layout of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Whether MIG is on.
    pub mig_enabled: bool,
    /// Instances, sorted.
    pub instances: Vec<InstanceLayout>,
}

impl Layout {
    /// The layout a GPU has now.
    pub fn of(state: &GpuState) -> Self {
        let layout = |instance: &PresentInstance| {
            let table = state.table.as_ref()?;
            Some(InstanceLayout {
                profile: table.get(instance.placed.profile)?.index,
                placement: table.placement(instance.placed)?,
                compute: instance.division(),
            })
        };
        let mut instances: Vec<InstanceLayout> = state.instances.iter().filter_map(layout).collect();
        instances.sort();
        Layout { mig_enabled: state.mig_enabled(), instances }
    }
}

/// How many MIG devices of each name a GPU has, as mig-parted counts them.
pub(crate) fn devices(state: &GpuState) -> BTreeMap<ProfileName, u64> {
    let mut devices = BTreeMap::new();
    for instance in &state.instances {
        let profile = state.table.as_ref().and_then(|table| table.get(instance.placed.profile));
        for (profile, part) in
            profile.into_iter().flat_map(|p| instance.compute.iter().map(move |part| (p, part)))
        {
            *devices.entry(profile.name.with_compute_slices(u64::from(part.slices))).or_insert(0) += 1;
        }
    }
    devices
}

/// The current layout of all GPUs as a mig-parted config; GPUs that are alike share an entry.
pub fn export(label: &str, gpus: &[GpuState]) -> MigPartedConfig {
    let mut kinds: Vec<(bool, BTreeMap<ProfileName, u64>, Vec<i64>)> = Vec::new();
    for state in gpus {
        let (enabled, devices) = (state.mig_enabled(), devices(state));
        let index = i64::from(state.gpu.index.0);
        match kinds
            .iter_mut()
            .find(|(known, known_devices, _)| (*known, &*known_devices) == (enabled, &devices))
        {
            Some((_, _, indices)) => indices.push(index),
            None => kinds.push((enabled, devices, vec![index])),
        }
    }
    let one_kind = kinds.len() == 1;
    let entries = kinds.into_iter().map(|(mig_enabled, devices, indices)| ConfigEntry {
        filter: Vec::new(),
        devices: if one_kind { Devices::All } else { Devices::Listed(indices) },
        mig_enabled,
        mig_devices: devices
            .into_iter()
            .map(|(name, count)| WantedProfile {
                written: name.to_string(),
                name,
                count,
                at: Default::default(),
            })
            .collect(),
        at: Default::default(),
    });
    MigPartedConfig { configs: BTreeMap::from([(label.to_owned(), entries.collect())]) }
}
