//! Which slot the driver takes when a program asks for an instance without saying where.
//!
//! NVIDIA documents no rule. This one is inferred from published logs and reproduces all of them: the legal start
//! that closes the fewest other (profile, start) pairs, the lowest of equals. The simulated driver follows it;
//! carve itself always names the slot.

use crate::{Placed, ProfileSlot, ProfileTable};

impl ProfileTable {
    /// The start slot the driver would choose for one more instance, or `None` where it does not fit.
    pub fn driver_choice(&self, instances: &[Placed], profile: ProfileSlot) -> Option<u8> {
        self.open_starts(instances, profile).into_iter().max_by_key(|start| {
            let mut after = instances.to_vec();
            after.push(Placed { profile, start: *start });
            let still_open: usize =
                self.enumerate().map(|(other, _)| self.open_starts(&after, other).len()).sum();
            (still_open, std::cmp::Reverse(*start))
        })
    }
}
