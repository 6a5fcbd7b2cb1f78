//! What a simulated program does with its slice: how much it wants at which time, and when it ends.
//!
//! Written in the pod's annotation `carve.dev/simulate`, as in `compute=60% memory=80% swing=30% period=120s lasts=5m`. What is not written follows from
//! the pod's uid, so that a pod does the same before and after a restart.

use std::f64::consts::TAU;

/// The annotation.
pub(crate) const ANNOTATION: &str = "carve.dev/simulate";

/// What a program does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Behaviour {
    /// Of its slice's compute, in the mean.
    compute: f64,
    /// Of its slice's memory.
    memory: f64,
    /// How far compute goes up and down.
    swing: f64,
    /// How long one up and down takes, in seconds.
    period: f64,
    /// Where in the period it begins.
    phase: f64,
    /// Seconds until it ends; none where it goes on.
    pub(crate) lasts: Option<f64>,
    /// Whether it ends in failure.
    pub(crate) fails: bool,
}

/// A number from 0 to 1 that depends on the text alone.
fn chance(text: &str, salt: u64) -> f64 {
    let hash =
        text.bytes().fold(0xCBF2_9CE4_8422_2325 ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15), |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
    let mixed = (hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

fn seconds(text: &str) -> Option<f64> {
    let (number, factor) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (
            number,
            match text.as_bytes().last() {
                Some(b'm') => 60.0,
                Some(b'h') => 3600.0,
                _ => 1.0,
            },
        ),
        None => (text, 1.0),
    };
    number
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number > 0.0)
        .map(|number| number * factor)
}

fn part(text: &str) -> Option<f64> {
    let number: f64 = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (0.0..=4.0).contains(&number).then_some(number)
}

impl Behaviour {
    /// What a pod does. `ends` says whether it is of a kind that comes to an end. What does not read is told, and counts for nothing.
    pub(crate) fn of(uid: &str, written: Option<&str>, ends: bool) -> (Self, Vec<String>) {
        let mut behaviour = Behaviour {
            compute: 0.25 + 0.6 * chance(uid, 1),
            memory: 0.45 + 0.5 * chance(uid, 2),
            swing: 0.1 + 0.4 * chance(uid, 3),
            period: 40.0 + 200.0 * chance(uid, 4),
            phase: chance(uid, 5),
            lasts: ends.then(|| 45.0 + 120.0 * chance(uid, 6)),
            fails: false,
        };
        let mut wrong = Vec::new();
        for word in written.unwrap_or_default().split([' ', ',']).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let read = match name {
                "compute" => part(value).map(|part| behaviour.compute = part),
                "memory" => part(value).map(|part| behaviour.memory = part),
                "swing" => part(value).map(|part| behaviour.swing = part),
                "period" => seconds(value).map(|time| behaviour.period = time),
                "lasts" => seconds(value).map(|time| behaviour.lasts = Some(time)),
                "fails" => value.parse().ok().map(|fails| behaviour.fails = fails),
                _ => None,
            };
            if read.is_none() {
                wrong.push(word.to_owned());
            }
        }
        (behaviour, wrong)
    }

    /// Of its slice's compute, so many seconds after its start; more than 1 where it wants more than it has.
    pub(crate) fn wants_compute(&self, seconds: f64) -> f64 {
        let wave = (TAU * (seconds / self.period + self.phase)).sin();
        // A second, quicker wave keeps it from looking like a drawing.
        let ripple = (TAU * (seconds / 7.3 + 3.0 * self.phase)).sin() * 0.15;
        (self.compute * (1.0 + self.swing * (wave + ripple))).max(0.0)
    }

    /// Of its slice's memory, so many seconds after its start: it is loaded first.
    pub(crate) fn wants_memory(&self, seconds: f64) -> f64 {
        (self.memory * (seconds / 6.0).clamp(0.15, 1.0)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Behaviour;

    #[test]
    fn what_is_written_counts_and_the_rest_follows_from_the_uid() {
        let (plain, wrong) = Behaviour::of("a", None, false);
        assert!(wrong.is_empty() && plain.lasts.is_none());
        assert_eq!(Behaviour::of("a", None, false).0, plain);
        assert_ne!(Behaviour::of("b", None, false).0, plain);
        assert!(Behaviour::of("a", None, true).0.lasts.is_some());
        let (told, wrong) = Behaviour::of(
            "a",
            Some("compute=50% swing=0 memory=0.25,lasts=2m fails=true speed=9 period=x"),
            false,
        );
        assert_eq!(
            (told.lasts, told.fails, wrong),
            (Some(120.0), true, vec!["speed=9".to_owned(), "period=x".to_owned()])
        );
        for second in 0..600 {
            assert_eq!(told.wants_compute(f64::from(second)), 0.5);
        }
        assert_eq!((told.wants_memory(0.0), told.wants_memory(60.0)), (0.0375, 0.25));
    }
}
