//! What a fleet is usually asked for: kinds of claims and how common each is.

use crate::claim::Claim;

/// A kind of claim, and its part of all claims.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Typical {
    /// The claim.
    pub claim: Claim,
    /// Its part of all claims; the parts sum to one.
    pub part: f64,
}

/// What a fleet is usually asked for. The order counts: sums are formed in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Workload {
    kinds: Vec<Typical>,
}

impl Workload {
    /// From kinds whose parts are known.
    pub fn new(kinds: Vec<Typical>) -> Self {
        Workload { kinds }
    }

    /// From how often each kind was seen, the most common kinds that together make up `coverage` percent of all. What is seen
    /// once in a thousand times should not decide where everything else goes.
    pub fn seen<K: Ord>(counts: impl IntoIterator<Item = (K, Claim, u64)>, coverage: u64) -> Self {
        let mut counts: Vec<(K, Claim, u64)> = counts.into_iter().filter(|(_, _, seen)| *seen > 0).collect();
        counts.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| b.0.cmp(&a.0)));
        let total: u64 = counts.iter().map(|(_, _, seen)| seen).sum();
        let enough = (total * coverage).div_ceil(100);
        let mut sum = 0;
        let mut kinds = Vec::new();
        for (_, claim, seen) in counts {
            if sum >= enough {
                break;
            }
            sum += seen;
            kinds.push((claim, seen));
        }
        // Each part is a quotient of two quotients because published decisions hang on the last bit of it.
        let (total, covered) = (total as f64, sum as f64 / total as f64);
        let part = |seen: u64| (seen as f64 / total) / covered;
        Workload {
            kinds: kinds.into_iter().map(|(claim, seen)| Typical { claim, part: part(seen) }).collect(),
        }
    }

    /// The kinds, the most common first.
    pub fn kinds(&self) -> &[Typical] {
        &self.kinds
    }
}
