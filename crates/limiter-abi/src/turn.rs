//! When a container may use a part, so that containers which share one do not get into each other's way.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Times in which a container may start work: the same ones in every period of the clock that all containers of a machine have.
///
/// All are nanoseconds of `CLOCK_MONOTONIC`. Without a period there are no turns, and work starts whenever the rate allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turn {
    /// How long until the turns come round again; zero where there are none.
    pub period: u64,
    /// When in a period the container's turn begins.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
    /// Hundredths of a percent that others do not use and that are lent beside the container's own; 10,000 lift the limit.
    pub lent: u32,
    /// When the agent last said so; words that are too old do not count.
    pub said: u64,
}

impl Turn {
    /// How long the agent's word counts. One that has died lends nothing and keeps nobody waiting.
    pub const FRESH: u64 = 1_000_000_000;

    /// When work may start, from a moment on: then, or later. And until when it should be over.
    pub fn next(&self, now: u64) -> (u64, u64) {
        if self.period == 0 || self.length >= self.period {
            return (now, u64::MAX);
        }
        let begin = now - now % self.period + self.offset % self.period;
        // The turn that began in the period before may still last.
        for begin in [begin.wrapping_sub(self.period), begin] {
            let end = begin.wrapping_add(self.length);
            if begin <= now && now < end {
                return (now, end);
            }
        }
        let begin = if begin > now { begin } else { begin + self.period };
        (begin, begin + self.length)
    }
}

/// A [`Turn`] in memory that one side changes while others read it, and beside it what the share is charged for overhead.
#[derive(Debug, Default)]
#[repr(C)]
pub struct TurnCell {
    /// Odd while it is being written.
    sequence: AtomicU32,
    lent: AtomicU32,
    period: AtomicU64,
    offset: AtomicU64,
    length: AtomicU64,
    said: AtomicU64,
    overhead: AtomicU64,
    spare: [AtomicU64; 2],
}

impl TurnCell {
    /// How often a reader tries before it goes on with what it knew; a writer may have died in the middle.
    const TRIES: usize = 8;

    /// Writes; there is one writer.
    pub fn set(&self, turn: &Turn) {
        let sequence = self.sequence.load(Ordering::Relaxed) | 1;
        self.sequence.store(sequence, Ordering::Relaxed);
        fence(Ordering::Release);
        self.lent.store(turn.lent, Ordering::Relaxed);
        self.period.store(turn.period, Ordering::Relaxed);
        self.offset.store(turn.offset, Ordering::Relaxed);
        self.length.store(turn.length, Ordering::Relaxed);
        self.said.store(turn.said, Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Release);
    }

    /// Says how many bytes the container's processes have beyond what they count. It counts until something else is said: what was loaded
    /// stays where it is when who said so is gone.
    pub fn set_overhead(&self, bytes: u64) {
        self.overhead.store(bytes, Ordering::Relaxed);
    }

    /// What was last said of that.
    pub fn overhead(&self) -> u64 {
        self.overhead.load(Ordering::Relaxed)
    }

    /// Reads, or nothing where a writer is in the middle.
    pub fn get(&self) -> Option<Turn> {
        (0..Self::TRIES).find_map(|_| {
            let before = self.sequence.load(Ordering::Acquire);
            let turn = Turn {
                period: self.period.load(Ordering::Relaxed),
                offset: self.offset.load(Ordering::Relaxed),
                length: self.length.load(Ordering::Relaxed),
                lent: self.lent.load(Ordering::Relaxed),
                said: self.said.load(Ordering::Relaxed),
            };
            fence(Ordering::Acquire);
            let after = self.sequence.load(Ordering::Relaxed);
            (before == after && before.is_multiple_of(2)).then_some(turn)
        })
    }
}

const _: () = assert!(size_of::<TurnCell>() == 64);

#[cfg(test)]
mod tests {
    use super::{Turn, TurnCell};
    use core::sync::atomic::Ordering;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_turn_comes_round() {
        let turn = Turn { period: 20 * MS, offset: 14 * MS, length: 6 * MS, ..Turn::default() };
        assert_eq!(turn.next(1_000 * MS), (1_014 * MS, 1_020 * MS));
        assert_eq!(turn.next(1_015 * MS), (1_015 * MS, 1_020 * MS));
        assert_eq!(turn.next(1_020 * MS), (1_034 * MS, 1_040 * MS));
        // One that reaches over the end of a period.
        let turn = Turn { offset: 18 * MS, ..turn };
        assert_eq!(turn.next(1_001 * MS), (1_001 * MS, 1_004 * MS));
        assert_eq!(turn.next(1_005 * MS), (1_018 * MS, 1_024 * MS));
        assert_eq!(Turn::default().next(7), (7, u64::MAX));
    }

    proptest! {
        #[test]
        fn turns_of_several_do_not_meet(now in 0u64..1 << 50, period in 1_000u64..1 << 32, cuts in (0u64..=1_000, 0u64..=1_000)) {
            let (low, high) = (cuts.0.min(cuts.1) * period / 1_000, cuts.0.max(cuts.1) * period / 1_000);
            let turn = |from: u64, to: u64| Turn { period, offset: from, length: to - from, ..Turn::default() };
            let all = [turn(0, low), turn(low, high), turn(high, period)];
            let open = all.iter().filter(|turn| turn.length > 0 && turn.next(now).0 == now).count();
            prop_assert_eq!(open, 1);
            for turn in all {
                let (begin, end) = turn.next(now);
                prop_assert!(begin >= now && begin - now <= period);
                prop_assert!(end == u64::MAX || end - begin <= turn.length);
            }
        }
    }

    #[test]
    fn a_writer_that_died_is_not_waited_for() {
        let cell = TurnCell::default();
        let turn = Turn { period: 5, offset: 1, length: 2, lent: 3, said: 4 };
        cell.set(&turn);
        assert_eq!(cell.get(), Some(turn));
        cell.sequence.fetch_add(1, Ordering::Relaxed);
        assert_eq!(cell.get(), None);
        // The next writer goes on from there.
        cell.set(&turn);
        assert_eq!(cell.get(), Some(turn));
    }

    #[test]
    fn overhead_stays_whatever_is_said_of_turns() {
        let cell = TurnCell::default();
        assert_eq!(cell.overhead(), 0);
        cell.set_overhead(7);
        cell.set(&Turn { period: 5, ..Turn::default() });
        assert_eq!((cell.overhead(), cell.get().map(|turn| turn.period)), (7, Some(5)));
    }
}
