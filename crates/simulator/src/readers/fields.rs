//! Of the maps in objects of Kubernetes what is used: the rest is read over and takes no memory, however much there is.

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Which of the names that tell formats apart are on top of a document.
#[derive(Debug, Default, Deserialize)]
pub(super) struct OnTop {
    #[serde(default, deserialize_with = "is_there")]
    pub(super) items: bool,
    #[serde(default, deserialize_with = "is_there")]
    pub(super) nodes: bool,
    #[serde(default, deserialize_with = "is_there")]
    pub(super) pods: bool,
}

fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// Labels of a node that say what its GPUs are.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Labels {
    #[serde(default, rename = "nvidia.com/gpu.product")]
    pub(super) product: String,
    #[serde(default, rename = "nvidia.com/gpu.memory")]
    pub(super) memory: String,
    #[serde(default, rename = "nvidia.com/gpu.replicas")]
    pub(super) replicas: String,
    #[serde(default, rename = "nvidia.com/gpu.count")]
    pub(super) count: String,
}

/// Labels that a pod wants of its node.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Selector {
    #[serde(default, rename = "nvidia.com/gpu.product")]
    pub(super) product: String,
}

/// An amount as it is written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum Amount {
    /// Not at all.
    #[default]
    Unsaid,
    /// As text or as a number.
    Said(String),
    /// As something else.
    Neither,
}

impl Amount {
    /// What was written; nothing is empty.
    pub(super) fn text(&self, name: &str) -> Result<&str, String> {
        match self {
            Amount::Unsaid => Ok(""),
            Amount::Said(text) => Ok(text),
            Amount::Neither => Err(format!("{name} is neither text nor a number")),
        }
    }
}

/// What MIG devices are called, before their profile.
pub(super) const MIG: &str = "nvidia.com/mig-";
/// More different MIG devices than any GPU has.
const MOST_PROFILES: usize = 64;

/// Amounts of what is counted, and one name of NVIDIA's that is not.
#[derive(Debug, Default, Clone)]
pub(super) struct Amounts {
    pub(super) cpu: Amount,
    pub(super) memory: Amount,
    pub(super) gpus: Amount,
    /// MIG devices, by the name of the resource.
    pub(super) mig: BTreeMap<String, Amount>,
    pub(super) other: Option<String>,
}

impl Amounts {
    /// These amounts, and where there is none those of another list.
    pub(super) fn or(&self, others: &Amounts) -> Amounts {
        let or = |one: &Amount, other: &Amount| if *one == Amount::Unsaid { other } else { one }.clone();
        let mut mig = others.mig.clone();
        mig.extend(self.mig.clone());
        Amounts {
            cpu: or(&self.cpu, &others.cpu),
            memory: or(&self.memory, &others.memory),
            gpus: or(&self.gpus, &others.gpus),
            mig,
            other: self.other.clone().or_else(|| others.other.clone()),
        }
    }
}

struct OneAmount;

impl<'de> Visitor<'de> for OneAmount {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount")
    }

    fn visit_unit<E: Error>(self) -> Result<Amount, E> {
        Ok(Amount::Unsaid)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Amount, E> {
        Ok(Amount::Neither)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount::Said(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount::Said(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Amount, E> {
        Ok(Amount::Said(number.to_string()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount::Said(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Amount, A::Error> {
        while entries.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Amount::Neither)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Amount, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Amount::Neither)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneAmount)
    }
}

/// Whether a resource is a MIG device that nobody else shares.
fn is_mig(name: &str) -> bool {
    name.starts_with(MIG) && !name.ends_with(".shared")
}

struct AllAmounts;

impl<'de> Visitor<'de> for AllAmounts {
    type Value = Amounts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("amounts by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Amounts, A::Error> {
        let mut amounts = Amounts::default();
        while let Some(name) = entries.next_key::<String>()? {
            let known = match name.as_str() {
                "cpu" => &mut amounts.cpu,
                "memory" => &mut amounts.memory,
                "nvidia.com/gpu" => &mut amounts.gpus,
                _ if is_mig(&name) && amounts.mig.len() < MOST_PROFILES => {
                    let amount = entries.next_value()?;
                    amounts.mig.insert(name, amount);
                    continue;
                }
                _ => {
                    entries.next_value::<IgnoredAny>()?;
                    if name.starts_with("nvidia.com/") && amounts.other.is_none() {
                        amounts.other = Some(name);
                    }
                    continue;
                }
            };
            *known = entries.next_value()?;
        }
        Ok(amounts)
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AllAmounts)
    }
}
