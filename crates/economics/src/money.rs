//! Amounts of money without a float in sight.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

/// Millionths of a dollar; the finest price in any price list has six decimals.
const MICROS_PER_CENT: i128 = 10_000;

/// An amount in US dollars, below zero for a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Money {
    micros: i128,
}

/// A price in US dollars for an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    micros: u64,
}

impl Money {
    /// Nothing.
    pub const ZERO: Money = Money { micros: 0 };

    /// From millionths of a dollar.
    pub const fn from_micros(micros: i128) -> Self {
        Money { micros }
    }

    /// From cents.
    pub const fn from_cents(cents: i128) -> Self {
        Money { micros: cents * MICROS_PER_CENT }
    }

    /// The amount in cents, half a cent away from zero.
    pub const fn cents(self) -> i128 {
        let half = if self.micros < 0 { -MICROS_PER_CENT / 2 } else { MICROS_PER_CENT / 2 };
        (self.micros + half) / MICROS_PER_CENT
    }

    /// The amount in whole cents, so that what is printed adds up.
    #[must_use]
    pub const fn rounded(self) -> Self {
        Money { micros: self.cents() * MICROS_PER_CENT }
    }

    /// As many times.
    #[must_use]
    pub const fn times(self, count: u32) -> Self {
        Money { micros: self.micros * count as i128 }
    }
}

impl Rate {
    /// From millionths of a dollar.
    pub const fn from_micros(micros: u64) -> Self {
        Rate { micros }
    }

    /// In millionths of a dollar.
    pub const fn micros(self) -> u64 {
        self.micros
    }

    /// What so many hours cost.
    pub const fn for_hours(self, hours: u32) -> Money {
        Money { micros: self.micros as i128 * hours as i128 }
    }
}

impl Add for Money {
    type Output = Money;

    fn add(self, other: Money) -> Money {
        Money { micros: self.micros + other.micros }
    }
}

impl Sub for Money {
    type Output = Money;

    fn sub(self, other: Money) -> Money {
        Money { micros: self.micros - other.micros }
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Money>>(amounts: I) -> Money {
        amounts.fold(Money::ZERO, Add::add)
    }
}

/// `$2,165.76`
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents = self.cents();
        let digits = (cents.unsigned_abs() / 100).to_string();
        let mut grouped = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        let sign = if cents < 0 { "-" } else { "" };
        write!(f, "{sign}${grouped}.{:02}", cents.unsigned_abs() % 100)
    }
}

/// `$0.752`, with as many decimals as it has, at least two.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:06}", self.micros % 1_000_000);
        let kept = fraction.trim_end_matches('0').len().max(2);
        write!(f, "${}.{}", self.micros / 1_000_000, &fraction[..kept])
    }
}

#[cfg(test)]
mod tests {
    use super::{Money, Rate};

    #[test]
    fn cents_are_exact_and_print_as_people_write_them() {
        let rate = Rate::from_micros(752_000);
        assert_eq!(rate.for_hours(720).times(4).to_string(), "$2,165.76");
        assert_eq!(rate.for_hours(720).to_string(), "$541.44");
        assert_eq!((rate.for_hours(720) - rate.for_hours(720).times(4)).to_string(), "-$1,624.32");
        assert_eq!(Rate::from_micros(21_957_642).for_hours(1).to_string(), "$21.96");
        assert_eq!(Rate::from_micros(5_000).for_hours(1).to_string(), "$0.01", "half a cent goes up");
        assert_eq!(Rate::from_micros(4_999).for_hours(1).to_string(), "$0.00");
        assert_eq!(Rate::from_micros(1_000_000_000_000).for_hours(1).to_string(), "$1,000,000.00");
        assert_eq!(Money::ZERO.to_string(), "$0.00");
        let odd = Rate::from_micros(21_957_642).for_hours(720);
        let difference = odd.times(7).rounded() - odd.rounded();
        assert_eq!(
            [odd.times(7), odd, difference].map(|sum| sum.to_string()),
            ["$110,666.52", "$15,809.50", "$94,857.02"]
        );
        assert_eq!(rate.to_string(), "$0.752");
        assert_eq!(Rate::from_micros(3_000_000).to_string(), "$3.00");
    }
}
