//! The config file of NVIDIA's device plugin and feature discovery, version v1.
//!
//! The file is checked in two layers, as NVIDIA's programs do it: [`DevicePluginConfig::parse`] is what reading the file
//! refuses, [`DevicePluginConfig::validate_flags`] what the plugin refuses once command line and environment were put on
//! top. Much of what the file may say is read and then thrown away; all of that comes back as warnings.

mod devices;
mod doubts;
mod duration;
mod fields;
mod flags;
mod misplaced;
mod parse;
mod print;
mod resource_name;
mod sharing;
mod validate;

pub use devices::{DeviceRef, DeviceRefError, DeviceRefKind, ReplicatedDevices};
pub use duration::{Duration, DurationError};
pub use flags::{Flags, GfdFlags, PluginFlags};
pub use resource_name::{ResourceName, ResourceNameError};
pub use sharing::{ReplicatedResource, ReplicatedResources, Sharing, SharingStrategy};
pub use validate::FlagError;

/// A whole config file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DevicePluginConfig {
    /// What the command line could say as well.
    pub flags: Flags,
    /// Names for GPUs and MIG devices. Read, checked and then ignored by NVIDIA's plugin.
    pub resources: Resources,
    /// How devices are shared.
    pub sharing: Sharing,
    /// Channels between nodes.
    pub imex: Imex,
}

/// Which devices get which resource name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resources {
    /// Rules for whole GPUs, by product name.
    pub gpus: Vec<ResourceRule>,
    /// Rules for MIG devices, by profile name.
    pub mig: Vec<ResourceRule>,
}

/// A pattern with `*`, and the name for what it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRule {
    /// The pattern.
    pub pattern: String,
    /// The resource name.
    pub name: ResourceName,
}

/// IMEX channels for containers on fabric-attached GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imex {
    /// Channels to hand to containers: none, or channel 0.
    pub channel_ids: Vec<i64>,
    /// Whether the plugin refuses to start without them.
    pub required: bool,
}
