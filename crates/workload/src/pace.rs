//! When a tenant does its next piece of work: at once, or when a request comes.

use crate::percentiles::percentile;
use crate::spec::Done;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A sleeping thread wakes up late; the last bit is waited for awake.
const AWAKE: Duration = Duration::from_micros(120);
/// Requests that have come are answered for no longer than this many times the window.
const PATIENCE: f64 = 2.0;

/// Numbers that look random, the same for each seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Seconds until the next of requests that come independently of each other, so many a second.
    pub(crate) fn gap(&mut self, rate: f64) -> f64 {
        let uniform = ((self.next() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        -uniform.ln() / rate
    }
}

/// What is written down of pieces of work.
#[derive(Debug)]
struct Log {
    begun: Instant,
    milliseconds: Vec<f64>,
    amount: f64,
    tenths: Vec<u32>,
    last: f64,
    longest_gap: f64,
}

impl Log {
    fn new() -> Self {
        let room = Vec::with_capacity(1 << 16);
        Log {
            begun: Instant::now(),
            milliseconds: room,
            amount: 0.0,
            tenths: Vec::new(),
            last: 0.0,
            longest_gap: 0.0,
        }
    }

    fn elapsed(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// A piece that is done now, and was waited for since a moment.
    fn piece(&mut self, since: f64, amount: f64) {
        let now = self.elapsed();
        self.milliseconds.push((now - since) * 1e3);
        self.amount += amount;
        self.gap(now);
        let tenth = (now * 10.0) as usize;
        if self.tenths.len() <= tenth {
            self.tenths.resize(tenth + 1, 0);
        }
        self.tenths[tenth] += 1;
    }

    fn gap(&mut self, now: f64) {
        self.longest_gap = self.longest_gap.max(now - self.last);
        self.last = now;
    }

    fn done(mut self, error: Option<String>) -> Done {
        let seconds = self.elapsed();
        self.gap(seconds);
        self.milliseconds.sort_by(f64::total_cmp);
        let [p50_ms, p95_ms, p99_ms] =
            [50.0, 95.0, 99.0].map(|percent| percentile(&self.milliseconds, percent));
        Done {
            pieces: self.milliseconds.len() as u64,
            amount: self.amount,
            seconds,
            p50_ms,
            p95_ms,
            p99_ms,
            tenths: self.tenths,
            longest_gap_ms: self.longest_gap * 1e3,
            error,
        }
    }
}

/// One piece after the other, for so many seconds.
pub(crate) fn window<E: ToString>(seconds: f64, mut piece: impl FnMut() -> Result<f64, E>) -> Done {
    let mut log = Log::new();
    loop {
        let since = log.elapsed();
        if since >= seconds {
            return log.done(None);
        }
        match piece() {
            Ok(amount) => log.piece(since, amount),
            Err(error) => return log.done(Some(error.to_string())),
        }
    }
}

/// So many pieces.
pub(crate) fn job<E: ToString>(pieces: u64, mut piece: impl FnMut() -> Result<f64, E>) -> Done {
    let mut log = Log::new();
    for _ in 0..pieces {
        let since = log.elapsed();
        match piece() {
            Ok(amount) => log.piece(since, amount),
            Err(error) => return log.done(Some(error.to_string())),
        }
    }
    log.done(None)
}

/// A piece for each request. What takes long makes those that come meanwhile wait, and their wait counts.
pub(crate) fn open<E: ToString>(
    rate: f64,
    seconds: f64,
    random: &mut Random,
    mut piece: impl FnMut() -> Result<f64, E>,
) -> Done {
    let mut log = Log::new();
    let mut arrival = random.gap(rate);
    while arrival < seconds && log.elapsed() < seconds * PATIENCE {
        wait_until(log.begun + Duration::from_secs_f64(arrival));
        match piece() {
            Ok(amount) => log.piece(arrival, amount),
            Err(error) => return log.done(Some(error.to_string())),
        }
        arrival += random.gap(rate);
    }
    wait_until(log.begun + Duration::from_secs_f64(seconds));
    log.done(None)
}

/// Waits as exactly as it goes.
pub(crate) fn wait_until(moment: Instant) {
    let left = moment.saturating_duration_since(Instant::now());
    if left > AWAKE {
        sleep(left - AWAKE);
    }
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, job, open, window};

    #[test]
    fn requests_come_so_many_a_second() {
        let mut random = Random::new(7);
        let gaps: Vec<f64> = (0..20_000).map(|_| random.gap(50.0)).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.02).abs() < 0.001, "{mean}");
        let long = gaps.iter().filter(|gap| **gap > 0.04).count() as f64 / gaps.len() as f64;
        assert!((long - (-2.0f64).exp()).abs() < 0.01, "as many long gaps as chance has: {long}");
        assert_eq!(Random::new(1).gap(1.0), Random::new(1).gap(1.0));
    }

    #[test]
    fn pieces_are_counted_and_an_error_ends_them() {
        let done = job(5, || Ok::<f64, String>(2.0));
        assert_eq!((done.pieces, done.amount, done.error), (5, 10.0, None));
        assert_eq!(done.tenths.iter().sum::<u32>(), 5);
        let mut left = 3;
        let stopped = window(60.0, || {
            left -= 1;
            if left == 0 { Err("it died") } else { Ok(1.0) }
        });
        assert_eq!((stopped.pieces, stopped.error.as_deref()), (2, Some("it died")));
        assert!(stopped.seconds < 60.0);
    }

    #[test]
    fn an_open_loop_does_what_came() {
        let rate = 400.0;
        let mut random = Random::new(3);
        let (mut at, mut came) = (random.gap(rate), 0);
        while at < 0.1 {
            came += 1;
            at += random.gap(rate);
        }
        let done = open(rate, 0.1, &mut Random::new(3), || Ok::<f64, String>(1.0));
        assert_eq!(done.pieces, came);
        assert!(done.seconds >= 0.1 && done.p50_ms <= done.p99_ms);
    }
}
