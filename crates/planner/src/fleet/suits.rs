//! Which profiles of a GPU serve a claim.

use super::{Substitution, Wants};
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

/// The profiles of a table that serve a claim.
pub(super) fn suiting(table: &ProfileTable, wants: &Wants, substitution: Substitution) -> Profiles {
    let asked = match wants {
        Wants::Profile(name) if !name.is_whole() => None,
        Wants::Profile(name) => table.by_name(name).ok().map(|(_, profile)| profile),
        Wants::AtLeast { .. } => None,
    };
    let serves = |profile: &GpuProfile| match (wants, asked) {
        (Wants::Profile(_), None) => false,
        (Wants::Profile(_), Some(asked)) => {
            profile.name == asked.name || substitution == Substitution::Larger && holds(profile, asked)
        }
        (Wants::AtLeast { memory, slices }, _) => {
            profile.slices >= *slices && profile.memory.is_some_and(|known| known.value >= *memory)
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
