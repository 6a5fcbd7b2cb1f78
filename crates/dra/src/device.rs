//! A device as a ResourceSlice lists it.

use crate::{Capacity, DeviceName, Quantity};
use std::collections::BTreeMap;

/// One device: a GPU or a MIG instance, used in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name in the pool.
    pub name: DeviceName,
    /// What selectors can ask about; names without a domain belong to the driver.
    pub attributes: BTreeMap<&'static str, Attribute>,
    /// How much of what it has.
    pub capacity: BTreeMap<&'static str, Capacity>,
    /// What it takes of its GPU as soon as one claim holds it, where its GPU can be used in several ways.
    pub consumes: Option<Consumption>,
    /// What keeps claims away from it.
    pub taints: Vec<Taint>,
}

impl Device {
    /// Whether several claims may hold it at once.
    pub fn is_shared(&self) -> bool {
        self.name.sharing.is_some()
    }
}

/// What keeps claims away from a device, unless they say that they bear it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// What is the matter, under a domain: `gpu.carve.dev/unhealthy`.
    pub key: String,
    /// More about it; may be empty.
    pub value: String,
    /// What it does to claims.
    pub effect: TaintEffect,
}

/// What a taint does to claims that do not bear it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    /// They do not get the device; those that hold it keep it.
    NoSchedule,
    /// They do not get the device, and pods that use it are ended.
    NoExecute,
}

impl TaintEffect {
    /// As the API server writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            TaintEffect::NoSchedule => "NoSchedule",
            TaintEffect::NoExecute => "NoExecute",
        }
    }
}

/// What selectors can ask about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// Text, 64 characters at most.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A version of three parts.
    Version(String),
}

impl Attribute {
    /// A text, cut to what the API server takes.
    pub fn text(text: &str) -> Self {
        Attribute::Text(text.chars().take(64).collect())
    }

    /// A version of exactly three numbers without leading zeros: `580.65.06` is written `580.65.6`.
    pub fn version(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse::<u32>());
        let mut part = || parts.next().unwrap_or(Ok(0)).ok();
        Some(Attribute::Version(format!("{}.{}.{}", part()?, part()?, part()?)))
    }
}

/// What a device takes of a counter set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumption {
    /// The set.
    pub set: String,
    /// How much of what.
    pub counters: BTreeMap<String, Quantity>,
}

impl Consumption {
    /// How many slots of memory it takes; none where its GPU can not be cut.
    pub(crate) fn memory_slots(&self) -> u8 {
        let slots = self.counters.keys().filter(|name| name.starts_with("memory-slice-")).count();
        u8::try_from(slots).unwrap_or(u8::MAX)
    }
}

/// What all devices of a GPU take from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSet {
    /// Its name in the pool.
    pub name: String,
    /// How much there is.
    pub counters: BTreeMap<String, Quantity>,
}

#[cfg(test)]
mod tests {
    use super::Attribute;

    #[test]
    fn versions_have_three_plain_numbers() {
        let version = |text: &str| match Attribute::version(text) {
            Some(Attribute::Version(version)) => version,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(version("580.65.06"), "580.65.6");
        assert_eq!(version("13.0"), "13.0.0");
        assert_eq!(version("580.159.04.1"), "580.159.4");
        assert_eq!(Attribute::version("unknown"), None);
    }
}
