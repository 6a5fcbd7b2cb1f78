//! Durations as Go writes and reads them, with NVIDIA's word `infinite`.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A span of time in nanoseconds; the longest one means for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

/// A text that is no duration. The texts are Go's own.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DurationError {
    /// No duration at all, or too long.
    #[error("time: invalid duration \"{0}\"")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration \"{0}\"")]
    MissingUnit(String),
    /// A unit nobody knows.
    #[error("time: unknown unit \"{unit}\" in duration \"{text}\"")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl Duration {
    /// For ever.
    pub const INFINITE: Duration = Duration(i64::MAX);

    /// So many nanoseconds.
    pub const fn from_nanoseconds(nanoseconds: i64) -> Self {
        Duration(nanoseconds)
    }

    /// In nanoseconds.
    pub const fn nanoseconds(self) -> i64 {
        self.0
    }

    /// A bare number in a config file: nanoseconds, cut to a whole number, with Go's answer to overflow.
    pub(crate) fn from_number(value: f64) -> Self {
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        Duration(if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN })
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "infinite" {
            return Ok(Duration::INFINITE);
        }
        let invalid = || DurationError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Duration(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total = 0_u64;
        while !rest.is_empty() {
            let (whole, after) = split_digits(rest);
            let (fraction, after_number) = match after.strip_prefix('.') {
                Some(after) => split_digits(after),
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(invalid());
            }
            let unit_length = after_number.find(|c: char| c == '.' || c.is_ascii_digit());
            let (unit, after_unit) = after_number.split_at(unit_length.unwrap_or(after_number.len()));
            if unit.is_empty() {
                return Err(DurationError::MissingUnit(text.to_owned()));
            }
            let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
                return Err(DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() });
            };
            let part = part(whole, fraction, *size).ok_or_else(invalid)?;
            total = total.checked_add(part).filter(|total| *total <= 1 << 63).ok_or_else(invalid)?;
            rest = after_unit;
        }
        let value = if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
        value.map(Duration).ok_or_else(invalid)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `whole.fraction` units, if that does not overflow.
fn part(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    const LIMIT: u64 = 1 << 63;
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    if whole > LIMIT / unit {
        return None;
    }
    let mut value = whole * unit;
    // Digits beyond what 63 bits hold do not count.
    let (mut digits, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction.bytes().map(|b| u64::from(b - b'0')) {
        match digits.checked_mul(10).and_then(|digits| digits.checked_add(digit)) {
            Some(next) if next <= LIMIT && digits <= (LIMIT - 1) / 10 => {
                digits = next;
                scale *= 10.0;
            }
            _ => break,
        }
    }
    if digits > 0 {
        value = value.checked_add((digits as f64 * (unit as f64 / scale)) as u64)?;
    }
    (value <= LIMIT).then_some(value)
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Duration::INFINITE {
            return f.write_str("infinite");
        }
        let size = self.0.unsigned_abs();
        if size == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let decimal = |value: u64, unit: u64| {
            let width = unit.ilog10() as usize;
            let fraction = format!("{:0width$}", value % unit);
            let fraction = if width == 0 { "" } else { fraction.trim_end_matches('0') };
            let dot = if fraction.is_empty() { "" } else { "." };
            format!("{}{dot}{fraction}", value / unit)
        };
        match size {
            0..1_000 => write!(f, "{size}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(size, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(size, 1_000_000)),
            _ => {
                let minutes = size / 60_000_000_000;
                let seconds = decimal(size % 60_000_000_000, 1_000_000_000);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(f, "{seconds}s"),
                    (0, minutes) => write!(f, "{minutes}m{seconds}s"),
                    (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }
}
