//! A figure that was measured several times.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is told of nothing to be more exact: a few windows may agree by chance, and two runs on one machine differ by some tenths of a percent.
pub const RESOLUTION: f64 = 0.005;

/// The middle of what was measured, the least and the most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; the mean of the two in the middle where they are even in number.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// How many there are.
    pub times: u32,
}

impl Spread {
    /// Of what was measured; none of nothing, and of nothing that is no number.
    pub fn of(measured: &[f64]) -> Option<Spread> {
        if measured.is_empty() || measured.iter().any(|one| !one.is_finite()) {
            return None;
        }
        let mut sorted = measured.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Spread {
            median,
            low: sorted[0],
            high: sorted[sorted.len() - 1],
            times: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
        })
    }

    /// What follows from others: a median, and how far from it another run may be.
    pub(crate) fn around(median: f64, margin: f64, times: u32) -> Spread {
        Spread { median, low: median - margin / 2.0, high: median + margin / 2.0, times }
    }

    /// Of two passes: between their medians, as far as either went.
    pub fn join(&self, other: &Spread) -> Spread {
        let (own, others) = (f64::from(self.times), f64::from(other.times));
        Spread {
            median: (self.median * own + other.median * others) / (own + others).max(1.0),
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            times: self.times.saturating_add(other.times),
        }
    }

    /// How far from the median another run may be: all that lies between the least and the most, and never less than [`RESOLUTION`] of the
    /// median. Half of it would be where this run was, and a few windows of two passes miss much of where a third pass goes.
    pub fn margin(&self) -> f64 {
        (self.high - self.low).max(self.median.abs() * RESOLUTION)
    }

    /// One after the other.
    pub(crate) fn after(&self, before: &Spread) -> Spread {
        Spread {
            median: self.median + before.median,
            low: self.low + before.low,
            high: self.high + before.high,
            times: self.times.min(before.times),
        }
    }

    /// So many times as much.
    pub(crate) fn times(&self, factor: f64) -> Spread {
        Spread {
            median: self.median * factor,
            low: self.low * factor,
            high: self.high * factor,
            times: self.times,
        }
    }

    /// The same as a part of the median, in percent.
    pub fn margin_percent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { self.margin() / self.median.abs() * 100.0 }
    }

    /// Whether two runs say the same, by the spreads that they print themselves.
    pub fn agrees(&self, other: &Spread) -> bool {
        (self.median - other.median).abs() <= self.margin() + other.margin()
    }
}

/// A number as people read it: three digits that count.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".to_owned(),
        _ if size >= 99_950.0 => grouped(value.round()),
        _ if size >= 100.0 => grouped(value.round()),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn grouped(whole: f64) -> String {
    let digits = format!("{:.0}", whole.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if whole < 0.0 { format!("-{text}") } else { text }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{} ±{:.1} %", number(self.median), self.margin_percent());
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Spread, number};
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn the_middle_the_least_and_the_most() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.median, spread.low, spread.high, spread.times), (2.0, 1.0, 3.0, 3));
        assert_eq!(Spread::of(&[1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
        assert_eq!(spread.to_string(), "2.00 ±100.0 %");
    }

    #[test]
    fn two_runs_agree_within_what_they_print() {
        let of = |low, median, high| Spread { median, low, high, times: 3 };
        assert!(of(9.0, 10.0, 11.0).agrees(&of(10.0, 11.0, 12.0)));
        assert!(!of(9.9, 10.0, 10.1).agrees(&of(10.9, 11.0, 11.1)));
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        let cases = [
            (0.0, "0.00"),
            (0.1234, "0.123"),
            (3.456, "3.46"),
            (34.56, "34.6"),
            (345.6, "346"),
            (1_234_567.0, "1,234,567"),
            (-1234.4, "-1,234"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    proptest! {
        #[test]
        fn the_median_lies_between(measured in prop::collection::vec(-1e9f64..1e9, 1..20)) {
            let spread = Spread::of(&measured).unwrap();
            prop_assert!(spread.low <= spread.median && spread.median <= spread.high);
            prop_assert!(spread.agrees(&spread));
            let joined = spread.join(&spread);
            prop_assert_eq!((joined.low, joined.high, joined.times), (spread.low, spread.high, spread.times * 2));
            prop_assert!((joined.median - spread.median).abs() <= 1e-6 * spread.median.abs().max(1.0));
        }
    }
}
