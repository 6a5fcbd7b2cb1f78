//! Kubernetes quantities (`500m`, `4Gi`, `1e3`), held exactly.

use carve_gpu_model::Mebibytes;
use std::str::FromStr;
use thiserror::Error;

/// An amount, in thousand-millionths, so that every suffix Kubernetes knows is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: u128,
}

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// Not a number with a suffix Kubernetes knows.
    #[error("is no quantity; write a number such as 2, 0.5 or 500m, or an amount such as 4Gi")]
    Malformed,
    /// Below zero.
    #[error("is below zero; requests are zero or more")]
    Negative,
    /// More than anything that exists.
    #[error("is larger than any machine")]
    TooLarge,
}

const NANO: u128 = 1_000_000_000;
/// No number that means something has more characters.
const LONGEST: usize = 40;

impl Quantity {
    /// The amount if it is a whole number.
    pub fn whole(self) -> Option<u64> {
        if self.nanos.is_multiple_of(NANO) { u64::try_from(self.nanos / NANO).ok() } else { None }
    }

    /// In thousandths, rounded up as Kubernetes does.
    pub fn thousandths(self) -> u64 {
        u64::try_from(self.nanos.div_ceil(NANO / 1000)).unwrap_or(u64::MAX)
    }

    /// As an amount of memory in bytes, in mebibytes, rounded up.
    pub fn mebibytes(self) -> Mebibytes {
        Mebibytes(u64::try_from(self.nanos.div_ceil(NANO << 20)).unwrap_or(u64::MAX))
    }

    /// As an amount of memory in bytes, in mebibytes, without what is left over.
    pub fn whole_mebibytes(self) -> Mebibytes {
        Mebibytes(u64::try_from(self.nanos / (NANO << 20)).unwrap_or(u64::MAX))
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.len() > LONGEST {
            return Err(QuantityError::TooLarge);
        }
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(QuantityError::Malformed);
        }
        // How many thousand-millionths one of the unit is, as a factor and a power of ten.
        let (factor, power): (u128, i32) = match suffix {
            "" => (1, 9),
            "n" => (1, 0),
            "u" => (1, 3),
            "m" => (1, 6),
            "k" => (1, 12),
            "M" => (1, 15),
            "G" => (1, 18),
            "T" => (1, 21),
            "P" => (1, 24),
            "E" => (1, 27),
            "Ki" => (1 << 10, 9),
            "Mi" => (1 << 20, 9),
            "Gi" => (1 << 30, 9),
            "Ti" => (1 << 40, 9),
            "Pi" => (1 << 50, 9),
            "Ei" => (1 << 60, 9),
            exponent => {
                let digits = exponent.strip_prefix(['e', 'E']).ok_or(QuantityError::Malformed)?;
                let exponent: i32 = digits.parse().map_err(|_| QuantityError::Malformed)?;
                (1, exponent.clamp(-60, 60) + 9)
            }
        };
        let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| QuantityError::TooLarge)?;
        let power = power - fraction.len() as i32;
        let scaled = digits.checked_mul(factor).ok_or(QuantityError::TooLarge)?;
        let ten = 10_u128.checked_pow(power.unsigned_abs());
        let nanos = match (ten, power < 0) {
            (Some(ten), false) => scaled.checked_mul(ten).ok_or(QuantityError::TooLarge)?,
            // Kubernetes rounds up what is smaller than it can hold.
            (Some(ten), true) => scaled.div_ceil(ten),
            (None, true) => u128::from(scaled > 0),
            (None, false) if scaled == 0 => 0,
            (None, false) => return Err(QuantityError::TooLarge),
        };
        if negative && nanos > 0 {
            return Err(QuantityError::Negative);
        }
        Ok(Quantity { nanos })
    }
}

#[cfg(test)]
mod tests {
    use super::{Quantity, QuantityError};

    fn read(text: &str) -> Result<Quantity, QuantityError> {
        text.parse()
    }

    #[test]
    fn suffixes_are_exact() {
        assert_eq!(read("500m").unwrap().thousandths(), 500);
        assert_eq!(read("0.5").unwrap().thousandths(), 500);
        assert_eq!(read("2").unwrap().whole(), Some(2));
        assert_eq!(read("1e3").unwrap().whole(), Some(1000));
        assert_eq!(read("1k").unwrap().whole(), Some(1000));
        assert_eq!(read("4Gi").unwrap().mebibytes().0, 4096);
        assert_eq!(read("15472384Ki").unwrap().mebibytes().0, 15110);
        assert_eq!(read("1").unwrap().mebibytes().0, 1, "a byte takes a mebibyte");
        assert_eq!(read("0.5").unwrap().whole(), None);
        assert_eq!(read("1.5Gi").unwrap().mebibytes().0, 1536);
        assert_eq!(read("0").unwrap().whole(), Some(0));
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", ".", "1.2.3", "4GB", "five", "1 Gi", "e3", "--1", "1e", "NaN", "5G1"] {
            assert_eq!(read(text), Err(QuantityError::Malformed), "{text}");
        }
        assert_eq!(read("-1"), Err(QuantityError::Negative));
        for text in ["1e99", "999999999999999999999Ei", "99999999999999999999999999999999999999999"] {
            assert_eq!(read(text), Err(QuantityError::TooLarge), "{text}");
        }
    }
}
