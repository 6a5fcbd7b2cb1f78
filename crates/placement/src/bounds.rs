//! What no policy can beat: bounds on how full a fleet can get, from a linear programme.
//!
//! Nodes of one kind are pooled, GPUs are filled by every pattern of parts, CPUs are shared within a pool, and memory is left
//! out: whatever a real placement does, this can do too, so its optimum is a true upper bound.

use crate::claim::Claim;
use crate::fleet::Fleet;
use crate::policies::{most_filled, most_served};
use std::collections::BTreeMap;

/// Most GPUs that can be filled if any of the claims may be turned away, also those that would fit.
pub fn selective(fleet: &Fleet, claims: &[Claim]) -> Option<f64> {
    most_filled(fleet, &counted(fleet, claims))
}

/// How many of the claims, in their order, can all be served: no policy that turns nobody away gets further. Claims that fit
/// no untouched node are passed over. Found by halving, to within `within` claims, and on the side that can be served.
pub fn accepting_all(fleet: &Fleet, claims: &[Claim], within: usize) -> Option<usize> {
    let served = |count: usize| {
        let counted = counted(fleet, &claims[..count]);
        let all: u64 = counted.iter().map(|(_, count)| count).sum();
        most_served(fleet, &counted).map(|served| served > all as f64 - 0.5)
    };
    let (mut good, mut bad) = (0, claims.len() + 1);
    while bad - good > within.max(1) {
        let middle = (good + bad) / 2;
        if served(middle.min(claims.len()))? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good.min(claims.len()))
}

fn counted(fleet: &Fleet, claims: &[Claim]) -> Vec<(Claim, u64)> {
    let mut counts: BTreeMap<Claim, u64> = BTreeMap::new();
    for claim in claims {
        // Memory is not in the programme, so claims that differ in nothing else are one.
        let claim = Claim { memory: Default::default(), ..*claim };
        *counts.entry(claim).or_default() += 1;
    }
    let possible = |claim: &Claim| {
        fleet.classes().any(|(_, class)| class.shape.fits(&class.shape.untouched(), claim).is_ok())
    };
    counts.into_iter().filter(|(claim, _)| possible(claim)).collect()
}
