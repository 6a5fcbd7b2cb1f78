//! Configs that need no file: `all-balanced`, `all-1g.5gb` and the like, made from what the GPUs here offer.
//!
//! Nothing here is a list of products. A name exists where a driver reports a profile for it, so that a new board or a
//! new driver branch has its names at once, and a name never stands for something the machine can not hold.

use crate::GpuState;
use carve_formats::mig_parted::{ConfigEntry, Devices, MigPartedConfig, WantedProfile};
use carve_gpu_model::{GpuProfile, ProfileName, ProfileSlot, ProfileTable};
use carve_planner::{WantedInstance, feasible};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use thiserror::Error;

/// MIG off everywhere.
const DISABLED: &str = "all-disabled";
/// MIG on everywhere, and nothing cut.
const ENABLED: &str = "all-enabled";
/// A bit of every size.
const BALANCED: &str = "all-balanced";

/// Slices of the parts of a balanced GPU, the largest mixture first. The first that a GPU can hold is the one.
const MIXTURES: [&[u8]; 3] = [&[1, 1, 2, 3], &[1, 1, 2], &[1, 1]];

/// What one GPU shall hold, small to large.
type Counts = Vec<(ProfileName, u64)>;

/// A name that stands for nothing on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no GPU of this machine ({}) fits the MIG config '{name}'{}", Gpus(.gpus), Known(.near, .known))]
pub struct UnknownConfig {
    /// What was asked for.
    pub name: String,
    /// What was probably meant, best first.
    pub near: Vec<String>,
    /// Every name there is.
    pub known: Vec<String>,
    /// What the GPUs here are called, each once.
    pub gpus: Vec<String>,
}

struct Gpus<'a>(&'a [String]);

impl fmt::Display for Gpus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("it has none") } else { f.write_str(&self.0.join(", ")) }
    }
}

struct Known<'a>(&'a [String], &'a [String]);

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() {
            write!(f, "; the nearest is {}", self.0.join(" or "))?;
        }
        match self.1 {
            [] => Ok(()),
            known => write!(f, "; there are {}", known.join(", ")),
        }
    }
}

/// Names of all configs that mean something on this machine: the general ones first, then profiles, small to large.
pub fn builtin_names(states: &[GpuState]) -> Vec<String> {
    let mut names = Vec::new();
    if !states.is_empty() {
        names.push(DISABLED.to_owned());
    }
    if tables(states).next().is_some() {
        names.push(ENABLED.to_owned());
    }
    if tables(states).any(|table| balanced(table).is_some()) {
        names.push(BALANCED.to_owned());
    }
    let profiles: BTreeSet<&ProfileName> = tables(states)
        .flat_map(ProfileTable::enumerate)
        .filter(|(_, profile)| profile.max_instances > 0)
        .map(|(_, profile)| &profile.name)
        .collect();
    let fitting = profiles.into_iter().filter(|name| tables(states).any(|table| most(table, name).is_some()));
    names.extend(fitting.map(config_name));
    names
}

/// The config with that name, for the GPUs that are here. GPUs that do not have its profile are not named by it, so
/// they stay as they are.
pub fn builtin_config(states: &[GpuState], name: &str) -> Result<MigPartedConfig, UnknownConfig> {
    let everywhere = |mig_enabled| vec![entry(Vec::new(), Devices::All, mig_enabled, &Vec::new())];
    let entries = match name {
        _ if !builtin_names(states).iter().any(|known| known == name) => return Err(unknown(states, name)),
        DISABLED => everywhere(false),
        ENABLED => everywhere(true),
        BALANCED => entries(states, &balanced),
        _ => {
            let named = |profile: &&GpuProfile| config_name(&profile.name) == name;
            entries(states, &|table| {
                let profile = table.profiles().iter().find(named)?;
                Some(vec![(profile.name.clone(), most(table, &profile.name)?)])
            })
        }
    };
    Ok(MigPartedConfig { configs: BTreeMap::from([(name.to_owned(), entries)]) })
}

/// Every config of [`builtin_names`] in one document, as mig-parted would read it.
pub fn builtin_configs(states: &[GpuState]) -> MigPartedConfig {
    let found = builtin_names(states).into_iter().filter_map(|name| builtin_config(states, &name).ok());
    MigPartedConfig { configs: found.flat_map(|config| config.configs).collect() }
}

fn tables(states: &[GpuState]) -> impl Iterator<Item = &ProfileTable> {
    states.iter().filter_map(|state| state.table.as_ref())
}

fn config_name(profile: &ProfileName) -> String {
    format!("all-{}", profile.resource_form())
}

/// Whether an empty GPU can hold one whole instance of each of these profiles.
fn holds(table: &ProfileTable, profiles: impl IntoIterator<Item = ProfileSlot>) -> bool {
    let whole = |slot| WantedInstance { profile: slot, compute: Vec::new() };
    feasible(table, &profiles.into_iter().map(whole).collect::<Vec<_>>()).is_ok()
}

