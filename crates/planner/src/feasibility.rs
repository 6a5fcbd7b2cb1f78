//! Whether a GPU can hold a set of instances at all, and if not, why not and what comes nearest.

use crate::WantedInstance;
use carve_gpu_model::{Engine, Geometry, Placed, ProfileName, ProfileTable};
use std::fmt;
use thiserror::Error;

/// A geometry that does not fit, and the nearest one that does.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{asked} do not fit on this GPU together: {reason}")]
pub struct Infeasible {
    /// What was asked for.
    pub asked: Geometry,
    /// What runs out.
    pub reason: InfeasibleReason,
    /// The largest part of it that fits.
    pub nearest: Geometry,
}

/// What runs out first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InfeasibleReason {
    /// Too many of one profile.
    Count {
        /// The profile.
        profile: ProfileName,
        /// How many were asked for.
        asked: u64,
        /// How many may exist.
        most: u8,
    },
    /// Too many compute slices.
    ComputeSlices {
        /// Sum over the instances.
        asked: u64,
        /// What the GPU has.
        available: u8,
    },
    /// Too many memory slots.
    Slots {
        /// Sum over the instances.
        asked: u64,
        /// What the GPU has.
        available: u8,
    },
    /// Too many engines of a kind.
    Engines {
        /// The kind.
        engine: Engine,
        /// Sum over the instances.
        asked: u64,
        /// What the GPU has.
        available: u8,
    },
    /// The sums would fit, but the places do not work out.
    Places,
}

impl fmt::Display for InfeasibleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InfeasibleReason::Count { profile, asked, most } => {
                write!(f, "{asked}× {profile}, but at most {most} can exist")
            }
            InfeasibleReason::ComputeSlices { asked, available } => {
                write!(f, "they take {asked} compute slices of {available}")
            }
            InfeasibleReason::Slots { asked, available } => {
                write!(f, "they take {asked} memory slots of {available}")
            }
            InfeasibleReason::Engines { engine, asked, available } => {
                write!(f, "they take {asked} {engine} engines of {available}")
            }
            InfeasibleReason::Places => f.write_str("no arrangement of their slots works out"),
        }
    }
}

/// Number of wanted instances of each profile, in table order.
pub(crate) fn counts(table: &ProfileTable, instances: &[WantedInstance]) -> Vec<u32> {
    let mut counts = vec![0; table.profiles().len()];
    for instance in instances {
        if let Some(count) = counts.get_mut(usize::from(instance.profile.0)) {
            *count += 1;
        }
    }
    counts
}

/// One placement of the instances on an empty GPU, or why there is none.
pub fn feasible(table: &ProfileTable, instances: &[WantedInstance]) -> Result<Vec<Placed>, Infeasible> {
    let counts = counts(table, instances);
    let mut found = None;
    table.visit_arrangements(&[], &counts, |state| {
        found = Some(state.to_vec());
        false
    });
    found.ok_or_else(|| explain(table, &counts))
}

pub(crate) fn explain(table: &ProfileTable, counts: &[u32]) -> Infeasible {
    let names = || table.profiles().iter().zip(counts).filter(|(_, count)| **count > 0);
    let asked: Geometry = names().map(|(profile, count)| (profile.name.clone(), *count)).collect();
    let sum = |each: &dyn Fn(&carve_gpu_model::GpuProfile) -> u8| -> u64 {
        names().map(|(profile, count)| u64::from(each(profile)) * u64::from(*count)).sum()
    };
    let over = names().find(|(profile, count)| **count > u32::from(profile.max_instances));
    let slices = sum(&|profile| profile.slices);
    let slots = sum(&|profile| profile.size());
    let engine = table.engines().each().into_iter().enumerate().find_map(|(kind, (engine, available))| {
        let asked = sum(&|profile| profile.engines.each()[kind].1);
        (asked > u64::from(available)).then_some(InfeasibleReason::Engines { engine, asked, available })
    });
    let reason = if let Some((profile, count)) = over {
        InfeasibleReason::Count {
            profile: profile.name.clone(),
            asked: u64::from(*count),
            most: profile.max_instances,
        }
    } else if slices > u64::from(table.compute_slices()) {
        InfeasibleReason::ComputeSlices { asked: slices, available: table.compute_slices() }
    } else if slots > u64::from(table.slots()) {
        InfeasibleReason::Slots { asked: slots, available: table.slots() }
    } else {
        engine.unwrap_or(InfeasibleReason::Places)
    };
    Infeasible { asked, reason, nearest: nearest(table, counts) }
}

/// The largest part of the counts that fits: most compute slices first, then most instances.
fn nearest(table: &ProfileTable, counts: &[u32]) -> Geometry {
    let within =
        |known: &&Vec<u8>| known.iter().zip(counts).all(|(known, asked)| u32::from(*known) <= *asked);
    let worth = |known: &&Vec<u8>| {
        let slices: u32 = known
            .iter()
            .zip(table.profiles())
            .map(|(count, profile)| u32::from(*count) * u32::from(profile.slices))
            .sum();
        (slices, known.iter().map(|count| u32::from(*count)).sum::<u32>())
    };
    let geometries = table.geometries();
    let best = geometries.keys().filter(within).max_by_key(worth);
    let pairs = best.into_iter().flatten().zip(table.profiles());
    pairs.map(|(count, profile)| (profile.name.clone(), u32::from(*count))).collect()
}
