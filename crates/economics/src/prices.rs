//! Prices of machines: the catalogue's, unless somebody knows better.

use crate::{InstanceType, Rate};
use std::collections::BTreeMap;
use thiserror::Error;

/// What an hour costs, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// For an hour.
    pub per_hour: Rate,
    /// `AWS us-east-1 on demand, 2026-07-20`.
    pub source: String,
}

/// Prices by type of machine.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    own: BTreeMap<String, Rate>,
    source: String,
}

/// Why a price list is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {what}; write a type and dollars an hour on each line: g4dn.2xlarge 0.752")]
pub struct PriceError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl Prices {
    /// Reads a list that wins over the catalogue: `TYPE PRICE` on each line, with a space, a colon, a comma or an equals sign between them.
    pub fn read(text: &str, source: &str) -> Result<Self, PriceError> {
        let mut own = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let wrong = |what: String| PriceError { line: index + 1, what };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let words: Vec<&str> =
                line.split([' ', '\t', ',', ':', '=', '"']).filter(|word| !word.is_empty()).collect();
            let [machine, price] = words[..] else {
                return Err(wrong(format!("'{line}' is not a type and a price")));
            };
            let rate = rate(price).ok_or_else(|| wrong(format!("'{price}' is no price")))?;
            if own.insert(machine.to_owned(), rate).is_some() {
                return Err(wrong(format!("{machine} has a price already")));
            }
        }
        Ok(Prices { own, source: source.to_owned() })
    }

    /// The price that somebody has written down for a type of machine.
    pub fn written(&self, machine: &str) -> Option<Price> {
        self.own.get(machine).map(|per_hour| Price { per_hour: *per_hour, source: self.source.clone() })
    }

    /// The price of a type of machine: as written down, else as listed.
    pub fn of(&self, machine: &str) -> Option<Price> {
        if let Some(price) = self.written(machine) {
            return Some(price);
        }
        let listed = InstanceType::named(machine)?;
        let list = listed.provider.price_list();
        let source = format!("{} {} on demand, {}", list.provider, list.region, list.date);
        Some(Price { per_hour: listed.price?, source })
    }
}

/// Dollars with at most six decimals, by digits, so that no float is in between.
fn rate(text: &str) -> Option<Rate> {
    let text = text.strip_prefix('$').unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 9 || fraction.len() > 6 || !digits(whole) || !digits(fraction) {
        return None;
    }
    format!("{whole}{fraction:0<6}").parse().ok().map(Rate::from_micros)
}

#[cfg(test)]
mod tests {
    use super::Prices;

    #[test]
    fn lists_win_over_the_catalogue_and_are_exact() {
        let prices = Prices::read("# ours\ng4dn.2xlarge: 0.3\nmy-box, $12.000001\n", "prices.txt").unwrap();
        let told = |machine: &str| prices.of(machine).map(|price| (price.per_hour.to_string(), price.source));
        assert_eq!(told("g4dn.2xlarge"), Some(("$0.30".to_owned(), "prices.txt".to_owned())));
        assert_eq!(told("my-box"), Some(("$12.000001".to_owned(), "prices.txt".to_owned())));
        assert_eq!(told("g5.xlarge").unwrap().1, "AWS us-east-1 on demand, 2026-07-20");
        assert_eq!(told("p5e.48xlarge"), None, "it is sold otherwise");
        assert_eq!(told("banana"), None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("a 1\nb\n", "line 2: 'b' is not a type and a price"),
            ("a -1\n", "line 1: '-1' is no price"),
            ("a 0.1234567\n", "no price"),
            ("a 1\na 2\n", "line 2: a has a price already"),
        ] {
            let error = Prices::read(text, "x").unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
