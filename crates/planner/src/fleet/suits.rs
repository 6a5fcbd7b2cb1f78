//! Which profiles of a GPU serve a claim.

use super::{PoolName, Substitution, Wants};
use carve_gpu_model::{GpuProfile, ProfileTable};

/// A set of profiles of one table, by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Profiles(u32);

impl Profiles {
    pub(super) fn has(self, position: usize) -> bool {
        position < 32 && self.0 & (1 << position) != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn union(self, other: Profiles) -> Profiles {
        Profiles(self.0 | other.0)
    }
}

/// The profiles of a table in a pool that serve a claim.
pub(super) fn suiting(
    table: &ProfileTable,
    pool: &PoolName,
    wants: &Wants,
    substitution: Substitution,
) -> Profiles {
    let named = match wants {
        Wants::Profile(name) => Some(name),
        Wants::InPools(names) => names.get(pool),
        Wants::AtLeast { .. } => None,
    };
    let named = named.filter(|name| name.is_whole());
    let asked = named.and_then(|name| table.by_name(name).ok()).map(|(_, profile)| profile);
    let serves = |profile: &GpuProfile| match (wants, asked) {
        (Wants::AtLeast { memory, slices }, _) => {
            profile.slices >= *slices && profile.memory.is_some_and(|known| known.value >= *memory)
        }
        (_, None) => false,
        (_, Some(asked)) => {
            profile.name == asked.name || substitution == Substitution::Larger && holds(profile, asked)
        }
    };
    // NVML knows 18 profiles, so 32 are enough for any table.
    let bits = table.profiles().iter().take(32).enumerate().filter(|(_, profile)| serves(profile));
    Profiles(bits.map(|(position, _)| 1 << position).sum())
}

/// Whether a profile has at least as much of everything as another.
fn holds(profile: &GpuProfile, asked: &GpuProfile) -> bool {
    let graphics = |profile: &GpuProfile| profile.name.attributes().iter().any(|name| name == "gfx");
    let engines = profile.engines.each().into_iter().zip(asked.engines.each());
    profile.slices >= asked.slices
        && profile.size() >= asked.size()
        && (graphics(profile) || !graphics(asked))
        && engines.into_iter().all(|((_, has), (_, needs))| has >= needs)
}
