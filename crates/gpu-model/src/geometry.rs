//! A geometry: how many instances of which profiles, without saying where.

use crate::{Placed, ProfileName, ProfileNameError, ProfileSlot, ProfileTable, UnknownProfile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How many instances of each profile, by name. Zero counts are never kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Geometry(BTreeMap<ProfileName, u32>);

impl Geometry {
    /// Adds `count` instances of a profile.
    pub fn add(&mut self, name: ProfileName, count: u32) {
        if count > 0 {
            let sum = self.0.entry(name).or_insert(0);
            *sum = sum.saturating_add(count);
        }
    }

    /// Profiles with their counts, small to large.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&ProfileName, u32)> {
        self.0.iter().map(|(name, count)| (name, *count))
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of instances in all.
    pub fn instances(&self) -> u64 {
        self.0.values().map(|count| u64::from(*count)).sum()
    }

    /// The geometry of a set of placed instances.
    pub fn of(table: &ProfileTable, instances: &[Placed]) -> Self {
        let mut geometry = Geometry::default();
        for placed in instances {
            if let Some(profile) = table.get(placed.profile) {
                geometry.add(profile.name.clone(), 1);
            }
        }
        geometry
    }

    /// Counts per profile of the table, in table order.
    pub fn counts(&self, table: &ProfileTable) -> Result<Vec<u32>, UnknownProfile> {
        let mut counts = vec![0u32; table.profiles().len()];
        for (name, count) in self.iter() {
            let (ProfileSlot(position), _) = table.by_name(name)?;
            if let Some(sum) = counts.get_mut(usize::from(position)) {
                *sum = sum.saturating_add(count);
            }
        }
        Ok(counts)
    }
}

impl FromIterator<(ProfileName, u32)> for Geometry {
    fn from_iter<I: IntoIterator<Item = (ProfileName, u32)>>(items: I) -> Self {
        let mut geometry = Geometry::default();
        for (name, count) in items {
            geometry.add(name, count);
        }
        geometry
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        for (position, (name, count)) in self.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{count}× {name}")?;
        }
        Ok(())
    }
}

/// The text is not a geometry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GeometryParseError {
    /// A profile name is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileNameError),
    /// The part behind `=` is no count.
    #[error("'{0}' is not a count; write for example 1g.5gb=2,3g.20gb=1")]
    Count(String),
}

impl FromStr for Geometry {
    type Err = GeometryParseError;

    /// Reads `1g.5gb=2,3g.20gb` (a missing count is one). Attributes in a list need the longer config file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split(',')
            .filter(|item| !item.trim().is_empty())
            .map(|item| {
                let (name, count) = item.trim().split_once('=').unwrap_or((item.trim(), "1"));
                let count = count.parse().map_err(|_| GeometryParseError::Count(count.to_owned()))?;
                Ok((name.parse::<ProfileName>()?, count))
            })
            .collect()
    }
}
