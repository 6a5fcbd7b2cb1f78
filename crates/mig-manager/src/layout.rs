//! The MIG layout of a GPU in a form that can be kept, compared and written to a file.

use crate::GpuState;
use carve_formats::mig_parted::{ConfigEntry, Devices, MigPartedConfig, WantedProfile};
use carve_gpu_model::{Placement, ProfileIndex, ProfileName};
use carve_planner::PresentInstance;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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

/// GPUs with the same layout, on their way to one entry.
struct Kind {
    mig_enabled: bool,
    devices: BTreeMap<ProfileName, u64>,
    indices: BTreeSet<i64>,
    filters: BTreeSet<String>,
}

/// The current layout of all GPUs as a mig-parted config. GPUs that are alike share an entry; a filter stands where
/// the machine has several kinds of GPU, and indices where a kind is not of one layout.
pub fn export(label: &str, gpus: &[GpuState]) -> MigPartedConfig {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut by_filter: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    for state in gpus {
        let (mig_enabled, devices) = (state.mig_enabled(), devices(state));
        let index = i64::from(state.gpu.index.0);
        let filter = format!("0x{:X}", state.gpu.pci_id.packed());
        by_filter.entry(filter.clone()).or_default().insert(index);
        match kinds.iter_mut().find(|kind| kind.mig_enabled == mig_enabled && kind.devices == devices) {
            Some(kind) => {
                kind.indices.insert(index);
                kind.filters.insert(filter);
            }
            None => {
                let (indices, filters) = ([index].into(), [filter].into());
                kinds.push(Kind { mig_enabled, devices, indices, filters });
            }
        }
    }
    let unfiltered = by_filter.len() == 1 || kinds.len() == 1;
    let entries = kinds.into_iter().map(|kind| {
        let passing: BTreeSet<i64> =
            kind.filters.iter().flat_map(|filter| by_filter[filter].clone()).collect();
        ConfigEntry {
            filter: if unfiltered { Vec::new() } else { kind.filters.into_iter().collect() },
            devices: if passing == kind.indices {
                Devices::All
            } else {
                Devices::Listed(kind.indices.into_iter().collect())
            },
            mig_enabled: kind.mig_enabled,
            mig_devices: kind
                .devices
                .into_iter()
                .map(|(name, count)| WantedProfile {
                    written: name.to_string(),
                    name,
                    count,
                    at: Default::default(),
                })
                .collect(),
            at: Default::default(),
        }
    });
    MigPartedConfig { configs: BTreeMap::from([(label.to_owned(), entries.collect())]) }
}
