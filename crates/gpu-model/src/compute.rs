//! Compute instances: how a GPU instance is divided further.

use crate::GpuProfile;
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

impl GpuProfile {
    /// The compute instances that fit into an instance of this profile, small to large.
    ///
    /// A compute instance takes 1, 2, 3, 4 or 7 slices; 3 of 4 is not offered. Multiprocessors divide evenly.
    pub fn compute_profiles(&self) -> Vec<ComputeProfile> {
        let offered = |slices: &u8| *slices <= self.slices && !(self.slices == 4 && *slices == 3);
        let mut sizes: Vec<u8> = [1u8, 2, 3, 4, 7].into_iter().filter(offered).collect();
        if !sizes.contains(&self.slices) {
            sizes.push(self.slices);
        }
        let each = |slices: u8| {
            let whole = self.multiprocessors?.value;
            if slices == self.slices {
                Some(whole)
            } else {
                Some(whole / u16::from(self.slices) * u16::from(slices))
            }
        };
        sizes
            .into_iter()
            .filter_map(|slices| {
                Some(ComputeProfile {
                    index: ComputeProfileIndex::of_slices(slices)?,
                    slices,
                    max_instances: self.slices / slices,
                    multiprocessors: each(slices),
                })
            })
            .collect()
    }
}
