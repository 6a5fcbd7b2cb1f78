//! Labels that tell the cluster what a node's GPUs are and how they are shared, under the keys that NVIDIA's GPU Feature
//! Discovery uses.
//!
//! On a node with GPUs of one model the set is the one NVIDIA publishes. What it can not say is said beside it:
//!
//! * Several models: `nvidia.com/gpu.*` is about the model with the most GPUs, of equals the one with the lowest index,
//!   and `carve.dev/model.<product>.{count,memory,family,compute,sharing}` about each.
//! * GPUs that are shared in different ways, which an operator's choice of devices can bring about:
//!   `….replicas` and `….sharing-strategy` are about most of them, of equals about the first, and
//!   `carve.dev/sharing.<resource>.<way>` counts those of each way: `carve.dev/sharing.gpu.time-slicing-4=1`.
//!
//! A lost GPU is counted like any other: it is still in the machine, and labels are not where its health is told.

mod devices;
mod models;
mod names;
mod vgpu;
mod ways;

use crate::{NodeGpus, Offer, Settings};
use carve_gpu_host::{Driver, Fabric};
use carve_gpu_model::GpuIndex;
use names::LabelSet;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use thiserror::Error;
use ways::Ways;

pub use vgpu::{ShortConfigError, Vgpu, VgpuHost};

/// What labels tell that no driver knows, or that is asked of it for labels only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelFacts {
    /// What the firmware calls the machine (DMI product name), as it was read.
    pub machine: Option<String>,
    /// PCI class of each GPU.
    pub pci_classes: BTreeMap<GpuIndex, PciClass>,
    /// When the labels were made, in seconds since 1970; `None` leaves the label out.
    pub timestamp: Option<u64>,
    /// The fabric of each GPU that belongs to one.
    pub fabric: BTreeMap<GpuIndex, Fabric>,
    /// NVIDIA's PCI devices that are virtual GPUs. `None` where the kernel did not let the PCI configuration be read.
    pub vgpus: Option<Vec<Vgpu>>,
}

/// What the operator wants of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LabelOptions {
    /// Whether versions stand under `nvidia.com/cuda.driver` and `nvidia.com/cuda.runtime` too, where some node
    /// selectors look for them.
    pub aliases: bool,
}

/// What kind of device the PCI bus knows a GPU as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciClass(pub u32);

impl PciClass {
    /// A GPU that can drive a display.
    pub const VGA_CONTROLLER: PciClass = PciClass(0x03_0000);
    /// A GPU that can not.
    pub const CONTROLLER_3D: PciClass = PciClass(0x03_0200);
}

/// The text is no PCI class.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a PCI class; the kernel writes one as 0x030200")]
pub struct ParsePciClassError(pub String);

impl FromStr for PciClass {
    type Err = ParsePciClassError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim().strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
        digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .map(PciClass)
            .ok_or_else(|| ParsePciClassError(text.to_owned()))
    }
}

/// The label by which Node Feature Discovery knows whose features a `NodeFeature` object tells.
pub const NODE_FEATURE_NODE_LABEL: &str = "nfd.node.kubernetes.io/node-name";

/// Name of the `NodeFeature` object of a node, the same as NVIDIA's, so that one replaces the other.
pub fn node_feature_name(node: &str) -> String {
    format!("nvidia-features-for-{node}")
}

/// Labels as Node Feature Discovery reads them from a file: one to a line, sorted.
pub fn feature_file(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
}

