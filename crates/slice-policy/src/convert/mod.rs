//! Policies of the ConfigMaps that NVIDIA's device plugin and MIG manager read, and those ConfigMaps of policies.
//!
//! ```text
//!  configs of the device plugin, by name ─┐        a policy for every pair that labels can choose:
//!                                         ├─▶  nodeSelector = the labels, sharing of the one, layout of the other
//!  configs of mig-parted, by name ────────┘        the more labels, the higher its priority
//! ```
//!
//! Only one policy counts for a node, and a node may have both labels: hence the pairs. What a policy has no words for is told, never lost in silence.

mod back;
mod device_plugin;
mod mig_parted;

pub use back::{Back, device_plugin_configs, mig_parted_configs};

use crate::{Mig, SlicePolicy, SlicePolicySpec};
use carve_formats::DevicePluginConfig;
use carve_formats::mig_parted::ConfigEntry;
use std::collections::{BTreeMap, BTreeSet};

/// The label by which a node chooses a configuration of the device plugin.
pub const SHARING_LABEL: &str = "nvidia.com/device-plugin.config";
/// The label by which a node chooses a config of mig-parted.
pub const MIG_LABEL: &str = "nvidia.com/mig.config";
/// By how much each label raises the priority.
const STEP: i32 = 10;

/// Configurations by name, and the one of nodes that choose none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<T> {
    /// By name.
    pub configs: BTreeMap<String, T>,
    /// The one of nodes without the label.
    pub default: Option<String>,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named { configs: BTreeMap::new(), default: None }
    }
}

/// What a node may be like: the label's value, and the configuration that it has then.
type Choice<'a, T> = (Option<&'a String>, Option<&'a T>);

impl<T> Named<T> {
    /// What nodes may be like: without the label, and with each of its values.
    fn choices(&self) -> Result<Vec<Choice<'_, T>>, ConvertError> {
        let standing = match &self.default {
            None => None,
            Some(name) => Some(self.configs.get(name).ok_or_else(|| ConvertError {
                wanted: name.clone(),
                known: self.configs.keys().cloned().collect::<Vec<_>>().join(", "),
            })?),
        };
        let named = self.configs.iter().map(|(name, config)| (Some(name), Some(config)));
        Ok([(None, standing)].into_iter().chain(named).collect())
    }
}

/// What people have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    /// Configurations of the device plugin.
    pub sharing: Named<DevicePluginConfig>,
    /// Configs of mig-parted.
    pub mig: Named<Vec<ConfigEntry>>,
}

/// The default is none of those that are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertError {
    wanted: String,
    known: String,
}

impl std::fmt::Display for ConvertError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = if self.known.is_empty() { "none" } else { &self.known };
        write!(
            f,
            "there is no config '{}' that nodes without a label could have; there are {known}",
            self.wanted
        )
    }
}

impl std::error::Error for ConvertError {}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The same as policies.
    pub policies: Vec<SlicePolicy>,
    /// What policies have no words for, and who has.
    pub left_out: Vec<String>,
}

/// The policies that do what these files do.
pub fn policies(files: &Files) -> Result<Converted, ConvertError> {
    let (mut made, mut left_out, mut taken) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (sharing_name, config) in files.sharing.choices()? {
        let sharing = config.and_then(|config| {
            let said = sharing_name.or(files.sharing.default.as_ref()).map_or("", String::as_str);
            device_plugin::sharing(said, config, &mut left_out)
        });
        for (mig_name, entries) in files.mig.choices()? {
            let mig = entries.map(|entries| {
                let said = mig_name.or(files.mig.default.as_ref()).map_or("", String::as_str);
                mig_parted::fixed(said, entries, &mut left_out)
            });
            let labels = [(SHARING_LABEL, sharing_name), (MIG_LABEL, mig_name)];
            let labels: Vec<(&str, &String)> =
                labels.into_iter().filter_map(|(label, name)| Some((label, name?))).collect();
            // Nodes without any label, for which nothing was said, have no policy.
            if labels.is_empty() && sharing.is_none() && mig.is_none() {
                continue;
            }
            let words: Vec<&str> = labels.iter().map(|(_, name)| name.as_str()).collect();
            let name = object_name(&words, &mut taken);
            let spec = spec(&labels, sharing.clone(), mig);
            made.push(SlicePolicy::new(&name, spec));
        }
    }
    Ok(Converted { policies: made, left_out: left_out.into_iter().collect() })
}

fn spec(labels: &[(&str, &String)], sharing: Option<crate::Sharing>, mig: Option<Mig>) -> SlicePolicySpec {
    SlicePolicySpec {
        node_selector: labels.iter().map(|(label, name)| ((*label).to_owned(), (*name).clone())).collect(),
        priority: i32::try_from(labels.len()).unwrap_or(i32::MAX).saturating_mul(STEP),
        sharing,
        mig: mig.filter(|mig| !mig.layout.is_empty()),
        ..SlicePolicySpec::default()
    }
}

/// A name that Kubernetes takes, made of others, and not taken yet.
fn object_name(words: &[&str], taken: &mut BTreeSet<String>) -> String {
    let joined = if words.is_empty() { "default".to_owned() } else { words.join(".") };
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        letter if letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '.' => letter,
        _ => '-',
    };
    let plain: String = joined.chars().map(letter).take(200).collect();
    // Between dots it begins and ends with a letter or a digit.
    let parts: Vec<&str> =
        plain.split('.').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty()).collect();
    let plain = if parts.is_empty() { "policy".to_owned() } else { parts.join(".") };
    let mut name = plain.clone();
    let mut count = 2;
    while !taken.insert(name.clone()) {
        name = format!("{plain}-{count}");
        count += 1;
    }
    name
}
