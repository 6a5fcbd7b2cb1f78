//! The one function that says whether a set of instances may exist together, and why not.

use crate::{Engine, Placed, Placement, ProfileName, ProfileTable, SlotMask};
use thiserror::Error;

/// Why a set of instances can not exist on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Illegal {
    /// The table has no such profile.
    #[error("profile {0} of the table does not exist")]
    NoSuchProfile(u8),
    /// The profile may not start at that slot.
    #[error("{profile} can not start at slot {start}; legal starts are {legal:?}")]
    Start {
        /// The profile.
        profile: ProfileName,
        /// The slot asked for.
        start: u8,
        /// Where it may start.
        legal: Vec<u8>,
    },
    /// Two instances want the same slot.
    #[error("{first} at slots {at} and {second} at slots {other} overlap")]
    Overlap {
        /// The instance listed first.
        first: ProfileName,
        /// Its slots.
        at: Placement,
        /// The instance listed later.
        second: ProfileName,
        /// Its slots.
        other: Placement,
    },
    /// More instances of a profile than the GPU allows.
    #[error("{count} instances of {profile}, but at most {most} can exist")]
    Count {
        /// The profile.
        profile: ProfileName,
        /// How many were asked for.
        count: usize,
        /// How many may exist.
        most: u8,
    },
    /// More compute slices than the GPU has.
    #[error("{asked} compute slices, but the GPU has {available}")]
    ComputeSlices {
        /// Sum over the instances.
        asked: u32,
        /// What the GPU has.
        available: u8,
    },
    /// More engines of a kind than the GPU has.
    #[error("{asked} {engine} engines, but the GPU has {available}")]
    Engines {
        /// The kind that runs out.
        engine: Engine,
        /// Sum over the instances.
        asked: u32,
        /// What the GPU has.
        available: u8,
    },
}

impl ProfileTable {
    /// Whether these instances may exist together. The first reason found is told, in the order of [`Illegal`].
    pub fn check(&self, instances: &[Placed]) -> Result<(), Illegal> {
        let mut taken = SlotMask::EMPTY;
        let mut slices = 0u32;
        let mut engines = [0u32; 5];
        for (position, placed) in instances.iter().enumerate() {
            let profile = self.get(placed.profile).ok_or(Illegal::NoSuchProfile(placed.profile.0))?;
            let placement = self.placement(*placed).ok_or_else(|| Illegal::Start {
                profile: profile.name.clone(),
                start: placed.start,
                legal: profile.placements.iter().map(|placement| placement.start).collect(),
            })?;
            let mask = placement.mask();
            if taken.overlaps(mask) {
                return Err(self.overlap(&instances[..position], *placed, placement));
            }
            taken = taken.union(mask);
            slices += u32::from(profile.slices);
            for (sum, (_, number)) in engines.iter_mut().zip(profile.engines.each()) {
                *sum += u32::from(number);
            }
            let count = instances[..=position].iter().filter(|other| other.profile == placed.profile).count();
            if count > usize::from(profile.max_instances) {
                let count = instances.iter().filter(|other| other.profile == placed.profile).count();
                return Err(Illegal::Count {
                    profile: profile.name.clone(),
                    count,
                    most: profile.max_instances,
                });
            }
        }
        if slices > u32::from(self.compute_slices()) {
            return Err(Illegal::ComputeSlices { asked: slices, available: self.compute_slices() });
        }
        for (asked, (engine, available)) in engines.into_iter().zip(self.engines().each()) {
            if asked > u32::from(available) {
                return Err(Illegal::Engines { engine, asked, available });
            }
        }
        Ok(())
    }

    fn overlap(&self, earlier: &[Placed], placed: Placed, placement: Placement) -> Illegal {
        let name = |placed: Placed| self.get(placed.profile).map(|profile| profile.name.clone());
        let clash = earlier.iter().find_map(|other| {
            let at = self.placement(*other)?;
            at.mask().overlaps(placement.mask()).then_some((name(*other)?, at))
        });
        match (clash, name(placed)) {
            (Some((first, at)), Some(second)) => Illegal::Overlap { first, at, second, other: placement },
            // Can not be: an overlap needs an earlier instance with a legal placement.
            _ => Illegal::NoSuchProfile(placed.profile.0),
        }
    }
}
