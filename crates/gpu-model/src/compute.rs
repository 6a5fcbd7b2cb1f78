//! Compute instances: how a GPU instance is divided further.

use crate::{GpuProfile, ProfileIndex, ProfileTable};
use serde::{Deserialize, Serialize};

/// NVML's enumeration of compute instance profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ComputeProfileIndex(pub u32);

impl ComputeProfileIndex {
    /// One past the highest index NVML knows.
    pub const COUNT: u32 = 9;

    /// The plain profile of so many slices.
    pub const fn of_slices(slices: u8) -> Option<Self> {
        Some(ComputeProfileIndex(match slices {
            1 => 0,
            2 => 1,
            3 => 2,
            4 => 3,
            7 => 4,
            8 => 5,
            6 => 6,
            _ => return None,
        }))
    }

    /// Compute slices of the profile.
    pub const fn slices(self) -> Option<u8> {
        Some(match self.0 {
            0 | 7 => 1,
            1 => 2,
            2 => 3,
            3 => 4,
            4 | 8 => 7,
            5 => 8,
            6 => 6,
            _ => return None,
        })
    }
}

/// One kind of compute instance that a GPU instance offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ComputeProfile {
    /// NVML's index; also the id that creation takes.
    pub index: ComputeProfileIndex,
    /// Compute slices of one instance.
    pub slices: u8,
    /// How many may exist in one GPU instance.
    pub max_instances: u8,
    /// Multiprocessors of one instance, where known.
    pub multiprocessors: Option<u16>,
}

impl ProfileTable {
    /// The compute instances that fit into an instance of a profile, small to large.
    ///
    /// A compute instance takes 1, 2, 3, 4 or 7 slices; 3 of 4 is not offered. Multiprocessors divide evenly. On
    /// Hopper the one-slice instance with double memory also has more multiprocessors than one slice: the plain
    /// compute profile then reaches only a slice's worth, and a second one (index 7) reaches all.
    pub fn compute_profiles(&self, profile: &GpuProfile) -> Vec<ComputeProfile> {
        let offered = |slices: &u8| *slices <= profile.slices && !(profile.slices == 4 && *slices == 3);
        let mut sizes: Vec<u8> = [1u8, 2, 3, 4, 7].into_iter().filter(offered).collect();
        if !sizes.contains(&profile.slices) {
            sizes.push(profile.slices);
        }
        let whole = profile.multiprocessors.map(|fact| fact.value);
        let each = |slices: u8| match (slices == profile.slices, whole) {
            (true, whole) => whole,
            (false, Some(whole)) => Some(whole / u16::from(profile.slices.max(1)) * u16::from(slices)),
            (false, None) => None,
        };
        let mut offers: Vec<ComputeProfile> = sizes
            .into_iter()
            .filter_map(|slices| {
                Some(ComputeProfile {
                    index: ComputeProfileIndex::of_slices(slices)?,
                    slices,
                    max_instances: profile.slices / slices,
                    multiprocessors: each(slices),
                })
            })
            .collect();
        let plain = self.by_index(ProfileIndex(0)).and_then(|(_, plain)| plain.multiprocessors);
        if profile.index == ProfileIndex(9)
            && let (Some(whole), Some(plain)) = (whole, plain)
            && whole > plain.value
            && let Some(offer) = offers.first_mut()
        {
            offer.multiprocessors = Some(plain.value);
            let all =
                ComputeProfile { index: ComputeProfileIndex(7), multiprocessors: Some(whole), ..*offer };
            offers.push(all);
        }
        offers
    }
}
