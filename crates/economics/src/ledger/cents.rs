//! Columns of cents that add up: what people read is rounded, and its sum must still be the sum.

use super::amount::Cost;
use crate::Money;

/// Amounts in whole cents whose sum is the rounded sum. Nobody is off by a cent or more.
pub fn in_cents(costs: &[Cost]) -> Vec<Money> {
    let sum = costs.iter().copied().sum::<Cost>().money().cents();
    let mut cents: Vec<(i128, u128)> = costs.iter().map(|cost| cost.cents_and_rest()).collect();
    let missing = sum - cents.iter().map(|(cents, _)| cents).sum::<i128>();
    let mut order: Vec<usize> = (0..cents.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(cents[*at].1));
    for at in order.into_iter().take(usize::try_from(missing).unwrap_or(0)) {
        cents[at].0 += 1;
    }
    cents.into_iter().map(|(cents, _)| Money::from_cents(cents)).collect()
}

#[cfg(test)]
mod tests {
    use super::in_cents;
    use crate::{Cost, Millis, Money, Rate};
    use proptest::prelude::*;

    #[test]
    fn three_thirds_of_a_cent_are_a_cent() {
        let third = Cost::of(Rate::from_micros(10_000), Millis(3_600_000)).divide(&[1, 1, 1]);
        let cents: Vec<String> = in_cents(&third).iter().map(Money::to_string).collect();
        assert_eq!(cents, ["$0.01", "$0.00", "$0.00"]);
    }

    proptest! {
        #[test]
        fn columns_add_up(times in proptest::collection::vec((0_u64..1_000_000_000, 0_u64..200_000_000), 0..30)) {
            let costs: Vec<Cost> =
                times.iter().map(|(time, rate)| Cost::of(Rate::from_micros(*rate), Millis(*time))).collect();
            let cents = in_cents(&costs);
            let sum: Money = cents.iter().copied().sum();
            let exact = costs.iter().copied().sum::<Cost>().money();
            prop_assert_eq!(sum.cents(), exact.cents());
            for (cost, rounded) in costs.iter().zip(&cents) {
                prop_assert!((cost.dollars() * 100.0 - rounded.cents() as f64).abs() < 1.0 + 1e-6);
            }
        }
    }
}