/// How many instances of one profile an empty GPU can hold: what the driver says, unless its own places contradict it.
fn most(table: &ProfileTable, name: &ProfileName) -> Option<u64> {
    let (slot, profile) = table.by_name(name).ok()?;
    let fits = |count: &u8| holds(table, std::iter::repeat_n(slot, usize::from(*count)));
    (1..=profile.max_instances).rev().find(fits).map(u64::from)
}

/// A bit of every size: of the plain profiles with so many slices the smallest one.
fn balanced(table: &ProfileTable) -> Option<Counts> {
    let plain = |slices: &u8| {
        let of_size = table
            .enumerate()
            .filter(|(_, profile)| profile.slices == *slices && profile.name.attributes().is_empty());
        of_size.min_by_key(|(_, profile)| (profile.size(), profile.name.gigabytes()))
    };
    MIXTURES.iter().find_map(|mixture| {
        let parts = mixture.iter().map(plain).collect::<Option<Vec<_>>>()?;
        if !holds(table, parts.iter().map(|(slot, _)| *slot)) {
            return None;
        }
        let mut counts: BTreeMap<ProfileName, u64> = BTreeMap::new();
        for (_, profile) in parts {
            *counts.entry(profile.name.clone()).or_insert(0) += 1;
        }
        Some(counts.into_iter().collect())
    })
}

/// Entries for every kind of GPU that `want` has an answer for. One answer for all GPUs with MIG needs no filter; else
/// kinds are told apart by PCI id, and where one id has two answers, by index.
fn entries(states: &[GpuState], want: &dyn Fn(&ProfileTable) -> Option<Counts>) -> Vec<ConfigEntry> {
    let mut kinds: BTreeMap<Option<Counts>, (BTreeSet<String>, Vec<i64>)> = BTreeMap::new();
    for (state, table) in states.iter().filter_map(|state| Some((state, state.table.as_ref()?))) {
        let (filters, indices) = kinds.entry(want(table)).or_default();
        filters.insert(format!("0x{:X}", state.gpu.pci_id.packed()));
        indices.push(i64::from(state.gpu.index.0));
    }
    let alone = kinds.len() == 1;
    let wanted = kinds.iter().filter_map(|(counts, kind)| Some((counts.as_ref()?, kind)));
    wanted
        .map(|(counts, (filters, indices))| {
            let ambiguous = kinds
                .iter()
                .any(|(other, (theirs, _))| other.as_ref() != Some(counts) && !theirs.is_disjoint(filters));
            match (alone, ambiguous) {
                (true, _) => entry(Vec::new(), Devices::All, true, counts),
                (false, false) => entry(filters.iter().cloned().collect(), Devices::All, true, counts),
                (false, true) => entry(Vec::new(), Devices::Listed(indices.clone()), true, counts),
            }
        })
        .collect()
}

fn entry(filter: Vec<String>, devices: Devices, mig_enabled: bool, counts: &Counts) -> ConfigEntry {
    let profile = |(name, count): &(ProfileName, u64)| WantedProfile {
        written: name.to_string(),
        name: name.clone(),
        count: *count,
        at: Default::default(),
    };
    let mig_devices = counts.iter().map(profile).collect();
    ConfigEntry { filter, devices, mig_enabled, mig_devices, at: Default::default() }
}

fn unknown(states: &[GpuState], name: &str) -> UnknownConfig {
    let known = builtin_names(states);
    let bare = name.strip_prefix("all-").unwrap_or(name);
    // The config form of 1g.5gb+me is 1g.5gb.me; a person may have written either.
    let asked = bare.parse::<ProfileName>().or_else(|_| bare.replacen("gb.", "gb+", 1).parse());
    let near = match asked {
        Ok(profile) => {
            let nearest = tables(states).filter_map(|table| match table.by_name(&profile) {
                Ok((_, found)) => Some(found.name.clone()),
                Err(unknown) => unknown.nearest,
            });
            let nearest: BTreeSet<ProfileName> = nearest.collect();
            nearest.iter().map(config_name).filter(|near| known.contains(near)).collect()
        }
        Err(_) => {
            let written = bare.to_lowercase();
            let alike = |known: &&String| {
                let known = known.strip_prefix("all-").unwrap_or(known);
                known.bytes().zip(written.bytes()).take_while(|(a, b)| a == b).count()
            };
            // Three letters in common tell the general names apart; fewer are an accident.
            known.iter().max_by_key(alike).filter(|best| alike(best) >= 3).cloned().into_iter().collect()
        }
    };
    let gpus: BTreeSet<&String> = states.iter().map(|state| &state.gpu.name).collect();
    UnknownConfig { name: name.to_owned(), near, known, gpus: gpus.into_iter().cloned().collect() }
}
