//! Costs that are divided without losing anything.

use crate::{Money, Rate};
use carve_gpu_model::apportion;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// What time on a machine costs, exactly: millionths of a dollar for an hour, times milliseconds. Whatever is divided adds up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cost(u128);

/// Milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

/// How many of our unit are a millionth of a dollar.
const PER_MICRO: u128 = 3_600_000;

impl Cost {
    /// Nothing.
    pub const ZERO: Cost = Cost(0);

    /// What a machine costs for a while.
    pub fn of(rate: Rate, time: Millis) -> Self {
        Cost(u128::from(rate.micros()) * u128::from(time.0))
    }

    /// The amount as it is written into documents: 3,600,000,000,000 to the dollar.
    pub(super) fn exact(self) -> u64 {
        u64::try_from(self.0).unwrap_or(u64::MAX)
    }

    pub(super) fn from_exact(amount: u64) -> Self {
        Cost(u128::from(amount))
    }

    /// The amount in millionths of a dollar, rounded down.
    pub fn micros(self) -> u128 {
        self.0 / PER_MICRO
    }

    /// The amount, to a millionth of a dollar.
    pub fn money(self) -> Money {
        let micros = (self.0 + PER_MICRO / 2) / PER_MICRO;
        Money::from_micros(i128::try_from(micros).unwrap_or(i128::MAX))
    }

    /// Whole cents, and what is left of the amount.
    pub(super) fn cents_and_rest(self) -> (i128, u128) {
        let per_cent = PER_MICRO * 10_000;
        (i128::try_from(self.0 / per_cent).unwrap_or(i128::MAX), self.0 % per_cent)
    }

    /// The amount in dollars, for programs that want a float.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / (PER_MICRO as f64 * 1e6)
    }

    /// Divides by weights, so that the parts sum up to it.
    pub fn divide(self, weights: &[u64]) -> Vec<Cost> {
        apportion(self.0, weights).into_iter().map(Cost).collect()
    }

    /// Takes a part away: what is taken, and what is left.
    pub fn take(self, part: Parts) -> (Cost, Cost) {
        let both = self.divide(&[u64::from(part.0.min(Parts::ALL.0)), u64::from(part.rest().0)]);
        (both[0], both[1])
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost(self.0 + other.0)
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.0 += other.0;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::ZERO, Add::add)
    }
}

/// A part of something, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Parts(pub u32);

impl Parts {
    /// Nothing.
    pub const NONE: Parts = Parts(0);
    /// Everything.
    pub const ALL: Parts = Parts(1_000_000);

    /// So many of so many; of nothing, nothing. Never more than everything.
    pub fn of(some: u64, all: u64) -> Self {
        if all == 0 {
            return Parts::NONE;
        }
        let parts = u128::from(some) * u128::from(Parts::ALL.0) / u128::from(all);
        Parts(u32::try_from(parts).unwrap_or(u32::MAX).min(Parts::ALL.0))
    }

    /// What is left of everything.
    #[must_use]
    pub fn rest(self) -> Self {
        Parts(Parts::ALL.0.saturating_sub(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, Millis, Parts};
    use crate::Rate;
    use proptest::prelude::*;

    #[test]
    fn an_hour_costs_its_rate() {
        let hour = Cost::of(Rate::from_micros(752_000), Millis(3_600_000));
        assert_eq!((hour.micros(), hour.money().to_string()), (752_000, "$0.75".to_owned()));
        assert!((hour.dollars() - 0.752).abs() < 1e-12);
        let month = Cost::of(Rate::from_micros(752_000), Millis(720 * 3_600_000));
        assert_eq!(month.money().to_string(), "$541.44");
    }

    #[test]
    fn a_half_and_the_rest() {
        assert_eq!(Cost(7).take(Parts::of(1, 2)), (Cost(4), Cost(3)));
        assert_eq!(Cost(7).take(Parts::NONE), (Cost(0), Cost(7)));
    }

    proptest! {
        #[test]
        fn a_part_is_never_more_than_everything(some in any::<u64>(), all in any::<u64>()) {
            let part = Parts::of(some, all);
            prop_assert!(part <= Parts::ALL);
            prop_assert_eq!(part.0 + part.rest().0, Parts::ALL.0);
        }
    }
}
