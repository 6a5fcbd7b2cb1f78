//! What the node's GPUs are offered as: resources, each a list of devices.

use crate::selection::{Shared, shares};
use crate::{Device, DeviceId, MigStrategy, NodeGpu, NodeGpus, NodeMig, PartId, Settings, Share};
use carve_formats::device_plugin::{ResourceName, ResourceRule};
use carve_gpu_model::GpuIndex;
use std::collections::BTreeMap;
use thiserror::Error;

/// What kubelet is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offer {
    /// By name.
    pub resources: BTreeMap<ResourceName, Resource>,
    /// What the operator should know although it is no error.
    pub remarks: Vec<String>,
}

/// One extended resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// What pods ask for.
    pub name: ResourceName,
    /// By GPU, then MIG device, then share.
    pub devices: Vec<Device>,
    /// Whether a container may have one share only.
    pub one_share_each: bool,
}

/// Eight GPUs with this many shares each are a list of a few hundred kilobytes; much more and kubelet takes no list at all.
pub const MOST_REPLICAS: u64 = 8192;

/// Why nothing can be offered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OfferError {
    /// Strategy `single` on a node where some GPUs have MIG on and some off.
    #[error(
        "MIG strategy 'single' needs all GPUs alike, but MIG is on for GPU {on} and off for GPU {off}; \
         use 'mixed', or give every GPU the same MIG config"
    )]
    PartlyMig {
        /// One with MIG on.
        on: GpuIndex,
        /// One with MIG off.
        off: GpuIndex,
    },
    /// Strategy `single` and a GPU that holds no MIG device.
    #[error(
        "MIG strategy 'single': MIG is on for GPU {0}, but it holds no MIG device; set nvidia.com/mig.config"
    )]
    EmptyMig(GpuIndex),
    /// Strategy `single` and devices of different sizes.
    #[error(
        "MIG strategy 'single' needs one size of MIG device on the node, but there are {first} and {second}; use 'mixed'"
    )]
    DifferentMigs {
        /// One profile.
        first: String,
        /// Another.
        second: String,
    },
    /// A compute instance that is only a part of its GPU instance has no resource name.
    #[error(
        "MIG device {part} is a {profile}, a part of a GPU instance, for which there is no resource name"
    )]
    PartialInstance {
        /// The device.
        part: PartId,
        /// Its profile.
        profile: String,
    },
    /// No naming rule fits.
    #[error("resources: no pattern fits {what} '{name}'; add one, for example {{pattern: \"*\", name: gpu}}")]
    NoPattern {
        /// GPU or MIG profile.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Two sharing rules for one device.
    #[error("sharing: {part} is shared twice, by {first} and by {second}; a device is shared in one way")]
    SharedTwice {
        /// The device.
        part: PartId,
        /// The rule that came first.
        first: String,
        /// The rule that came second.
        second: String,
    },
    /// More shares than kubelet could ever list.
    #[error("sharing: {rule} asks for {replicas} replicas of each device; {most} are the most", most = MOST_REPLICAS)]
    TooManyReplicas {
        /// The rule.
        rule: String,
        /// What it asks for.
        replicas: u64,
    },
    /// A rule chooses a device that is not there.
    #[error("sharing: {rule} chooses device '{device}', which {resource} does not have")]
    NoSuchDevice {
        /// The rule.
        rule: String,
        /// The device as written.
        device: String,
        /// The resource.
        resource: ResourceName,
    },
}

impl OfferError {
    /// The heart of what NVIDIA's plugin says, where it refuses the same.
    pub fn upstream(&self) -> Option<&'static str> {
        match self {
            OfferError::PartlyMig { .. } => {
                Some("all devices on the node must be configured with the same migEnabled value")
            }
            OfferError::EmptyMig(_) => {
                Some("at least one device with migEnabled=true was not configured correctly")
            }
            OfferError::DifferentMigs { .. } => Some("more than one MIG device type present on node"),
            OfferError::PartialInstance { .. } | OfferError::NoPattern { .. } => {
                Some("does not match any resource patterns")
            }
            OfferError::SharedTwice { .. }
            | OfferError::NoSuchDevice { .. }
            | OfferError::TooManyReplicas { .. } => None,
        }
    }
}

/// A part with its name, before sharing.
pub(crate) struct Named<'a> {
    pub(crate) name: ResourceName,
    pub(crate) gpu: &'a NodeGpu,
    pub(crate) mig: Option<&'a NodeMig>,
}

impl Named<'_> {
    pub(crate) fn part(&self) -> PartId {
        self.mig.map_or_else(|| self.gpu.part(), NodeMig::part)
    }

    pub(crate) fn index(&self) -> String {
        match self.mig {
            None => self.gpu.gpu.index.to_string(),
            Some(mig) => format!("{}:{}", self.gpu.gpu.index, mig.device.position),
        }
    }

    fn device(&self, id: DeviceId, share: Share) -> Device {
        let gpu = &self.gpu.gpu;
        let mut nodes = vec![format!("/dev/nvidia{}", gpu.minor)];
        if let Some(mig) = self.mig {
            let (instance, compute) = mig.guards;
            nodes.push(format!("/dev/nvidia-caps/nvidia-cap{instance}"));
            nodes.push(format!("/dev/nvidia-caps/nvidia-cap{compute}"));
        }
        Device {
            id,
            part: self.part(),
            gpu: gpu.index,
            gpu_uuid: gpu.uuid.clone(),
            index: self.index(),
            numa_node: gpu.numa_node,
            nodes,
            share,
            unshared_name: self.name.clone(),
        }
    }
}

