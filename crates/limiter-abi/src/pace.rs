//! How fast work may be started so that a container gets its share of a part's time and no more.
//!
//! One word says when everything that the container started is *paid*: each piece of work moves it on by the time it takes
//! divided by the share. Work may start when half of it would be paid for now, so on average neither too much nor too little is
//! started. Nothing has to be refilled, and processes of a container need nothing but that word in common.

use core::sync::atomic::{AtomicU64, Ordering};

/// How far back unused time counts: after a pause a container may start this much of its share at once, and no more.
pub const HORIZON: u64 = 20_000_000;

/// A share of a part's time in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u32);

impl Rate {
    /// All of the time.
    pub const ALL: Rate = Rate(10_000);

    /// How long a piece of work is paid off for.
    pub fn stretched(self, work: u64) -> u64 {
        let rate = u128::from(self.0.clamp(1, Rate::ALL.0));
        u64::try_from(u128::from(work) * u128::from(Rate::ALL.0) / rate).unwrap_or(u64::MAX >> 1)
    }

    /// How much work fits into a time.
    pub fn of(self, time: u64) -> u64 {
        u64::try_from(u128::from(time) * u128::from(self.0.min(Rate::ALL.0)) / u128::from(Rate::ALL.0))
            .unwrap_or(u64::MAX)
    }
}

/// Whether work may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Now.
    Go,
    /// Not before this moment.
    At(u64),
}

/// The word, seen at a rate.
#[derive(Debug, Clone, Copy)]
pub struct Pace<'a> {
    paid: &'a AtomicU64,
    rate: Rate,
    horizon: u64,
}

impl<'a> Pace<'a> {
    /// The pace of a container.
    pub fn new(paid: &'a AtomicU64, rate: Rate) -> Self {
        Pace { paid, rate, horizon: HORIZON }
    }

    /// The same for one that has turns: what it may use in one turn gathers for a whole period.
    pub fn in_turns(self, period: u64) -> Self {
        Pace { horizon: HORIZON.max(period), ..self }
    }

    /// The same at another rate.
    pub fn at(self, rate: Rate) -> Self {
        Pace { rate, ..self }
    }

    /// Whether work that takes about this long may start. `quantum` is how much must be free at least, so that whoever had to wait
    /// can then start several pieces at once; it is more than half of the work only for small pieces.
    pub fn verdict(&self, now: u64, work: u64, quantum: u64) -> Verdict {
        let most = self.rate.of(self.horizon);
        let needed = (work / 2).max(quantum).min(most / 2);
        let paid = self.paid.load(Ordering::Relaxed).max(now.saturating_sub(self.horizon));
        let at = paid.saturating_add(self.rate.stretched(needed));
        if at <= now { Verdict::Go } else { Verdict::At(at) }
    }

    /// Work that was started is to be paid for.
    pub fn charge(&self, now: u64, work: u64) {
        let moved = |paid: u64| {
            Some(paid.max(now.saturating_sub(self.horizon)).saturating_add(self.rate.stretched(work)))
        };
        let _ = self.paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    }

    /// Work took another time than it was charged for.
    pub fn correct(&self, charged: u64, took: u64) {
        let moved = |paid: u64| {
            Some(if took >= charged {
                paid.saturating_add(self.rate.stretched(took - charged))
            } else {
                paid.saturating_sub(self.rate.stretched(charged - took))
            })
        };
        let _ = self.paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    }
}

#[cfg(test)]
mod tests {
    use super::{HORIZON, Pace, Rate, Verdict};
    use core::sync::atomic::AtomicU64;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    /// A tenant that always has work, on a GPU that does one piece after another: busy time in so many seconds.
    fn saturated(rate: Rate, kernel: u64, guess: u64, seconds: u64) -> u64 {
        let paid = AtomicU64::new(0);
        let pace = Pace::new(&paid, rate);
        let (mut now, mut busy) = (5 * SECOND, 0);
        let end = now + seconds * SECOND;
        while now < end {
            match pace.verdict(now, guess, 0) {
                Verdict::At(at) => now = at,
                Verdict::Go => {
                    pace.charge(now, guess);
                    now += kernel;
                    busy += kernel;
                    pace.correct(guess, kernel);
                }
            }
        }
        busy
    }

    proptest! {
        #[test]
        fn a_saturating_tenant_gets_its_share(rate in 100u32..=9_900, kernel in 5_000u64..100_000_000, wrong in 1u64..=400) {
            let rate = Rate(rate);
            let guess = kernel * wrong / 200;
            let seconds = 30 + kernel * 400 / rate.0 as u64 / 10_000_000;
            let got = saturated(rate, kernel, guess, seconds) as f64 / (seconds * SECOND) as f64;
            let wanted = f64::from(rate.0) / 10_000.0;
            // What may be started ahead and one piece of work more.
            let slack = (kernel + HORIZON) as f64 / (seconds * SECOND) as f64;
            prop_assert!((got - wanted).abs() <= slack + 0.002, "{got} of {wanted}, slack {slack}");
        }
    }

    #[test]
    fn after_a_pause_little_is_started_at_once() {
        let paid = AtomicU64::new(0);
        let pace = Pace::new(&paid, Rate(2_500));
        let now = 1_000 * SECOND;
        let mut started = 0;
        while pace.verdict(now, 100_000, 0) == Verdict::Go {
            pace.charge(now, 100_000);
            started += 100_000;
        }
        assert!(started <= HORIZON / 4 + 100_000, "{started}");
    }

    #[test]
    fn extremes_do_not_overflow() {
        let paid = AtomicU64::new(u64::MAX - 5);
        let pace = Pace::new(&paid, Rate(0));
        pace.charge(u64::MAX, u64::MAX);
        pace.correct(0, u64::MAX);
        pace.correct(u64::MAX, 0);
        let _ = pace.verdict(u64::MAX, u64::MAX, u64::MAX);
        let _ = Pace::new(&paid, Rate(u32::MAX)).verdict(0, u64::MAX, 0);
    }
}
