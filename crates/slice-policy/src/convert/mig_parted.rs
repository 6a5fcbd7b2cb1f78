//! What a config of mig-parted says, in the words of a policy, and back.

use crate::{LayoutEntry, Mig, MigMode};
use carve_formats::At;
use carve_formats::mig_parted::{ConfigEntry, Devices, WantedProfile};
use std::collections::{BTreeMap, BTreeSet};

/// The layout of a config with a name; entries that can mean nothing go to a list.
pub(super) fn fixed(name: &str, entries: &[ConfigEntry], left_out: &mut BTreeSet<String>) -> Mig {
    let layout = entries.iter().filter_map(|entry| {
        let gpus = match &entry.devices {
            Devices::All => Vec::new(),
            Devices::Listed(indices) => {
                let gpus: Vec<u32> = indices.iter().filter_map(|index| u32::try_from(*index).ok()).collect();
                if gpus.is_empty() {
                    left_out.insert(format!(
                        "mig-parted config '{name}': an entry names no GPU, and does nothing"
                    ));
                    return None;
                }
                gpus
            }
        };
        let mut instances: BTreeMap<String, u32> = BTreeMap::new();
        for wanted in &entry.mig_devices {
            let count = u32::try_from(wanted.count).unwrap_or(u32::MAX);
            instances.insert(wanted.written.clone(), count);
        }
        let pci_ids = entry.filter.iter().filter(|id| !id.is_empty()).cloned().collect();
        Some(LayoutEntry { gpus, pci_ids, enabled: entry.mig_enabled, instances })
    });
    Mig { mode: MigMode::Fixed, layout: layout.collect(), ..Mig::default() }
}

/// A layout as entries of mig-parted; names that are no profiles go to a list.
pub(super) fn entries(
    policy: &str,
    layout: &[LayoutEntry],
    left_out: &mut BTreeSet<String>,
) -> Vec<ConfigEntry> {
    let mut profile = |(written, count): (&String, &u32)| match written.parse() {
        Ok(name) => Some(WantedProfile {
            written: written.clone(),
            name,
            count: u64::from(*count),
            at: At::default(),
        }),
        Err(why) => {
            left_out.insert(format!("SlicePolicy '{policy}': mig.layout: '{written}' is no profile: {why}"));
            None
        }
    };
    let entry = |entry: &LayoutEntry| ConfigEntry {
        filter: entry.pci_ids.clone(),
        devices: match entry.gpus.as_slice() {
            [] => Devices::All,
            gpus => Devices::Listed(gpus.iter().map(|index| i64::from(*index)).collect()),
        },
        mig_enabled: entry.enabled,
        mig_devices: entry.instances.iter().filter_map(&mut profile).collect(),
        at: At::default(),
    };
    layout.iter().map(entry).collect()
}