/// Says what a node offers.
pub fn offer(node: &NodeGpus, settings: &Settings) -> Result<Offer, OfferError> {
    let mut offer = Offer::default();
    let named = name_parts(node, settings, &mut offer.remarks)?;
    let shares = shares(&named, settings, &mut offer.remarks)?;
    for part in &named {
        let exclusive = Shared { share: Share::NONE, name: part.name.clone(), one_share_each: false };
        let shared = shares.get(&part.part()).unwrap_or(&exclusive);
        let resource = offer.resources.entry(shared.name.clone()).or_insert_with(|| Resource {
            name: shared.name.clone(),
            devices: Vec::new(),
            one_share_each: false,
        });
        resource.one_share_each |= shared.one_share_each;
        let id = part.part();
        if shared.share == Share::NONE {
            resource.devices.push(part.device(DeviceId::whole(&id), shared.share));
        } else {
            let replicas = (0..shared.share.replicas)
                .map(|number| part.device(DeviceId::replica(&id, number), shared.share));
            resource.devices.extend(replicas);
        }
    }
    Ok(offer)
}

/// Every part that can be handed out, with the name it has before sharing.
fn name_parts<'a>(
    node: &'a NodeGpus,
    settings: &Settings,
    remarks: &mut Vec<String>,
) -> Result<Vec<Named<'a>>, OfferError> {
    let strategy = settings.mig_strategy;
    if strategy == MigStrategy::Single {
        check_alike(node)?;
    }
    let mut named = Vec::new();
    for gpu in &node.gpus {
        if strategy == MigStrategy::None || !gpu.mig_enabled {
            named.push(Named { name: gpu_name(gpu, &settings.names.gpus)?, gpu, mig: None });
            continue;
        }
        if gpu.migs.is_empty() {
            remarks.push(format!("MIG is on for GPU {}, but it holds no MIG device", gpu.gpu.index));
        }
        for mig in &gpu.migs {
            let name = match strategy {
                MigStrategy::Single => gpu_name(gpu, &[])?,
                _ => mig_name(mig, &settings.names.mig)?,
            };
            named.push(Named { name, gpu, mig: Some(mig) });
        }
    }
    Ok(named)
}

/// What strategy `single` demands.
fn check_alike(node: &NodeGpus) -> Result<(), OfferError> {
    // Lost ones keep what they had; nothing is known against them.
    let on = node.gpus.iter().find(|gpu| gpu.mig_enabled);
    let off = node.gpus.iter().find(|gpu| !gpu.mig_enabled && !gpu.lost);
    let Some(on) = on else { return Ok(()) };
    if let Some(off) = off {
        return Err(OfferError::PartlyMig { on: on.gpu.index, off: off.gpu.index });
    }
    if let Some(empty) = node.gpus.iter().find(|gpu| gpu.mig_enabled && gpu.migs.is_empty() && !gpu.lost) {
        return Err(OfferError::EmptyMig(empty.gpu.index));
    }
    let mut profiles = node.gpus.iter().flat_map(|gpu| &gpu.migs).map(|mig| &mig.profile);
    let Some(first) = profiles.next() else { return Ok(()) };
    match profiles.find(|profile| *profile != first) {
        None => Ok(()),
        Some(second) => {
            Err(OfferError::DifferentMigs { first: first.to_string(), second: second.to_string() })
        }
    }
}

fn gpu_name(gpu: &NodeGpu, rules: &[ResourceRule]) -> Result<ResourceName, OfferError> {
    if rules.is_empty() {
        return Ok(ResourceName::gpu());
    }
    by_rule(rules, &gpu.gpu.name)
        .ok_or_else(|| OfferError::NoPattern { what: "GPU", name: gpu.gpu.name.clone() })
}

fn mig_name(mig: &NodeMig, rules: &[ResourceRule]) -> Result<ResourceName, OfferError> {
    let profile = mig.profile.to_string();
    if let Some(name) = by_rule(rules, &profile) {
        return Ok(name);
    }
    if !mig.profile.is_whole() {
        return Err(OfferError::PartialInstance { part: mig.part(), profile });
    }
    format!("mig-{}", mig.profile.resource_form())
        .parse()
        .map_err(|_| OfferError::NoPattern { what: "MIG profile", name: profile })
}

/// The name that the first fitting rule gives.
fn by_rule(rules: &[ResourceRule], name: &str) -> Option<ResourceName> {
    rules.iter().find(|rule| fits(&rule.pattern, name)).map(|rule| rule.name.clone())
}

/// Whether a pattern with `*` fits a whole text.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| fits(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_fit_whole_texts() {
        assert!(fits("*", "") && fits("*H200*", "NVIDIA H200") && fits("A*-*B", "A100-40GB"));
        assert!(!fits("1g.5gb", "1g.5gb+me") && !fits("H200", "NVIDIA H200") && !fits("A*C", "AB"));
    }
}
