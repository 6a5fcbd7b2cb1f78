//! A ResourceClaim as far as a driver cares: what was allocated to it, and what it says about how that is to be used.

use serde_json::Value;
use std::collections::BTreeMap;

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: a claim of the same name may be another one by now.
    pub uid: String,
    /// What the scheduler gave it; nothing yet, or no longer.
    pub allocation: Option<Allocation>,
}

/// What the scheduler gave a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The devices, of all drivers, in the order of the status.
    pub results: Vec<Allocated>,
    /// Configs of classes and of the claim, of all drivers, in the order of the status: a later one wins.
    pub configs: Vec<ClaimConfig>,
}

/// One device, or one share of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocated {
    /// The request it answers, `request` or `request/subrequest`.
    pub request: String,
    /// Name of the driver.
    pub driver: String,
    /// Pool it is from.
    pub pool: String,
    /// Its name in the pool.
    pub device: String,
    /// Which share, where several claims may hold the device.
    pub share: Option<String>,
    /// How much of the device's capacity the share takes, as the API server writes it.
    pub consumed: BTreeMap<String, String>,
    /// Whether it is only looked at, beside whoever uses it.
    pub admin: bool,
}

/// A config of a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimConfig {
    /// Who wrote it.
    pub source: ConfigSource,
    /// Requests it is for; none means all.
    pub requests: Vec<String>,
    /// Name of the driver.
    pub driver: String,
    /// What it says.
    pub parameters: Value,
}

/// Who wrote a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigSource {
    /// The administrator, in a DeviceClass.
    Class,
    /// The user, in the claim.
    Claim,
}
