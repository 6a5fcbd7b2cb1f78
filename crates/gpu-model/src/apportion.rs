//! An amount divided by weights so that the parts sum up to it again.

/// Divides an amount. What rounding leaves over goes one by one to those who lost most by it, the first among equals. Without any weight nobody
/// gets anything.
pub fn apportion(amount: u128, weights: &[u64]) -> Vec<u128> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    // Weights whose sum needs more than 64 bits lose their last ones, so that no product overflows.
    let shift = 64_u32.saturating_sub(sum.leading_zeros());
    let weights: Vec<u128> = weights.iter().map(|weight| u128::from(*weight) >> shift).collect();
    let sum: u128 = weights.iter().sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let (whole, rest) = (amount / sum, amount % sum);
    let part = |weight: &u128| (whole * weight + rest * weight / sum, rest * weight % sum);
    let mut parts: Vec<(u128, u128)> = weights.iter().map(part).collect();
    let given: u128 = parts.iter().map(|(part, _)| part).sum();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(parts[*at].1));
    for at in order.into_iter().take(usize::try_from(amount - given).unwrap_or(usize::MAX)) {
        parts[at].0 += 1;
    }
    parts.into_iter().map(|(part, _)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::apportion;
    use proptest::prelude::*;

    #[test]
    fn thirds_add_up() {
        assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(apportion(10, &[0, 1, 3]), [0, 3, 7], "halves go to the first");
        assert_eq!(apportion(10, &[0, 0]), [0, 0]);
        assert_eq!(apportion(10, &[]), [0_u128; 0]);
    }

    proptest! {
        #[test]
        fn parts_add_up_and_nobody_is_off_by_more_than_one(
            amount in 0_u128..1 << 100,
            weights in proptest::collection::vec(prop_oneof![any::<u64>(), 0_u64..10], 1..20),
        ) {
            let parts = apportion(amount, &weights);
            let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
            if sum > 0 {
                prop_assert_eq!(parts.iter().sum::<u128>(), amount);
            }
            for (part, weight) in parts.iter().zip(&weights) {
                let ideal = if sum == 0 { 0.0 } else { amount as f64 * (*weight as f64 / sum as f64) };
                prop_assert!((*part as f64 - ideal).abs() <= 1.0 + amount as f64 * 1e-12);
                prop_assert!(*weight > 0 || *part == 0);
            }
        }
    }
}
