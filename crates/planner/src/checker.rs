//! A second opinion on a diff: checks it step by step without knowing how it was found.

use crate::{PresentInstance, Recut, WantedInstance};
use carve_gpu_model::{Illegal, Placed, ProfileTable};
use thiserror::Error;

/// What is wrong with a diff.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Flaw {
    /// An instance is neither kept nor destroyed, or both.
    #[error("instance at slot {0} is not accounted for exactly once")]
    Unaccounted(u8),
    /// An instance in use would go.
    #[error("instance at slot {0} is in use and would be destroyed")]
    DestroysInUse(u8),
    /// The GPU would refuse the result.
    #[error("the result is not legal: {0}")]
    Illegal(#[from] Illegal),
    /// The result is not the target.
    #[error("the result differs from the target")]
    WrongResult,
}

/// Whether a diff leads from `present` to `target` without destroying anything in use.
pub fn verify(
    table: &ProfileTable,
    present: &[PresentInstance],
    target: &[WantedInstance],
    recut: &Recut,
) -> Result<(), Flaw> {
    let mut result: Vec<(Placed, Vec<u8>)> = Vec::new();
    for instance in present {
        let kept: Vec<_> = recut.keep.iter().filter(|kept| kept.id == instance.id).collect();
        let destroyed = recut.destroy.iter().filter(|gone| gone.id == instance.id).count();
        if kept.len() + destroyed != 1 {
            return Err(Flaw::Unaccounted(instance.placed.start));
        }
        let Some(kept) = kept.first() else {
            if instance.in_use() {
                return Err(Flaw::DestroysInUse(instance.placed.start));
            }
            continue;
        };
        let mut division = kept.create.clone();
        for part in &instance.compute {
            match (kept.destroy.contains(&part.id), part.in_use) {
                (true, true) => return Err(Flaw::DestroysInUse(instance.placed.start)),
                (true, false) => {}
                (false, _) => division.push(part.slices),
            }
        }
        result.push((instance.placed, division));
    }
    result.extend(recut.create.iter().map(|created| (created.placed, created.compute.clone())));
    let places: Vec<Placed> = result.iter().map(|(placed, _)| *placed).collect();
    table.check(&places)?;
    let sorted = |mut division: Vec<u8>| {
        division.sort_unstable();
        division
    };
    let mut found: Vec<_> =
        result.into_iter().map(|(placed, division)| (placed.profile, sorted(division))).collect();
    let mut asked: Vec<_> =
        target.iter().map(|wanted| (wanted.profile, sorted(wanted.compute.clone()))).collect();
    found.sort_unstable();
    asked.sort_unstable();
    if found == asked { Ok(()) } else { Err(Flaw::WrongResult) }
}
