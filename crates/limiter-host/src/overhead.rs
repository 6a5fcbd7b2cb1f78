//! What processes of a share have on the GPU beyond what they count: code and globals of modules, and contexts that took more than was known.
//!
//! The driver's figure and what is counted are never of one moment: what is freed or allocated in between looks like overhead, or hides it. So
//! what counts is the least of some looks in a row. It lowers what can still be allocated, and takes nothing away from anybody.

use std::collections::VecDeque;

/// How many looks; the agent's are 2 s apart.
const LOOKS: usize = 5;

/// Differences of late between what the driver shows and what is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overhead {
    beyond: VecDeque<i128>,
}

impl Overhead {
    /// One more look: what the driver shows for all processes of the share, and what they count. Answers what the share is to be charged, once
    /// there were enough looks. Where the driver does not tell, whatever was said before stays.
    pub fn look(&mut self, shown: Option<u64>, counted: u64) -> Option<u64> {
        let shown = shown?;
        self.beyond.push_back(i128::from(shown) - i128::from(counted));
        if self.beyond.len() > LOOKS {
            self.beyond.pop_front();
        }
        let least = self.beyond.iter().copied().min().filter(|_| self.beyond.len() == LOOKS)?;
        Some(u64::try_from(least).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::{LOOKS, Overhead};

    /// What comes of looks at what is shown and counted.
    fn after(looks: &[(u64, u64)]) -> Option<u64> {
        let mut overhead = Overhead::default();
        looks.iter().map(|&(shown, counted)| overhead.look(Some(shown), counted)).last().flatten()
    }

    #[test]
    fn what_is_shown_beyond_what_is_counted_is_charged_after_some_looks() {
        assert_eq!(after(&[(80, 30); LOOKS - 1]), None);
        assert_eq!(after(&[(80, 30); LOOKS]), Some(50));
        assert_eq!(after(&[(30, 80); LOOKS]), Some(0), "memory that is not there yet is no overhead");
    }

    #[test]
    fn memory_that_comes_and_goes_is_never_taken_for_overhead() {
        // A thousand bytes are allocated or freed between the driver's look and ours.
        let mut looks = vec![(1_050, 1_000), (1_050, 0), (50, 0), (1_050, 0), (50, 1_000)];
        assert_eq!(after(&looks), Some(0));
        looks.extend([(1_050, 1_000); LOOKS - 1]);
        assert_eq!(after(&looks), Some(0), "one look showed less");
        looks.push((50, 0));
        assert_eq!(after(&looks), Some(50));
    }

    #[test]
    fn what_is_gone_is_charged_no_longer_and_what_is_not_told_changes_nothing() {
        let mut overhead = Overhead::default();
        let mut said = None;
        for _ in 0..LOOKS {
            said = overhead.look(Some(80), 30);
        }
        assert_eq!((said, overhead.look(None, 30)), (Some(50), None));
        assert_eq!(overhead.look(Some(35), 30), Some(5), "at once");
    }
}
