//! What no plan can exceed: every kind of claim gets a price, and a GPU serves at most what pays best.
//!
//! Take any prices between 0 and 1. A plan serves (claims served at their price) plus (claims served at the rest of their worth). The
//! first is at most the price of all claims that wait, the second at most the best that each GPU can do alone. So whatever the prices,
//! their sum is a bound; good prices make it tight. Whole numbers throughout, so rounding can not make it wrong.

use super::cuts::Cuts;

/// One claim, in the unit of prices. Divisible by 1 to 12, so that the usual fractions are exact.
pub(super) const CLAIM: i64 = 27_720 * 64;

/// Prices of the kinds of claims.
#[derive(Debug, Clone)]
pub(super) struct Prices(Vec<i64>);

impl Prices {
    /// Good prices for so many claims of each kind on so many GPUs of each kind.
    pub(super) fn find(waiting: &[u32], kinds: &[(&Cuts, usize)]) -> Prices {
        let mut best = Prices(vec![0; waiting.len()]);
        let mut least = best.bound(waiting, kinds);
        let mut at = Prices(vec![CLAIM / 2; waiting.len()]);
        // Downhill: a kind that is served more than it waits gets dearer, one that is served less gets cheaper.
        for step in 1..=200i64 {
            let mut excess: Vec<i64> = waiting.iter().map(|number| -i64::from(*number)).collect();
            for (cuts, number) in kinds {
                if let Some(choice) = cuts.choices.iter().max_by_key(|choice| at.gain(&choice.served)) {
                    for (excess, served) in excess.iter_mut().zip(&choice.served) {
                        *excess += i64::from(*served) * *number as i64;
                    }
                }
            }
            let total: i64 = excess.iter().map(|excess| excess.abs()).sum();
            if total == 0 {
                break;
            }
            for (price, excess) in at.0.iter_mut().zip(&excess) {
                *price = (*price + excess * CLAIM / (total * (1 + step / 8))).clamp(0, CLAIM);
            }
            least = best.take_if_lower(&at, least, waiting, kinds);
        }
        // One price at a time, with smaller and smaller steps.
        for halving in 1..=10 {
            for kind in 0..waiting.len() {
                for change in [CLAIM >> halving, -(CLAIM >> halving)] {
                    let mut changed = best.clone();
                    changed.0[kind] = (changed.0[kind] + change).clamp(0, CLAIM);
                    least = best.take_if_lower(&changed, least, waiting, kinds);
                }
            }
        }
        best
    }

    fn take_if_lower(
        &mut self,
        other: &Prices,
        least: i64,
        waiting: &[u32],
        kinds: &[(&Cuts, usize)],
    ) -> i64 {
        let bound = other.bound(waiting, kinds);
        if bound < least {
            *self = other.clone();
            return bound;
        }
        least
    }

    /// What the claims that wait are worth at these prices.
    pub(super) fn of_waiting(&self, waiting: impl Iterator<Item = u32>) -> i64 {
        self.0.iter().zip(waiting).map(|(price, number)| price * i64::from(number)).sum()
    }

    /// What a choice gains beyond prices.
    pub(super) fn gain(&self, served: &[u32]) -> i64 {
        self.0.iter().zip(served).map(|(price, number)| (CLAIM - price) * i64::from(*number)).sum()
    }

    /// The most that a GPU can gain.
    pub(super) fn best_gain(&self, cuts: &Cuts) -> i64 {
        cuts.choices.iter().map(|choice| self.gain(&choice.served)).max().unwrap_or(0)
    }

    /// The bound in claims: never more than wait, whatever the prices are worth.
    pub(super) fn claims(&self, waiting: &[u32], kinds: &[(&Cuts, usize)]) -> i64 {
        let all: i64 = waiting.iter().map(|number| i64::from(*number)).sum();
        (self.bound(waiting, kinds) / CLAIM).min(all)
    }

    /// The bound, in units of [`CLAIM`].
    pub(super) fn bound(&self, waiting: &[u32], kinds: &[(&Cuts, usize)]) -> i64 {
        let gains: i64 = kinds.iter().map(|(cuts, number)| self.best_gain(cuts) * *number as i64).sum();
        self.of_waiting(waiting.iter().copied()) + gains
    }
}
