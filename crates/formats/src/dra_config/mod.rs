//! Opaque configs of ResourceClaims and DeviceClasses: what a claim says about how its devices are to be shared.
//!
//! NVIDIA's kinds are read as users write them for NVIDIA's driver, ours say what a fraction does. Decoding is strict: a field that
//! nobody knows is an error with its path, because a limit that is silently ignored is worse than a pod that waits. Nothing here
//! panics, whatever is written; every error says where, what, and what to write instead.

mod fields;
mod mps_limits;

pub use mps_limits::{MpsLimitError, MpsLimits};

use crate::workloads::Quantity;
use fields::Fields;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// The group and version of NVIDIA's kinds.
pub const NVIDIA: &str = "resource.nvidia.com/v1beta1";
/// The group and version of ours.
pub const CARVE: &str = "carve.dev/v1alpha1";

/// What a config says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpaqueConfig {
    /// For whole GPUs.
    Gpu(Option<Sharing>),
    /// For MIG devices.
    Mig(Option<Sharing>),
    /// For fractions that carve's limiter holds.
    Fraction(FractionConfig),
}

/// How the containers of a claim share its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sharing {
    /// By turns.
    TimeSlicing(Interval),
    /// Over an MPS daemon.
    Mps(MpsConfig),
}

/// How long a turn is, as `nvidia-smi compute-policy` counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Interval {
    /// What the driver likes.
    #[default]
    Default,
    /// Short.
    Short,
    /// Medium.
    Medium,
    /// Long.
    Long,
}

impl Interval {
    const NAMES: [(&'static str, Interval); 4] = [
        ("Default", Interval::Default),
        ("Short", Interval::Short),
        ("Medium", Interval::Medium),
        ("Long", Interval::Long),
    ];

    /// The number that the driver takes.
    pub fn number(self) -> u32 {
        self as u32
    }
}

/// Limits for the clients of an MPS daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MpsConfig {
    /// Percent of the GPU's threads that a client may use.
    pub active_thread_percentage: Option<u8>,
    /// Memory that a client may hold.
    pub memory: MpsLimits,
    /// Whether clients of several users are let in.
    pub multi_user: bool,
}

/// What a fraction does where its neighbours leave something, and where it can not be held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FractionConfig {
    /// What happens to compute that nobody uses.
    pub compute: ComputePolicy,
    /// What happens where the limiter can not work in a container.
    pub without_limiter: WithoutLimiter,
}

/// What happens to compute that nobody uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ComputePolicy {
    /// The share is never exceeded.
    #[default]
    Hard,
    /// What others leave is lent, and taken back when they come.
    Burst,
}

/// What happens where the limiter can not work in a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WithoutLimiter {
    /// CUDA is refused.
    #[default]
    Refuse,
    /// CUDA works, without limits, and that is told.
    Pass,
}

/// Why a config is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ConfigError {
    /// The field, from the config down; empty for the config itself.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    /// What to write instead.
    pub fix: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}; {}", self.what, self.fix)
    }
}

/// Kinds of NVIDIA's that carve does not serve, and why.
const UNSERVED: [(&str, &str); 3] = [
    ("VfioDeviceConfig", "GPUs are not passed through to virtual machines"),
    ("ComputeDomainChannelConfig", "compute domains are served by NVIDIA's own driver for them"),
    ("ComputeDomainDaemonConfig", "compute domains are served by NVIDIA's own driver for them"),
];

impl OpaqueConfig {
    /// Reads `parameters` of a config.
    pub fn decode(parameters: &Value) -> Result<Self, ConfigError> {
        let mut top = Fields::top(parameters)?;
        let version = top.text("apiVersion")?.unwrap_or_default();
        let kind = top.text("kind")?.unwrap_or_default();
        let config = match (version.as_str(), kind.as_str()) {
            (NVIDIA, "GpuConfig") => OpaqueConfig::Gpu(sharing(&mut top, true)?),
            (NVIDIA, "MigDeviceConfig") => OpaqueConfig::Mig(sharing(&mut top, false)?),
            (CARVE, "FractionConfig") => OpaqueConfig::Fraction(fraction(&mut top)?),
            (version, kind) => return Err(unknown_kind(version, kind)),
        };
        top.end()?;
        Ok(config)
    }
}

