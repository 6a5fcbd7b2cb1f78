//! The names people write for MIG profiles: `1g.5gb`, `1c.3g.20gb`, `1g.24gb+me.all`, `2g.48gb-me`.
//!
//! The grammar is the one NVIDIA's programs accept, letter for letter, so that the same texts are taken and the same
//! texts are refused. A well-formed name may still name nothing that a given GPU has.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A well-formed MIG profile name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProfileName {
    compute_slices: u64,
    gpu_slices: u64,
    gigabytes: u64,
    /// Sorted, so that `+me,gfx` and `+gfx,me` are one name.
    attributes: Vec<String>,
    /// Whether the attributes are taken away (`-me`) rather than added (`+me`).
    negative: bool,
}

/// Why a text is not a profile name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProfileNameError {
    /// Nothing was written.
    #[error("profile is the empty string")]
    Empty,
    /// `+` and `-` in one name.
    #[error("profile '{0}' contains both '+/-' attributes")]
    BothSigns(String),
    /// The part before the attributes is wrong.
    #[error("cannot parse fields of '{profile}': {reason}")]
    Fields {
        /// The whole name.
        profile: String,
        /// What is wrong with it.
        reason: FieldError,
    },
    /// The part behind `+` or `-` is wrong.
    #[error("cannot parse attributes of '{profile}': {reason}")]
    Attributes {
        /// The whole name.
        profile: String,
        /// What is wrong with it.
        reason: AttributeError,
    },
}

/// What is wrong with the `Nc.Ng.Mgb` part of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FieldError {
    /// Not two or three parts between dots.
    #[error("parsed wrong number of fields, expected 2 or 3")]
    Count,
    /// White space around a part.
    #[error("leading or trailing spaces on '%d{0}'")]
    Spaces(&'static str),
    /// The unit letter is missing.
    #[error("missing '{0}' from '%d{0}'")]
    Unit(&'static str),
    /// What stands before the unit is no number.
    #[error("malformed number in '%d{0}'")]
    Number(&'static str),
}

/// What is wrong with the attributes of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AttributeError {
    /// The same attribute twice.
    #[error("non unique attribute in list")]
    Repeated,
    /// Nothing between two commas.
    #[error("empty attribute in list")]
    Empty,
    /// White space around an attribute.
    #[error("leading or trailing spaces in attribute")]
    Spaces,
    /// An attribute starts with a digit.
    #[error("attribute begins with a number")]
    LeadingDigit,
    /// An attribute starts or ends with a dot.
    #[error("attribute begins/ends with a dot")]
    OuterDot,
    /// A character that is neither letter, digit nor dot.
    #[error("non alpha-numeric character or digit in attribute")]
    Character,
}

impl ProfileName {
    /// A whole-instance name such as `3g.20gb`, with one optional attribute (`+me`, `-me`, `+gfx`, …).
    pub fn whole(gpu_slices: u64, gigabytes: u64, attribute: Option<(char, &str)>) -> Self {
        ProfileName {
            compute_slices: gpu_slices,
            gpu_slices,
            gigabytes,
            attributes: attribute.iter().map(|(_, name)| (*name).to_owned()).collect(),
            negative: matches!(attribute, Some(('-', _))),
        }
    }

    /// The same GPU instance with a compute instance of `slices` slices in it.
    pub fn with_compute_slices(&self, slices: u64) -> Self {
        ProfileName { compute_slices: slices, ..self.clone() }
    }

    /// The GPU instance this name asks for, without regard to how it is divided further.
    pub fn gpu_instance(&self) -> Self {
        self.with_compute_slices(self.gpu_slices)
    }

    /// Compute slices of the compute instance (the `c` number, or the `g` number where none is written).
    pub fn compute_slices(&self) -> u64 {
        self.compute_slices
    }

    /// Slices of the GPU instance (the `g` number).
    pub fn gpu_slices(&self) -> u64 {
        self.gpu_slices
    }

    /// The memory part of the name. It is a label, not an amount.
    pub fn gigabytes(&self) -> u64 {
        self.gigabytes
    }

    /// Attributes in sorted order.
    pub fn attributes(&self) -> &[String] {
        &self.attributes
    }

    /// Whether the attributes are removed (`-me`) rather than added.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// Whether the compute instance fills its GPU instance.
    pub fn is_whole(&self) -> bool {
        self.compute_slices == self.gpu_slices
    }

    /// The form used in resource and config names: `+` becomes `.`, `-` stays (`1g.5gb.me`, `1g.24gb-me`).
    pub fn resource_form(&self) -> String {
        self.to_string().replace(['+', ','], ".")
    }
}

impl FromStr for ProfileName {
    type Err = ProfileNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ProfileNameError::Empty);
        }
        let plus = text.split_once('+');
        let minus = text.split_once('-');
        if plus.is_some() && minus.is_some() {
            return Err(ProfileNameError::BothSigns(text.to_owned()));
        }
        let (fields, attributes) = match plus.or(minus) {
            Some((fields, attributes)) => (fields, Some(attributes)),
            None => (text, None),
        };
        let (compute_slices, gpu_slices, gigabytes) = parse_fields(fields)
            .map_err(|reason| ProfileNameError::Fields { profile: text.to_owned(), reason })?;
        let mut attributes = attributes
            .map(parse_attributes)
            .transpose()
            .map_err(|reason| ProfileNameError::Attributes { profile: text.to_owned(), reason })?
            .unwrap_or_default();
        attributes.sort_unstable();
        Ok(ProfileName { compute_slices, gpu_slices, gigabytes, attributes, negative: minus.is_some() })
    }
}

