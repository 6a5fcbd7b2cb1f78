//! Configuration of nodes: labels, MIG layouts and shares in the formats that device plugins and mig-parted read.

use super::{GROUP, Group};
use crate::advice::{Diff, NodeThen};
use carve_formats::device_plugin::{
    ReplicatedDevices, ReplicatedResource, ReplicatedResources, ResourceName,
};
use carve_formats::diagnostic::At;
use carve_formats::mig_parted::{ConfigEntry, Devices, WantedProfile};
use carve_formats::{DevicePluginConfig, MigPartedConfig};
use carve_gpu_model::{Geometry, ProfileName};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The files of all groups.
pub(super) fn diffs(groups: &[Group<'_>]) -> Vec<Diff> {
    let mut files = Vec::new();
    let mut labels = String::new();
    let mut layouts: BTreeMap<String, Vec<ConfigEntry>> = BTreeMap::new();
    for group in groups {
        for (number, (_, node)) in group.nodes.iter().enumerate() {
            let _ = write!(labels, "kubectl label node {} {GROUP}={}", node.name, group.name);
            if group.replicas.is_some() {
                let _ = write!(labels, " nvidia.com/device-plugin.config={}", group.name);
            }
            if group.mechanism == "MIG" {
                let layout = entries(node);
                let same = layouts.iter().find(|(_, known)| **known == layout).map(|(name, _)| name.clone());
                let name = same.unwrap_or_else(|| format!("{}-{}", group.name, number + 1));
                let _ = write!(labels, " nvidia.com/mig.config={name}");
                layouts.insert(name, layout);
            }
            labels.push('\n');
        }
        if let Some(replicas) = group.replicas {
            files.push(Diff {
                file: format!("nodes/device-plugin-{}.yaml", group.name),
                apply: format!(
                    "into the ConfigMap of the device plugin or of carve's agent, under the key {}",
                    group.name
                ),
                text: shares(group, replicas).to_yaml(),
            });
        }
    }
    if !layouts.is_empty() {
        files.push(Diff {
            file: "nodes/mig-parted.yaml".to_owned(),
            apply: "into the ConfigMap of the MIG manager or of carve's agent; GPUs must be idle when they are cut".to_owned(),
            text: MigPartedConfig { configs: layouts }.to_yaml(),
        });
    }
    if !labels.is_empty() {
        let by = |mechanism: &str| {
            groups.iter().any(|group| group.mechanism == mechanism && group.replicas.is_none())
        };
        let apply = match (by("MPS"), by("limiter")) {
            (true, _) => {
                "line by line; shares of several sizes by MPS are given out by claims: carve's agent with --dra (docs/operations/claims.md)"
            }
            (false, true) => {
                "line by line; parts under the limiter are given out by carve's agent with --limiter (docs/operations/controller.md)"
            }
            (false, false) => "line by line, after the configuration is there",
        };
        files.push(Diff { file: "nodes/labels.txt".to_owned(), apply: apply.to_owned(), text: labels });
    }
    files
}

fn shares(group: &Group<'_>, replicas: u32) -> DevicePluginConfig {
    let mut config = DevicePluginConfig::default();
    let resources = Some(ReplicatedResources {
        rename_by_default: true,
        fail_requests_greater_than_one: Some(true),
        resources: vec![ReplicatedResource {
            name: ResourceName::gpu(),
            rename: None,
            devices: ReplicatedDevices::All,
            replicas: u64::from(replicas),
            at: At::default(),
        }],
    });
    if group.mechanism == "MPS" {
        // The program has no default of its own; this is where its chart keeps them.
        config.flags.mps_root = Some("/run/nvidia/mps".to_owned());
        config.sharing.mps = resources;
    } else {
        config.sharing.time_slicing = resources;
    }
    config
}

/// MIG devices of each GPU of a node.
pub(super) fn geometries(node: &NodeThen) -> Vec<Geometry> {
    let each = |gpu: &crate::GpuThen| -> Geometry {
        let profiles = gpu.parts.iter().filter_map(|part| part.profile.as_ref()?.parse::<ProfileName>().ok());
        profiles.map(|profile| (profile, 1)).collect()
    };
    node.gpus.iter().map(each).collect()
}

fn entries(node: &NodeThen) -> Vec<ConfigEntry> {
    let mut groups: Vec<(Geometry, Vec<i64>)> = Vec::new();
    for (gpu, geometry) in geometries(node).into_iter().enumerate() {
        match groups.iter_mut().find(|(known, _)| *known == geometry) {
            Some((_, gpus)) => gpus.push(gpu as i64),
            None => groups.push((geometry, vec![gpu as i64])),
        }
    }
    let all = groups.len() == 1;
    let wanted = |(name, count): (&ProfileName, u32)| WantedProfile {
        written: name.to_string(),
        name: name.clone(),
        count: u64::from(count),
        at: At::default(),
    };
    groups
        .into_iter()
        .map(|(geometry, gpus)| ConfigEntry {
            filter: Vec::new(),
            devices: if all { Devices::All } else { Devices::Listed(gpus) },
            mig_enabled: !geometry.is_empty(),
            mig_devices: geometry.iter().map(wanted).collect(),
            at: At::default(),
        })
        .collect()
}
