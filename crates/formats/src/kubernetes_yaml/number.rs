//! Numbers as Go's `encoding/json` writes them, because that text decides what they can be read as.

use std::fmt;

/// A number as the YAML library resolved it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer that fits 64 bits with sign.
    Integer(i64),
    /// An integer beyond that, still within 64 bits.
    Large(u64),
    /// Everything else.
    Float(f64),
}

impl Number {
    /// The number as a Go `int`, if its JSON text is one: `4.0` and `1e3` are, `1e21` is not.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Number::Integer(value) => Some(value),
            Number::Large(_) => None,
            Number::Float(_) => self.to_string().parse().ok(),
        }
    }

    /// The number as a Go `uint64`, by the same rule.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Number::Integer(value) => u64::try_from(value).ok(),
            Number::Large(value) => Some(value),
            Number::Float(_) => self.to_string().parse().ok(),
        }
    }

    /// The number as a Go `float64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Large(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    /// The text that `sigs.k8s.io/yaml` makes of a number where a string is wanted. Floats lose digits there: it
    /// writes them with 32-bit precision.
    pub fn coerced_text(self) -> String {
        match self {
            Number::Integer(value) => value.to_string(),
            Number::Large(value) => value.to_string(),
            Number::Float(value) => short_float(value as f32),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => write!(f, "{value}"),
            Number::Large(value) => write!(f, "{value}"),
            Number::Float(value) if value.is_nan() => f.write_str("NaN"),
            Number::Float(value) if value.is_infinite() => {
                f.write_str(if *value > 0.0 { "+Inf" } else { "-Inf" })
            }
            Number::Float(value) => {
                let size = value.abs();
                if size != 0.0 && !(1e-6..1e21).contains(&size) {
                    f.write_str(&exponent_form(&format!("{value:e}"), 1))
                } else {
                    write!(f, "{value}")
                }
            }
        }
    }
}

/// Go's `FormatFloat(value, 'g', -1, 32)`.
fn short_float(value: f32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let exponent: i32 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    if !(-4..6).contains(&exponent) { exponent_form(&scientific, 2) } else { format!("{value}") }
}

/// `1.5e-7` with a sign and at least `digits` digits in the exponent.
fn exponent_form(scientific: &str, digits: usize) -> String {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => ('-', rest),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}
