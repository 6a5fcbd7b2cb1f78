//! How many times one figure is another, with the spread that follows from theirs, and numbers in words.

use crate::Spread;
use crate::spread::number;

/// One figure by another; none where the other is nothing. What may be wrong with either adds up.
pub(crate) fn ratio(figure: &Spread, of: &Spread) -> Option<Spread> {
    let median = figure.median / of.median;
    if !median.is_finite() {
        return None;
    }
    let margin = median.abs() * (figure.margin_percent() + of.margin_percent()) / 100.0;
    Some(Spread::around(median, margin, figure.times.min(of.times)))
}

/// So many times, as people read it.
pub(crate) fn times(ratio: &Spread) -> String {
    if ratio.median < 10.0 { format!("{:.2}", ratio.median) } else { format!("{:.1}", ratio.median) }
}

/// A small number as a word.
pub(crate) fn word(count: u8) -> String {
    let words = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    words.get(usize::from(count)).map_or_else(|| count.to_string(), |word| (*word).to_owned())
}

/// Things in a row, the last with "and".
pub(crate) fn list(things: &[String]) -> String {
    joined(things, "and")
}

/// Things in a row, the last with "or".
pub(crate) fn either(things: &[String]) -> String {
    joined(things, "or")
}

fn joined(things: &[String], last_by: &str) -> String {
    match things {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} {last_by} {last}", before.join(", ")),
    }
}

/// A figure with its unit and its spread.
pub(crate) fn with_unit(figure: &Spread, unit: &str) -> String {
    format!("{} {unit} (±{:.1} %)", number(figure.median), figure.margin_percent())
}

#[cfg(test)]
mod tests {
    use super::{either, list, ratio, times, with_unit, word};
    use crate::Spread;

    #[test]
    fn spreads_add_up() {
        let of = |low, median, high| Spread { median, low, high, times: 3 };
        let ratio = ratio(&of(18.0, 20.0, 22.0), &of(9.5, 10.0, 10.5)).unwrap();
        assert_eq!(ratio.median, 2.0);
        assert!((ratio.margin() - 0.6).abs() < 1e-9, "{ratio:?}");
        assert_eq!(times(&ratio), "2.00");
        assert!(super::ratio(&of(1.0, 1.0, 1.0), &of(0.0, 0.0, 0.0)).is_none());
    }

    #[test]
    fn words() {
        assert_eq!((word(4), word(40)), ("four".to_owned(), "40".to_owned()));
        assert_eq!(either(&["a".to_owned(), "b".to_owned()]), "a or b");
        let second = Spread { median: 0.5, low: 0.49, high: 0.51, times: 2 };
        assert_eq!(with_unit(&second, "s"), "0.500 s (±4.0 %)");
        assert_eq!(list(&["a".to_owned(), "b".to_owned(), "c".to_owned()]), "a, b and c");
    }
}
