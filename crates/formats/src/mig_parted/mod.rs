//! The mig-parted config file, version v1: which MIG devices which GPUs of a node shall have.
//!
//! [`MigPartedConfig::parse`] accepts what `nvidia-mig-parted` accepts and refuses what it refuses; what it accepts
//! although it can mean nothing good comes back as a warning. Printing gives the form of `nvidia-mig-parted export`.

mod doubts;
mod parse;
mod print;
mod select;

pub use select::SelectError;

use crate::diagnostic::At;
use carve_gpu_model::ProfileName;
use std::collections::BTreeMap;

/// Named configs, each a list of entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigPartedConfig {
    /// Entries by config name. Empty for a file that has a version and nothing else.
    pub configs: BTreeMap<String, Vec<ConfigEntry>>,
}

/// What some GPUs shall look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// PCI ids that the GPU must have one of, as written. Empty for any GPU.
    pub filter: Vec<String>,
    /// Which of the GPUs that pass the filter.
    pub devices: Devices,
    /// Whether MIG mode is on.
    pub mig_enabled: bool,
    /// Profiles and how many of each, in natural order of the names. Always empty where MIG mode is off.
    pub mig_devices: Vec<WantedProfile>,
    /// Where the entry stands.
    pub at: At,
}

/// A choice of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// Every GPU.
    All,
    /// GPUs by index. An index no GPU has is never reported by mig-parted.
    Listed(Vec<i64>),
}

/// A profile and how many instances of it are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedProfile {
    /// The name as written, which is what mig-parted compares.
    pub written: String,
    /// What it names.
    pub name: ProfileName,
    /// How many.
    pub count: u64,
    /// Where it stands.
    pub at: At,
}
