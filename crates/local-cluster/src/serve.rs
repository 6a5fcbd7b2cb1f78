//! Who gets how much of a GPU's time where several want it.

/// What somebody wants of a unit's time, and the most that it may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Wish {
    pub(crate) wants: f64,
    pub(crate) most: f64,
}

/// What each gets: all that it wants up to what it may have; where that is more than there is, what is there is divided evenly among those who
/// want more than that.
pub(crate) fn served(wishes: &[Wish]) -> Vec<f64> {
    let wanted: Vec<f64> = wishes.iter().map(|wish| wish.wants.min(wish.most).max(0.0)).collect();
    let mut got = vec![0.0; wanted.len()];
    let mut left = 1.0_f64;
    let mut open: Vec<usize> = (0..wanted.len()).collect();
    while !open.is_empty() && left > 1e-12 {
        let each = left / open.len() as f64;
        let (small, large): (Vec<usize>, Vec<usize>) = open.iter().partition(|one| wanted[**one] <= each);
        if small.is_empty() {
            for one in large {
                got[one] = each;
            }
            return got;
        }
        for one in small {
            got[one] = wanted[one];
            left -= wanted[one];
        }
        open = large;
    }
    got
}

#[cfg(test)]
mod tests {
    use super::{Wish, served};
    use proptest::prelude::{prop, proptest};

    fn wish(wants: f64, most: f64) -> Wish {
        Wish { wants, most }
    }

    #[test]
    fn small_wishes_are_met_and_the_rest_is_divided() {
        assert_eq!(served(&[wish(0.2, 1.0), wish(0.9, 1.0), wish(0.9, 1.0)]), [0.2, 0.4, 0.4]);
        assert_eq!(served(&[wish(0.9, 0.25), wish(0.9, 0.5)]), [0.25, 0.5]);
        assert_eq!(served(&[]), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_it_wants_and_all_together_not_more_than_there_is(
            wishes in prop::collection::vec((0.0..2.0_f64, 0.0..1.0_f64), 0..9)
        ) {
            let wishes: Vec<Wish> = wishes.into_iter().map(|(wants, most)| wish(wants, most)).collect();
            let got = served(&wishes);
            let sum: f64 = got.iter().sum();
            assert!(sum <= 1.0 + 1e-9);
            for (wish, got) in wishes.iter().zip(&got) {
                assert!(*got <= wish.wants.min(wish.most) + 1e-9);
            }
            // Nothing is left over while somebody wants more.
            let unmet = wishes.iter().zip(&got).any(|(wish, got)| *got < wish.wants.min(wish.most) - 1e-9);
            assert!(!unmet || sum > 1.0 - 1e-9);
        }
    }
}
