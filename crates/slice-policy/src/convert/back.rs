//! ConfigMaps of policies, for the way back to NVIDIA's programs.

use super::{MIG_LABEL, Named, SHARING_LABEL, mig_parted};
use crate::{MigMode, SlicePolicySpec};
use carve_formats::DevicePluginConfig;
use carve_formats::mig_parted::ConfigEntry;
use std::collections::{BTreeMap, BTreeSet};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Back<T> {
    /// Configurations by the value of the label that chooses them.
    pub named: Named<T>,
    /// What the other program has no words for.
    pub left_out: Vec<String>,
}

/// Policies as configurations of the device plugin.
pub fn device_plugin_configs(policies: &[(String, SlicePolicySpec)]) -> Back<DevicePluginConfig> {
    let of = |_: &str, spec: &SlicePolicySpec, _: &mut BTreeSet<String>| {
        let text = spec.sharing.as_ref().map(crate::Sharing::to_config).unwrap_or_default();
        let has = spec.sharing.is_some() || spec.node_selector.contains_key(SHARING_LABEL);
        has.then(|| DevicePluginConfig::parse(&text).value.unwrap_or_default())
    };
    gather(policies, SHARING_LABEL, of)
}

/// Policies as configs of mig-parted.
pub fn mig_parted_configs(policies: &[(String, SlicePolicySpec)]) -> Back<Vec<ConfigEntry>> {
    let of = |name: &str, spec: &SlicePolicySpec, left_out: &mut BTreeSet<String>| {
        let mig = spec.mig.as_ref()?;
        match mig.mode {
            MigMode::Fixed => Some(mig_parted::entries(name, &mig.layout, left_out)),
            MigMode::Manual => None,
            MigMode::DryRun | MigMode::Automatic => {
                left_out.insert(format!(
                    "SlicePolicy '{name}': mig.mode: a MIG manager that reads files cuts nothing on demand"
                ));
                None
            }
        }
    };
    gather(policies, MIG_LABEL, of)
}

/// Each policy under the value of the label that it selects by, or as the default.
fn gather<T: Clone + PartialEq>(
    policies: &[(String, SlicePolicySpec)],
    label: &str,
    of: impl Fn(&str, &SlicePolicySpec, &mut BTreeSet<String>) -> Option<T>,
) -> Back<T> {
    let (mut configs, mut left_out): (BTreeMap<String, (&String, T)>, _) = (BTreeMap::new(), BTreeSet::new());
    let mut without = Vec::new();
    for (policy, spec) in policies {
        let Some(config) = of(policy, spec, &mut left_out) else { continue };
        left_out.extend(unsaid(policy, spec, label));
        let name = match spec.node_selector.get(label) {
            Some(name) => name,
            None if others(spec).is_empty() => {
                without.push((policy, config));
                continue;
            }
            // Its nodes can choose it by its name once they have the label.
            None => policy,
        };
        // Policies that differ in what the other program reads may be the same here.
        let (other, known) = configs.entry(name.clone()).or_insert_with(|| (policy, config.clone()));
        if *known != config {
            left_out.insert(format!(
                "SlicePolicies '{other}' and '{policy}' both are config '{name}', and differ; the first is taken"
            ));
        }
    }
    let mut default: Option<(&String, String)> = None;
    for (policy, config) in without {
        let same = configs.iter().find(|(_, (_, known))| *known == config).map(|(name, _)| name.clone());
        let name = same.clone().unwrap_or_else(|| free_name(policy, &configs));
        match &default {
            Some((_, known)) if *known == name => {}
            Some((other, _)) => {
                left_out.insert(format!(
                    "SlicePolicies '{other}' and '{policy}' both are for nodes without the label {label}, and differ; the first is taken"
                ));
            }
            None => {
                if same.is_none() {
                    configs.insert(name.clone(), (policy, config));
                }
                default = Some((policy, name));
            }
        }
    }
    let default = default.map(|(_, name)| name);
    let configs = configs.into_iter().map(|(name, (_, config))| (name, config)).collect();
    Back { named: Named { configs, default }, left_out: left_out.into_iter().collect() }
}

fn free_name<T>(policy: &str, configs: &BTreeMap<String, T>) -> String {
    let mut name = policy.to_owned();
    while configs.contains_key(&name) {
        name.push_str("-default");
    }
    name
}

/// Labels that a policy selects by and that choose no config.
fn others(spec: &SlicePolicySpec) -> Vec<&str> {
    let keys = spec.node_selector.keys().map(String::as_str);
    keys.filter(|key| ![SHARING_LABEL, MIG_LABEL].contains(key)).collect()
}

/// What a policy says and a ConfigMap can not.
fn unsaid(policy: &str, spec: &SlicePolicySpec, label: &str) -> Vec<String> {
    let others = others(spec);
    let selected = (!others.is_empty()).then(|| {
        format!(
            "SlicePolicy '{policy}': nodes choose a config by the label {label} alone, and not by {}; give its nodes {label}={policy}",
            others.join(", ")
        )
    });
    let besides = [
        (!spec.namespaces.is_empty(), "namespaces"),
        (spec.provision.is_some(), "provision"),
        (spec.defragmentation.is_some(), "defragmentation"),
    ];
    let besides: Vec<&str> = besides.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
    let besides = (!besides.is_empty())
        .then(|| format!("SlicePolicy '{policy}': a ConfigMap has no place for {}", besides.join(", ")));
    selected.into_iter().chain(besides).collect()
}