/// All labels of a node. Every key and value is one that Kubernetes accepts.
///
/// `offer` is what [`crate::offer()`] said of the same node; without one, as under a MIG strategy that does not fit the
/// node, sharing is told as it was configured.
pub fn labels(
    node: &NodeGpus,
    settings: &Settings,
    offer: Option<&Offer>,
    facts: &LabelFacts,
    options: &LabelOptions,
) -> BTreeMap<String, String> {
    let mut set = LabelSet::default();
    if let Some(seconds) = facts.timestamp {
        set.nvidia("gfd.timestamp", seconds);
    }
    if let Some(vgpus) = &facts.vgpus {
        vgpu::label(vgpus, &mut set);
    }
    if node.gpus.is_empty() {
        return set.into_map();
    }
    set.nvidia("gpu.machine", names::sanitise(facts.machine.as_deref().unwrap_or("unknown")));
    versions(&node.driver, options, &mut set);
    set.nvidia("mig.capable", node.gpus.iter().any(|gpu| gpu.gpu.mig_capable));
    // NVIDIA's word: not whether the hardware could, but whether the configuration shares by MPS.
    set.nvidia("mps.capable", settings.sharing.mps.is_some());
    set.nvidia("gpu.mode", mode(node, facts));
    if let Some(fabric) = clique(facts) {
        set.nvidia("gpu.clique", format_args!("{}.{}", fabric.cluster, fabric.clique));
    }
    let ways = Ways::new(settings, offer);
    devices::label(node, settings.mig_strategy, &ways, &mut set);
    models::label(node, settings.mig_strategy, &ways, &mut set);
    set.into_map()
}

/// A part of the version that is not there stays empty.
fn versions(driver: &Driver, options: &LabelOptions, set: &mut LabelSet) {
    let mut parts = driver.version.splitn(3, '.');
    let mut part = || parts.next().unwrap_or_default();
    let (major, minor, revision) = (part(), part(), part());
    let (cuda_major, cuda_minor) = driver.cuda;
    // The keys that NVIDIA calls deprecated, which are in use all the same.
    set.nvidia("cuda.driver.major", major);
    set.nvidia("cuda.driver.minor", minor);
    set.nvidia("cuda.driver.rev", revision);
    set.nvidia("cuda.runtime.major", cuda_major);
    set.nvidia("cuda.runtime.minor", cuda_minor);
    set.nvidia("cuda.driver-version.major", major);
    set.nvidia("cuda.driver-version.minor", minor);
    set.nvidia("cuda.driver-version.revision", revision);
    set.nvidia("cuda.driver-version.full", &driver.version);
    set.nvidia("cuda.runtime-version.major", cuda_major);
    set.nvidia("cuda.runtime-version.minor", cuda_minor);
    let cuda = format!("{cuda_major}.{cuda_minor}");
    set.nvidia("cuda.runtime-version.full", &cuda);
    if options.aliases {
        set.nvidia("cuda.driver", &driver.version);
        set.nvidia("cuda.runtime", cuda);
    }
}

/// Whether the GPUs can drive displays, where it is known of all and the same for all.
fn mode(node: &NodeGpus, facts: &LabelFacts) -> &'static str {
    let mut classes = BTreeSet::new();
    for gpu in &node.gpus {
        match facts.pci_classes.get(&gpu.gpu.index) {
            Some(class) => drop(classes.insert(*class)),
            // A GPU that fell off the bus may be gone from the kernel's list; what it was is no doubt about the others.
            None if gpu.lost => {}
            None => return "unknown",
        }
    }
    match classes.into_iter().collect::<Vec<_>>().as_slice() {
        [PciClass::VGA_CONTROLLER] => "graphics",
        [PciClass::CONTROLLER_3D] => "compute",
        _ => "unknown",
    }
}

/// The fabric, where all GPUs that belong to one belong to the same.
fn clique(facts: &LabelFacts) -> Option<Fabric> {
    let mut all = facts.fabric.values();
    let first = *all.next()?;
    all.all(|other| *other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::{PciClass, feature_file, node_feature_name};
    use std::collections::BTreeMap;

    #[test]
    fn classes_are_read_as_the_kernel_writes_them() {
        assert_eq!("0x030200\n".parse(), Ok(PciClass::CONTROLLER_3D));
        assert_eq!("0x030000".parse(), Ok(PciClass::VGA_CONTROLLER));
        for text in ["", "0x", "030200", "0x+30200", "0x1_0"] {
            assert!(text.parse::<PciClass>().is_err(), "{text}");
        }
    }

    #[test]
    fn features_stand_in_a_sorted_file_and_under_the_name_of_the_node() {
        let labels = [("b.c", "2"), ("b-c", "1"), ("a", "")].map(|(key, value)| (key.into(), value.into()));
        assert_eq!(feature_file(&BTreeMap::from(labels)), "a=\nb-c=1\nb.c=2\n");
        assert_eq!(node_feature_name("gpu-7"), "nvidia-features-for-gpu-7");
    }
}
