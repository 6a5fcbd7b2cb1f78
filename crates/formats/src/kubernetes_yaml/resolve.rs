//! What a scalar means: YAML 1.1 as Go's `yaml.v2` resolves it (`yes` is true, `010` is eight, no base 60).

use super::compose::RawScalar;
use super::number::Number;
use super::timestamp::is_timestamp;

/// A scalar with its type known.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
}

const STR: &str = "tag:yaml.org,2002:str";
const BOOL: &str = "tag:yaml.org,2002:bool";
const INT: &str = "tag:yaml.org,2002:int";
const FLOAT: &str = "tag:yaml.org,2002:float";
const NULL: &str = "tag:yaml.org,2002:null";
const TIMESTAMP: &str = "tag:yaml.org,2002:timestamp";
const BINARY: &str = "tag:yaml.org,2002:binary";
pub(super) const MERGE: &str = "tag:yaml.org,2002:merge";

/// The value of a scalar, or the words in which the Go library refuses it.
pub(super) fn resolve(scalar: &RawScalar) -> Result<Scalar, String> {
    let text = scalar.text.as_str();
    match scalar.tag.as_str() {
        "" if !scalar.implicit => Ok(Scalar::Text(text.to_owned())),
        "" => Ok(resolve_plain(text)),
        STR => Ok(Scalar::Text(text.to_owned())),
        BINARY => match decode_base64(text) {
            Some(bytes) => Ok(Scalar::Text(go_utf8(&bytes))),
            None => Err("!!binary value contains invalid base64 data".to_owned()),
        },
        TIMESTAMP => match resolve_plain(text) {
            Scalar::Text(text) if is_timestamp(&text) => Ok(Scalar::Text(text)),
            other => Err(cannot_decode(&other, text, TIMESTAMP)),
        },
        tag @ (BOOL | INT | FLOAT | NULL) => {
            // With one of these tags a date is not looked for, so it is a plain text here.
            match (tag, resolve_plain(text)) {
                (BOOL, value @ Scalar::Bool(_))
                | (INT, value @ Scalar::Number(Number::Integer(_) | Number::Large(_)))
                | (FLOAT, value @ Scalar::Number(Number::Float(_)))
                | (NULL, value @ Scalar::Null) => Ok(value),
                (FLOAT, Scalar::Number(Number::Integer(value))) => {
                    Ok(Scalar::Number(Number::Float(value as f64)))
                }
                (_, other) => Err(cannot_decode(&other, text, tag)),
            }
        }
        // Tags that mean nothing here, `!` among them, leave the text as it is.
        _ => Ok(Scalar::Text(text.to_owned())),
    }
}

/// The value that a text without quotes and tag has.
pub(crate) fn resolves_to_text(text: &str) -> bool {
    matches!(resolve_plain(text), Scalar::Text(_)) && !is_timestamp(text)
}

fn resolve_plain(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Number(Number::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Scalar::Number(Number::Float(f64::INFINITY));
        }
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Number(Number::Float(f64::NEG_INFINITY)),
        _ => {}
    }
    let number = match text.as_bytes().first() {
        Some(b'.') => separated(text).and_then(|text| float(&text)),
        Some(b'+' | b'-' | b'0'..=b'9') => number(&text.replace('_', "")),
        _ => None,
    };
    match number {
        // A date is a text for whoever asks for no date, and it can not be a number either.
        Some(number) => Scalar::Number(number),
        None => Scalar::Text(text.to_owned()),
    }
}

/// A number that starts with a dot may have underscores between digits only; elsewhere they may stand anywhere.
fn separated(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |place: Option<usize>| place.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let stray = bytes
        .iter()
        .enumerate()
        .any(|(at, b)| *b == b'_' && !(digit(at.checked_sub(1)) && digit(Some(at + 1))));
    (!stray).then(|| text.replace('_', ""))
}

fn number(text: &str) -> Option<Number> {
    integer(text).or_else(|| float(text)).or_else(|| {
        // `0b` is understood once more with a sign behind it: a quirk of the library.
        let digits = text.strip_prefix("0b")?;
        i64::from_str_radix(digits, 2).ok().map(Number::Integer)
    })
}

/// Go's integers with a prefix for the base; a leading zero alone means octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, lower.get(1..)?)
    } else {
        (10, lower.as_str())
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0_i64.checked_sub_unsigned(size).map(Number::Integer);
    }
    match i64::try_from(size) {
        Ok(value) => Some(Number::Integer(value)),
        // The larger ones are tried without a sign only.
        Err(_) if text.starts_with('+') => None,
        Err(_) => Some(Number::Large(size)),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, if it stays finite.
fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits =
        digits(whole) && digits(fraction) && if whole.is_empty() { !fraction.is_empty() } else { true };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let unsigned = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !unsigned.is_empty() && digits(unsigned)
    });
    if !mantissa_fits || !exponent_fits {
        return None;
    }
    text.parse::<f64>().ok().filter(|value| value.is_finite()).map(Number::Float)
}

fn cannot_decode(found: &Scalar, text: &str, wanted: &str) -> String {
    let found = match found {
        Scalar::Null => NULL,
        Scalar::Bool(_) => BOOL,
        Scalar::Number(Number::Float(_)) => FLOAT,
        Scalar::Number(_) => INT,
        Scalar::Text(_) => STR,
    };
    format!("cannot decode {} `{text}` as a {}", short(found), short(wanted))
}

fn short(tag: &str) -> String {
    tag.replace("tag:yaml.org,2002:", "!!")
}

/// Standard base64 with padding; line breaks may stand anywhere, as in Go.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut group = 0_u32;
    let mut filled = 0;
    let mut padding = 0;
    for c in text.bytes().filter(|c| !matches!(c, b'\r' | b'\n')) {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' if filled >= 2 && filled + padding < 4 => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        group = group << 6 | u32::from(digit);
        filled += 1;
        if filled == 4 {
            bytes.extend_from_slice(&[(group >> 16) as u8, (group >> 8) as u8, group as u8]);
            group = 0;
            filled = 0;
        }
    }
    match (filled, padding) {
        (0, 0) => {}
        (2, 2) => bytes.push((group >> 4) as u8),
        (3, 1) => bytes.extend_from_slice(&[(group >> 10) as u8, (group >> 2) as u8]),
        _ => return None,
    }
    Some(bytes)
}

/// Bytes as text the way Go writes them to JSON: one replacement character per bad byte.
fn go_utf8(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    loop {
        match std::str::from_utf8(bytes) {
            Ok(rest) => {
                text.push_str(rest);
                return text;
            }
            Err(error) => {
                let (good, bad) = bytes.split_at_checked(error.valid_up_to()).unwrap_or((&[], bytes));
                text.push_str(std::str::from_utf8(good).unwrap_or_default());
                text.push(char::REPLACEMENT_CHARACTER);
                bytes = bad.get(1..).unwrap_or_default();
            }
        }
    }
}
