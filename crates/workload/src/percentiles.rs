//! Percentiles of what was written down, by the nearest rank.

/// The value that so many of a hundred do not exceed; 0 of nothing. Sorts what it is given.
pub(crate) fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::percentile;
    use proptest::prelude::{prop, prop_assert, proptest};

    #[test]
    fn the_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            [50.0, 95.0, 99.0, 100.0].map(|percent| percentile(&hundred, percent)),
            [50.0, 95.0, 99.0, 100.0]
        );
        assert_eq!(percentile(&[7.0], 99.0), 7.0);
        assert_eq!(percentile(&[], 50.0), 0.0);
    }

    proptest! {
        #[test]
        fn no_fewer_than_so_many_are_below(mut values in prop::collection::vec(0f64..1e6, 1..200), percent in 1f64..100.0) {
            values.sort_by(f64::total_cmp);
            let found = percentile(&values, percent);
            let below = values.iter().filter(|value| **value <= found).count();
            prop_assert!(below as f64 >= percent / 100.0 * values.len() as f64);
        }
    }
}
