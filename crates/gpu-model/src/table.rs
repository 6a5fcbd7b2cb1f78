//! What one GPU offers to be cut into: its profiles, and the totals that bound any cut.

use crate::profile::derive_name;
use crate::{
    Bytes, Engines, Evidence, Fact, GpuProfile, Mebibytes, Placement, ProfileId, ProfileIndex, ProfileName,
    SlotMask,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Position of a profile in its [`ProfileTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProfileSlot(pub u8);

/// An instance at its place: which profile, and its first memory slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placed {
    /// The profile, by its position in the table.
    pub profile: ProfileSlot,
    /// First memory slot.
    pub start: u8,
}

/// The GPU instance profiles of one GPU, and the totals they share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileTable {
    slots: u8,
    compute_slices: u8,
    engines: Engines,
    profiles: Vec<GpuProfile>,
}

/// A profile as a driver reports it, before it has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedProfile {
    /// NVML's index.
    pub index: ProfileIndex,
    /// The id creation takes.
    pub id: ProfileId,
    /// Compute slices.
    pub slices: u8,
    /// How many may exist at once.
    pub max_instances: u8,
    /// Memory of one instance.
    pub memory: Mebibytes,
    /// Multiprocessors of one instance.
    pub multiprocessors: u16,
    /// Engines of one instance.
    pub engines: Engines,
    /// Legal placements.
    pub placements: Vec<Placement>,
}

/// A name that the GPU has no profile for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no MIG profile '{name}' on this GPU")]
pub struct UnknownProfile {
    /// The name that was asked for.
    pub name: ProfileName,
    /// The nearest profile this GPU has, if it has any.
    pub nearest: Option<ProfileName>,
}

impl ProfileTable {
    /// A table from profiles whose names are known. The totals follow from the largest profile.
    pub fn new(mut profiles: Vec<GpuProfile>) -> Self {
        for profile in &mut profiles {
            profile.placements.retain(|placement| placement.end() <= u16::from(SlotMask::SLOTS));
            profile.placements.sort_unstable();
        }
        profiles.sort_by(|a, b| (a.slices, a.size(), &a.name).cmp(&(b.slices, b.size(), &b.name)));
        let slots = profiles.iter().flat_map(|p| &p.placements).map(|p| p.end() as u8).max().unwrap_or(0);
        let full = profiles.iter().max_by_key(|profile| (profile.slices, profile.size()));
        ProfileTable {
            slots,
            compute_slices: full.map_or(0, |profile| profile.slices),
            engines: full.map_or_else(Engines::default, |profile| profile.engines),
            profiles,
        }
    }

    /// A table of what a driver reports. Names are derived from memory, as NVIDIA's own tools do.
    pub fn from_report(reported: Vec<ReportedProfile>, total: Bytes) -> Self {
        let profiles = reported.into_iter().filter_map(|profile| {
            Some(GpuProfile {
                name: derive_name(profile.index, profile.memory, total)?,
                id: profile.id,
                index: profile.index,
                slices: profile.slices,
                max_instances: profile.max_instances,
                memory: Some(Fact::new(profile.memory, Evidence::Reported)),
                multiprocessors: Some(Fact::new(profile.multiprocessors, Evidence::Reported)),
                engines: profile.engines,
                placements: profile.placements,
                placement_evidence: Evidence::Reported,
            })
        });
        Self::new(profiles.collect())
    }

    /// Memory slots of the GPU.
    pub fn slots(&self) -> u8 {
        self.slots
    }

    /// Compute slices of the GPU.
    pub fn compute_slices(&self) -> u8 {
        self.compute_slices
    }

    /// Engines of the whole GPU.
    pub fn engines(&self) -> Engines {
        self.engines
    }

    /// All profiles, small to large.
    pub fn profiles(&self) -> &[GpuProfile] {
        &self.profiles
    }

    /// All profiles with their positions, small to large.
    pub fn enumerate(&self) -> impl DoubleEndedIterator<Item = (ProfileSlot, &GpuProfile)> {
        self.profiles.iter().enumerate().map(|(position, profile)| (ProfileSlot(position as u8), profile))
    }

    /// The profile at a position.
    pub fn get(&self, slot: ProfileSlot) -> Option<&GpuProfile> {
        self.profiles.get(usize::from(slot.0))
    }

    /// The profile with the id that instance creation takes.
    pub fn by_id(&self, id: ProfileId) -> Option<(ProfileSlot, &GpuProfile)> {
        self.enumerate().find(|(_, profile)| profile.id == id)
    }

    /// The profile with an NVML index.
    pub fn by_index(&self, index: ProfileIndex) -> Option<(ProfileSlot, &GpuProfile)> {
        self.enumerate().find(|(_, profile)| profile.index == index)
    }

    /// The profile of the GPU instance that a name asks for, or the nearest name that exists.
    pub fn by_name(&self, name: &ProfileName) -> Result<(ProfileSlot, &GpuProfile), UnknownProfile> {
        let wanted = name.gpu_instance();
        self.enumerate()
            .find(|(_, profile)| profile.name == wanted)
            .ok_or_else(|| UnknownProfile { name: name.clone(), nearest: self.nearest(&wanted) })
    }

    /// The profile most like a name that does not exist: same slices first, then like attributes, then memory.
    fn nearest(&self, wanted: &ProfileName) -> Option<ProfileName> {
        self.profiles
            .iter()
            .map(|profile| &profile.name)
            .min_by_key(|name| {
                let alike =
                    name.attributes() == wanted.attributes() && name.is_negative() == wanted.is_negative();
                (
                    name.gpu_slices().abs_diff(wanted.gpu_slices()),
                    !alike,
                    name.gigabytes().abs_diff(wanted.gigabytes()),
                )
            })
            .cloned()
    }

    /// Where an instance sits.
    pub fn placement(&self, placed: Placed) -> Option<Placement> {
        let profile = self.get(placed.profile)?;
        profile.placements.iter().copied().find(|placement| placement.start == placed.start)
    }
}
