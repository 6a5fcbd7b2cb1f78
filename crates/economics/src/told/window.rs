//! From when to when: `24h`, `7d`, `today`, a day, a moment, or two moments.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use thiserror::Error;

/// Seconds since 1970, the second not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// From.
    pub from: i64,
    /// Until.
    pub until: i64,
}

/// Why a window is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is no window; write how long ago (90m, 24h, 7d), today, yesterday, a moment (2026-11-16 or 2026-11-16T08:00:00Z), or two with a comma between them"
)]
pub struct WindowError(String);

const DAY: i64 = 86_400;
/// Nothing reaches back further: a century.
const LONGEST: i64 = 36_525 * DAY;

impl Window {
    /// Understands what people and OpenCost's clients write; `now` is in seconds since 1970.
    pub fn parse(text: &str, now: i64) -> Result<Self, WindowError> {
        let wrong = || WindowError(text.to_owned());
        let midnight = now - now.rem_euclid(DAY);
        let window = match text.trim() {
            "today" => Window { from: midnight, until: now },
            "yesterday" => Window { from: midnight - DAY, until: midnight },
            text => match text.split_once(',') {
                Some((from, until)) => Window {
                    from: at(from.trim()).ok_or_else(wrong)?,
                    until: at(until.trim()).ok_or_else(wrong)?,
                },
                None => {
                    let from = ago(text).map(|ago| now - ago).or_else(|| at(text)).ok_or_else(wrong)?;
                    Window { from, until: now }
                }
            },
        };
        if window.from > window.until { Err(wrong()) } else { Ok(window) }
    }
}

/// `90m`, in seconds.
fn ago(text: &str) -> Option<i64> {
    let split = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => DAY,
        "w" => 7 * DAY,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit).filter(|seconds| *seconds <= LONGEST)
}

/// A day, a moment, or seconds since 1970.
fn at(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<i64>() {
        // A small number is rather something that lacks its unit.
        return (100_000_000..100_000_000_000).contains(&seconds).then_some(seconds);
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment.as_second());
    }
    let day = text.parse::<Date>().ok()?;
    Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// How a moment is written: `2026-11-16T08:00:00Z`.
pub fn moment(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Window, moment};
    use proptest::prelude::*;

    /// 2026-11-16T12:34:56Z.
    const NOW: i64 = 1_794_832_496;

    fn window(text: &str) -> Option<(String, String)> {
        Window::parse(text, NOW).ok().map(|window| (moment(window.from), moment(window.until)))
    }

    #[test]
    fn windows_are_what_people_mean() {
        let now = "2026-11-16T12:34:56Z";
        for (text, from, until) in [
            ("90m", "2026-11-16T11:04:56Z", now),
            ("24h", "2026-11-15T12:34:56Z", now),
            ("7d", "2026-11-09T12:34:56Z", now),
            ("today", "2026-11-16T00:00:00Z", now),
            ("yesterday", "2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z"),
            ("2026-11-01", "2026-11-01T00:00:00Z", now),
            ("2026-11-16T08:00:00+02:00", "2026-11-16T06:00:00Z", now),
            ("2026-11-01T00:00:00Z, 2026-11-02T00:00:00Z", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"),
            ("1794787200,1794790800", "2026-11-16T00:00:00Z", "2026-11-16T01:00:00Z"),
        ] {
            assert_eq!(window(text), Some((from.to_owned(), until.to_owned())), "{text}");
        }
        for text in [
            "",
            "soon",
            "5",
            "-3h",
            "99999999999999999999h",
            "2026-13-01",
            "2027-01-01",
            "1794790800,1794787200",
        ] {
            assert_eq!(window(text), None, "{text}");
        }
        assert!(Window::parse("soon", NOW).unwrap_err().to_string().contains("24h"));
    }

    proptest! {
        #[test]
        fn whatever_is_written_nothing_breaks(text in ".{0,40}") {
            if let Ok(window) = Window::parse(&text, NOW) {
                prop_assert!(window.from <= window.until);
            }
        }
    }
}
