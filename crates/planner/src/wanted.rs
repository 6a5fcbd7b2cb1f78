//! From profile counts, as a config file gives them, to the GPU instances that hold them.

use carve_gpu_model::{ProfileName, ProfileSlot, ProfileTable, UnknownProfile};
use thiserror::Error;

/// A GPU instance that should exist, and how it is divided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WantedInstance {
    /// Its profile.
    pub profile: ProfileSlot,
    /// Slices of its compute instances, large to small.
    pub compute: Vec<u8>,
}

/// Why counts can not be turned into instances of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WantedError {
    /// The GPU has no such profile.
    #[error(transparent)]
    Unknown(#[from] UnknownProfile),
    /// The profile exists but can not be divided that way.
    #[error("'{name}': a {instance} can not hold a compute instance of {slices} slices, only of {offered:?}")]
    Division {
        /// What was asked for.
        name: ProfileName,
        /// The GPU instance it would sit in.
        instance: ProfileName,
        /// Slices asked for.
        slices: u64,
        /// Slices it offers.
        offered: Vec<u8>,
    },
    /// More than any GPU has.
    #[error("{count} of '{name}', but at most {most} fit on this GPU")]
    TooMany {
        /// What was asked for.
        name: ProfileName,
        /// How many.
        count: u64,
        /// How many fit on an empty GPU.
        most: u64,
    },
}

/// The instances that hold the given counts, in as few GPU instances as they fit into.
///
/// `2c.4g.20gb: 2` is one 4g instance with two compute instances; `1g.5gb: 7` is seven instances.
pub fn wanted<'a>(
    table: &ProfileTable,
    counts: impl IntoIterator<Item = (&'a ProfileName, u64)>,
) -> Result<Vec<WantedInstance>, WantedError> {
    let mut parts: Vec<(ProfileSlot, u8, u64)> = Vec::new();
    for (name, count) in counts {
        if count == 0 {
            continue;
        }
        let (slot, profile) = table.by_name(name)?;
        let offered = table.compute_profiles(profile);
        let offer = offered.iter().find(|offer| u64::from(offer.slices) == name.compute_slices());
        let offer = offer.ok_or_else(|| WantedError::Division {
            name: name.clone(),
            instance: profile.name.clone(),
            slices: name.compute_slices(),
            offered: offered.iter().map(|offer| offer.slices).collect(),
        })?;
        let most = u64::from(profile.max_instances) * u64::from(offer.max_instances);
        if count > most {
            return Err(WantedError::TooMany { name: name.clone(), count, most });
        }
        match parts.iter_mut().find(|(known, slices, _)| (*known, *slices) == (slot, offer.slices)) {
            Some((_, _, sum)) => *sum += count,
            None => parts.push((slot, offer.slices, count)),
        }
    }
    // Large parts first: they leave the fewest gaps, and the result does not depend on the order written.
    parts.sort_by_key(|(slot, slices, _)| (*slot, std::cmp::Reverse(*slices)));
    let mut instances: Vec<WantedInstance> = Vec::new();
    for (slot, slices, count) in parts {
        let size = table.get(slot).map_or(0, |profile| profile.slices);
        for _ in 0..count {
            let room = |instance: &&mut WantedInstance| {
                instance.profile == slot && instance.compute.iter().sum::<u8>() + slices <= size
            };
            match instances.iter_mut().find(room) {
                Some(instance) => instance.compute.push(slices),
                None => instances.push(WantedInstance { profile: slot, compute: vec![slices] }),
            }
        }
    }
    Ok(instances)
}
