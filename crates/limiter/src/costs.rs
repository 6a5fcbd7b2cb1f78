//! How long pieces of work take, learnt from those that were measured.

use crate::pages::fresh;

/// How many kinds of work are told apart; a power of two.
const KINDS: usize = 8_192;

/// What is longer than this is measured every time.
const LONG: u64 = 300_000;

/// A kind of work: a function and the size of its grid, or a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind(u64);

impl Kind {
    /// From whatever tells kinds apart.
    pub(crate) fn of(words: &[u64]) -> Self {
        let mix = |hash: u64, word: &u64| (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        Kind(words.iter().fold(0x51_7C_C1_B7, mix).max(1))
    }
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Cost {
    kind: u64,
    nanoseconds: u64,
    /// How often it was started since it was first measured.
    times: u32,
    /// How often it was measured.
    measured: u32,
}

/// What kinds of work take. Zeros are one that knows nothing.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Costs {
    all: *mut Cost,
}

// SAFETY: its memory is its own.
unsafe impl Send for Costs {}

impl Costs {
    fn place(&mut self, kind: Kind) -> Option<&mut Cost> {
        if self.all.is_null() {
            let size = KINDS * size_of::<Cost>();
            self.all = fresh(size)?.cast();
        }
        // SAFETY: that many were mapped.
        let all = unsafe { core::slice::from_raw_parts_mut(self.all, KINDS) };
        let home = kind.0 as usize & (KINDS - 1);
        // A few places to look at; where all are taken the first gives way and is learnt again when it comes back.
        let mut at = home;
        for step in 0..4 {
            let here = (home + step) & (KINDS - 1);
            if all[here].kind == kind.0 || all[here].kind == 0 {
                at = here;
                break;
            }
        }
        let cost = &mut all[at];
        if cost.kind != kind.0 {
            *cost = Cost { kind: kind.0, nanoseconds: 0, times: 0, measured: 0 };
        }
        Some(cost)
    }

    /// What a kind takes, if that is known, and whether it should be measured this time. It counts as started once more.
    pub(crate) fn start(&mut self, kind: Kind) -> (Option<u64>, bool) {
        let Some(cost) = self.place(kind) else { return (Some(0), false) };
        cost.times = cost.times.wrapping_add(1);
        if cost.measured == 0 {
            return (None, true);
        }
        // Often at first, then now and then; a power of two less one, so that no rhythm of the program is met for long.
        // Long ones always: two events are nothing beside them.
        let due = cost.measured < 8 || cost.times.is_multiple_of(31) || cost.nanoseconds >= LONG;
        (Some(cost.nanoseconds), due)
    }

    /// What a kind takes, without starting it.
    pub(crate) fn known(&mut self, kind: Kind) -> Option<u64> {
        self.place(kind).filter(|cost| cost.measured > 0).map(|cost| cost.nanoseconds)
    }

    /// A piece was measured.
    pub(crate) fn learn(&mut self, kind: Kind, nanoseconds: u64) {
        let Some(cost) = self.place(kind) else { return };
        // The mean of the first few, later ones weigh an eighth; one that is quite another begins anew, for the program has changed.
        let other =
            cost.measured > 0 && (nanoseconds > 4 * cost.nanoseconds || cost.nanoseconds > 4 * nanoseconds);
        cost.measured = if other { 1 } else { cost.measured };
        let weight = u64::from(cost.measured.min(7) + 1);
        let moved = (nanoseconds as i64 - cost.nanoseconds as i64) / weight as i64;
        cost.nanoseconds = cost.nanoseconds.saturating_add_signed(moved);
        cost.measured = cost.measured.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{Costs, Kind};

    #[test]
    fn costs_are_learnt() {
        let mut costs = Costs { all: core::ptr::null_mut() };
        let (one, other) = (Kind::of(&[1, 2, 3]), Kind::of(&[1, 2, 4]));
        assert_eq!(costs.start(one), (None, true));
        costs.learn(one, 1_000);
        assert_eq!(costs.start(one).0, Some(1_000));
        assert_eq!(costs.known(other), None);
        for _ in 0..100 {
            costs.learn(one, 3_000);
        }
        assert!(costs.known(one).is_some_and(|cost| (2_980..=3_000).contains(&cost)));
        let measured = (0..3_100).filter(|_| costs.start(one).1).count();
        assert_eq!(measured, 100);
    }

    #[test]
    fn more_kinds_than_places_are_no_harm() {
        let mut costs = Costs { all: core::ptr::null_mut() };
        for number in 0..100_000u64 {
            let kind = Kind::of(&[number]);
            let _ = costs.start(kind);
            costs.learn(kind, number);
            assert_eq!(costs.known(kind), Some(number));
        }
    }
}
