//! A share's counters as they are told: what its container wrote down, as far as it can be true; pure.
//!
//! A container can write anything where it counts. Whatever it does, what is told never falls and never has more GPU time than passed.

use carve_limiter_host::Counters;
use serde::{Deserialize, Serialize};

/// Nanoseconds of GPU time that may be told later than they were counted. Work is counted when it ends, so what ran longer than two
/// looks are apart comes all at once; what is more than this is no work.
const MOST_LATE: u64 = 60_000_000_000;

/// Counters that only rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Totals {
    /// Nanoseconds of GPU time.
    pub(super) busy: u64,
    /// Nanoseconds in which threads were kept from starting work.
    pub(super) throttled: u64,
    pub(super) denials: u64,
    pub(super) launches: u64,
}

impl From<&Counters> for Totals {
    fn from(counters: &Counters) -> Self {
        let nanoseconds = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Totals {
            busy: nanoseconds(counters.gpu_time),
            throttled: nanoseconds(counters.throttled),
            denials: counters.denials,
            launches: counters.launches,
        }
    }
}

/// What was read of a share, and what was told of it. It outlives the agent in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meter {
    /// When it was last read, in nanoseconds of the monotonic clock.
    at: u64,
    /// What was read then.
    seen: Totals,
    /// What is told.
    told: Totals,
    /// GPU time that was counted and is still to be told.
    late: u64,
}

impl Meter {
    /// For a share that was never read.
    pub(super) fn new(now: u64) -> Self {
        Meter { at: now, seen: Totals::default(), told: Totals::default(), late: 0 }
    }

    /// Takes a reading. A counter that has fallen was written by somebody else than the limiter, and is gone on from where it is.
    pub(super) fn read(&mut self, now: u64, read: Totals) {
        let passed = now.saturating_sub(self.at);
        let more = |seen: u64, read: u64| read.saturating_sub(seen);
        let counted = self.late.saturating_add(more(self.seen.busy, read.busy));
        let busy = counted.min(passed);
        self.late = (counted - busy).min(MOST_LATE);
        let add = |told: &mut u64, seen: u64, read: u64| *told = told.saturating_add(more(seen, read));
        self.told.busy = self.told.busy.saturating_add(busy);
        add(&mut self.told.throttled, self.seen.throttled, read.throttled);
        add(&mut self.told.denials, self.seen.denials, read.denials);
        add(&mut self.told.launches, self.seen.launches, read.launches);
        (self.at, self.seen) = (now, read);
    }

    /// What is told.
    pub(super) fn told(&self) -> Totals {
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_LATE, Meter, Totals};

    const S: u64 = 1_000_000_000;

    fn busy(busy: u64) -> Totals {
        Totals { busy, ..Totals::default() }
    }

    #[test]
    fn what_is_counted_is_told() {
        let mut meter = Meter::new(10 * S);
        let read = Totals { busy: S, throttled: 9 * S, denials: 2, launches: 7 };
        meter.read(12 * S, read);
        assert_eq!(meter.told(), read);
        meter.read(14 * S, read);
        assert_eq!(meter.told(), read);
    }

    #[test]
    fn work_that_was_counted_when_it_ended_is_told_in_the_time_after() {
        let mut meter = Meter::new(0);
        meter.read(2 * S, busy(0));
        meter.read(4 * S, busy(3 * S));
        assert_eq!(meter.told().busy, 2 * S);
        meter.read(6 * S, busy(3 * S));
        assert_eq!(meter.told().busy, 3 * S);
    }

    #[test]
    fn nonsense_neither_lowers_a_counter_nor_makes_gpu_time() {
        let mut meter = Meter::new(0);
        meter.read(2 * S, Totals { busy: S, throttled: S, denials: 5, launches: 5 });
        let before = meter.told();
        meter.read(4 * S, Totals::default());
        assert_eq!(meter.told(), before, "what was written over is not forgotten");
        meter.read(6 * S, Totals { busy: S, throttled: S, denials: 1, launches: 1 });
        assert_eq!(meter.told(), Totals { busy: 2 * S, throttled: 2 * S, denials: 6, launches: 6 });
        let mut told = meter.told().busy;
        for second in 0..100 {
            let wild = if second % 2 == 0 { u64::MAX } else { second };
            meter.read((8 + 2 * second) * S, Totals { busy: wild, ..Totals::default() });
            let now = meter.told().busy;
            assert!(now >= told && now - told <= 2 * S, "{told} {now}");
            told = now;
        }
    }

    #[test]
    fn a_wild_value_is_outlived() {
        let mut meter = Meter::new(0);
        meter.read(2 * S, busy(u64::MAX));
        let most = meter.told().busy + MOST_LATE;
        for look in 2..1_000 {
            meter.read(2 * look * S, busy(u64::MAX));
        }
        assert_eq!(meter.told().busy, most);
    }

    #[test]
    fn an_agent_that_was_away_goes_on_from_its_file() {
        let mut meter = Meter::new(0);
        meter.read(2 * S, busy(S));
        let text = serde_json::to_string(&meter).expect("text");
        let mut again: Meter = serde_json::from_str(&text).expect("a meter");
        again.read(100 * S, busy(1_000 * S));
        assert_eq!(again.told().busy, 99 * S, "no more than passed meanwhile");
        let mut lowered: Meter = serde_json::from_str(&text).expect("a meter");
        lowered.read(100 * S, busy(0));
        assert_eq!(lowered.told().busy, S);
    }
}