fn parse_fields(text: &str) -> Result<(u64, u64, u64), FieldError> {
    let fields: Vec<&str> = text.splitn(3, '.').collect();
    match fields[..] {
        [compute, gpu, memory] => Ok((number(compute, "c")?, number(gpu, "g")?, number(memory, "gb")?)),
        [gpu, memory] => {
            let slices = number(gpu, "g")?;
            Ok((slices, slices, number(memory, "gb")?))
        }
        _ => Err(FieldError::Count),
    }
}

fn number(text: &str, unit: &'static str) -> Result<u64, FieldError> {
    if text.trim() != text {
        return Err(FieldError::Spaces(unit));
    }
    let digits = text.strip_suffix(unit).ok_or(FieldError::Unit(unit))?;
    // A sign can not stand here: '+' and '-' were taken for attributes before.
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(FieldError::Number(unit));
    }
    digits.parse::<i64>().map(|value| value as u64).map_err(|_| FieldError::Number(unit))
}

fn parse_attributes(text: &str) -> Result<Vec<String>, AttributeError> {
    let mut seen: Vec<String> = Vec::new();
    for attribute in text.split(',') {
        if seen.iter().any(|earlier| earlier == attribute) {
            return Err(AttributeError::Repeated);
        }
        if attribute.is_empty() {
            return Err(AttributeError::Empty);
        }
        if attribute.trim() != attribute {
            return Err(AttributeError::Spaces);
        }
        if attribute.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(AttributeError::LeadingDigit);
        }
        if attribute.starts_with('.') || attribute.ends_with('.') {
            return Err(AttributeError::OuterDot);
        }
        if !attribute.chars().all(|c| c.is_ascii_alphanumeric() || c == '.') {
            return Err(AttributeError::Character);
        }
        seen.push(attribute.to_owned());
    }
    Ok(seen)
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_whole() {
            write!(f, "{}c.", self.compute_slices)?;
        }
        write!(f, "{}g.{}gb", self.gpu_slices, self.gigabytes)?;
        if !self.attributes.is_empty() {
            f.write_str(if self.negative { "-" } else { "+" })?;
            f.write_str(&self.attributes.join(","))?;
        }
        Ok(())
    }
}

impl Ord for ProfileName {
    /// Small to large, plain before attributed: the order in which people list profiles.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |name: &ProfileName| (name.gpu_slices, name.gigabytes, name.compute_slices, name.negative);
        key(self).cmp(&key(other)).then_with(|| self.attributes.cmp(&other.attributes))
    }
}

impl PartialOrd for ProfileName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Serialize for ProfileName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