fn unknown_kind(version: &str, kind: &str) -> ConfigError {
    let error = |what: String, fix: &str| ConfigError { field: String::new(), what, fix: fix.to_owned() };
    if let Some((_, why)) = UNSERVED.iter().find(|(name, _)| *name == kind) {
        return error(format!("{kind} is not served here: {why}"), "take the config out of the claim");
    }
    let known = "write GpuConfig or MigDeviceConfig of resource.nvidia.com/v1beta1, or FractionConfig of carve.dev/v1alpha1";
    if kind.is_empty() && version.is_empty() {
        return error("the config has neither apiVersion nor kind".to_owned(), known);
    }
    if version == "gpu.nvidia.com/v1alpha1" {
        return error(format!("{version} was given up by NVIDIA's driver"), known);
    }
    error(format!("nobody knows {kind:?} of {version:?}"), known)
}

fn sharing(top: &mut Fields<'_>, gpu: bool) -> Result<Option<Sharing>, ConfigError> {
    let Some(mut fields) = top.object("sharing")? else { return Ok(None) };
    let strategy = fields.text("strategy")?.unwrap_or_default();
    let turns = if gpu { fields.object("timeSlicingConfig")? } else { None };
    let mps = fields.object("mpsConfig")?;
    let misplaced = |name: &str| {
        let what = format!("it goes with another strategy than {strategy}");
        Err(fields.error(name, what, "take it out, or change the strategy"))
    };
    let sharing = match strategy.as_str() {
        "TimeSlicing" if mps.is_some() => return misplaced("mpsConfig"),
        "MPS" if turns.is_some() => return misplaced("timeSlicingConfig"),
        "TimeSlicing" => {
            let Some(mut turns) = turns else {
                fields.end()?;
                return Ok(Some(Sharing::TimeSlicing(Interval::Default)));
            };
            let interval = turns.one_of("interval", &Interval::NAMES)?;
            turns.end()?;
            Sharing::TimeSlicing(interval.unwrap_or_default())
        }
        "MPS" => Sharing::Mps(match mps {
            Some(mps) => mps_config(mps)?,
            None => MpsConfig::default(),
        }),
        other => {
            let what =
                if other.is_empty() { "it is missing".to_owned() } else { format!("nobody knows {other:?}") };
            return Err(fields.error("strategy", what, "write TimeSlicing or MPS"));
        }
    };
    fields.end()?;
    Ok(Some(sharing))
}

fn mps_config(mut fields: Fields<'_>) -> Result<MpsConfig, ConfigError> {
    let percent = fields.number("defaultActiveThreadPercentage")?;
    let percent = percent.map(|percent| {
        u8::try_from(percent).ok().filter(|percent| *percent <= 100).ok_or_else(|| {
            let what = format!("it is {percent}");
            fields.error("defaultActiveThreadPercentage", what, "write a number from 0 to 100")
        })
    });
    let active_thread_percentage = percent.transpose()?;
    let default = fields.quantity("defaultPinnedDeviceMemoryLimit")?;
    let mut devices = BTreeMap::<String, Quantity>::new();
    if let Some(mut listed) = fields.object("defaultPerDevicePinnedMemoryLimit")? {
        for device in listed.names() {
            if let Some(limit) = listed.quantity(&device)? {
                devices.insert(device, limit);
            }
        }
    }
    let multi_user = fields.switch("multiUser")?.unwrap_or(false);
    fields.end()?;
    Ok(MpsConfig { active_thread_percentage, memory: MpsLimits { default, devices }, multi_user })
}

fn fraction(top: &mut Fields<'_>) -> Result<FractionConfig, ConfigError> {
    let policies = [("Hard", ComputePolicy::Hard), ("Burst", ComputePolicy::Burst)];
    let ways = [("Refuse", WithoutLimiter::Refuse), ("Pass", WithoutLimiter::Pass)];
    Ok(FractionConfig {
        compute: top.one_of("compute", &policies)?.unwrap_or_default(),
        without_limiter: top.one_of("withoutLimiter", &ways)?.unwrap_or_default(),
    })
}
