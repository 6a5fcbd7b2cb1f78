//! What each device of a claim is to be made ready as: what was allocated, and the configs that apply to it.
//!
//! Configs of classes come before those of the claim, and of two that apply the later one wins. One that names no request applies to the
//! devices it fits; one that names a request must fit what the request got, because a setting that is silently left out is worse than a
//! pod that waits.

use crate::{Allocated, Claim, ClaimConfig, ConfigSource, DeviceName, Sharing};
use carve_formats::dra_config::{self, ConfigError, FractionConfig, Interval, MpsConfig, OpaqueConfig};
use carve_formats::workloads::Quantity;
use carve_gpu_model::Mebibytes;
use std::fmt;
use thiserror::Error;

/// A device of a claim, and how the claim uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The request it answers, without the name of an alternative.
    pub request: String,
    /// The device.
    pub device: DeviceName,
    /// Which share of it.
    pub share: Option<String>,
    /// How it is used.
    pub usage: Usage,
}

/// How a claim uses a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Usage {
    /// Alone, in whatever way its containers like.
    Alone,
    /// Alone, its containers taking turns of a length.
    AloneByTurns(Interval),
    /// Alone, its containers over a daemon with limits for each of them.
    AloneOverMps(MpsConfig),
    /// Beside other claims, held to memory and percent of compute by the limiter; no compute means no limit of it.
    Fraction {
        /// Memory.
        memory: Mebibytes,
        /// Percent of compute.
        compute: u8,
        /// What else its owner wishes.
        config: FractionConfig,
    },
    /// Beside other claims over one daemon, held to memory and percent of threads; no percent means no limit of it.
    MpsShare {
        /// Memory that it has.
        memory: Mebibytes,
        /// What each of its clients may have of that.
        each: Mebibytes,
        /// Percent of threads that each of its clients may have.
        threads: u8,
    },
    /// Beside other claims, by turns.
    Turn(Interval),
    /// Looked at, beside whoever uses it.
    Watch,
}

impl Usage {
    /// Whether it takes an MPS daemon.
    pub fn is_mps(&self) -> bool {
        matches!(self, Usage::AloneOverMps(_) | Usage::MpsShare { .. })
    }
}

/// Why a claim can not be made ready.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("claim {namespace}/{name}: {trouble}")]
pub struct GrantError {
    /// Namespace of the claim.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What is wrong.
    pub trouble: GrantTrouble,
}

/// What is wrong with a claim.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GrantTrouble {
    /// The scheduler has not decided, or the claim was given back.
    #[error("nothing is allocated to it; the pod has to be scheduled again")]
    NotAllocated,
    /// Another node's devices.
    #[error(
        "request '{request}': device '{device}' is of pool '{found}', and this node's pool is '{pool}'; the pod belongs on the other node"
    )]
    OtherPool {
        /// The request.
        request: String,
        /// The device.
        device: String,
        /// Its pool.
        found: String,
        /// The pool of this node.
        pool: String,
    },
    /// Nothing of this driver.
    #[error("none of its devices is of driver '{driver}'")]
    NothingOurs {
        /// The driver.
        driver: String,
    },
    /// A name nobody published.
    #[error(
        "request '{request}': '{device}' is no device of this node; it was published by another version of the driver, delete the pod to have another one chosen"
    )]
    UnknownDevice {
        /// The request.
        request: String,
        /// The device.
        device: String,
    },
    /// The API server dropped fields.
    #[error(
        "request '{request}': device {device} is shared, and the allocation does not say how much '{capacity}' the claim has of it; switch the feature DRAConsumableCapacity on in the API server and in the scheduler"
    )]
    NotSaid {
        /// The request.
        request: String,
        /// The device.
        device: DeviceName,
        /// What is missing.
        capacity: &'static str,
    },
    /// A config that does not decode.
    #[error("config {place}: {error}")]
    Config {
        /// Which config.
        place: Place,
        /// What is wrong with it.
        error: ConfigError,
    },
    /// A config for something else than the request got.
    #[error("config {place}: {kind} does not go with device {device} of request '{request}'; {fix}")]
    Misfit {
        /// Which config.
        place: Place,
        /// Its kind.
        kind: &'static str,
        /// The device.
        device: DeviceName,
        /// The request.
        request: String,
        /// What to write instead.
        fix: &'static str,
    },
    /// A container talks to one daemon.
    #[error(
        "request '{request}' has several devices over MPS, and a container reaches only one MPS daemon; ask for them in requests of their own and give each to another container"
    )]
    SeveralDaemons {
        /// The request.
        request: String,
    },
}

/// Where a config stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Who wrote it.
    pub source: ConfigSource,
    /// Its place in the status of the claim.
    pub index: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.source {
            ConfigSource::Class => "of its device class",
            ConfigSource::Claim => "of the claim itself",
        };
        write!(f, "{source} (status.allocation.devices.config[{}])", self.index)
    }
}

/// The devices of a claim that are this driver's on this node, and how each is used.
pub fn grants(claim: &Claim, driver: &str, pool: &str) -> Result<Vec<Grant>, GrantError> {
    let read = || {
        let allocation = claim.allocation.as_ref().ok_or(GrantTrouble::NotAllocated)?;
        let configs = decode(&allocation.configs, driver)?;
        let ours: Vec<&Allocated> =
            allocation.results.iter().filter(|result| result.driver == driver).collect();
        if ours.is_empty() {
            return Err(GrantTrouble::NothingOurs { driver: driver.to_owned() });
        }
        let grants: Vec<Grant> =
            ours.into_iter().map(|result| grant(result, pool, &configs)).collect::<Result<_, _>>()?;
        let several = grants.iter().find(|one| {
            let of_request = grants.iter().filter(|other| other.request == one.request);
            one.usage.is_mps() && of_request.count() > 1
        });
        match several {
            Some(grant) => Err(GrantTrouble::SeveralDaemons { request: grant.request.clone() }),
            None => Ok(grants),
        }
    };
    read().map_err(|trouble| GrantError {
        namespace: claim.namespace.clone(),
        name: claim.name.clone(),
        trouble,
    })
}

struct Decoded<'a> {
    place: Place,
    requests: &'a [String],
    config: OpaqueConfig,
}

fn decode<'a>(configs: &'a [ClaimConfig], driver: &str) -> Result<Vec<Decoded<'a>>, GrantTrouble> {
    let ours = configs.iter().enumerate().filter(|(_, config)| config.driver == driver);
    let mut decoded: Vec<Decoded<'a>> = ours
        .map(|(index, written)| {
            let place = Place { source: written.source, index };
            let config = OpaqueConfig::decode(&written.parameters)
                .map_err(|error| GrantTrouble::Config { place, error })?;
            Ok(Decoded { place, requests: &written.requests, config })
        })
        .collect::<Result<_, _>>()?;
    decoded.sort_by_key(|decoded| (decoded.place.source, decoded.place.index));
    Ok(decoded)
}

fn grant(result: &Allocated, pool: &str, configs: &[Decoded<'_>]) -> Result<Grant, GrantTrouble> {
    if result.pool != pool {
        return Err(GrantTrouble::OtherPool {
            request: result.request.clone(),
            device: result.device.clone(),
            found: result.pool.clone(),
            pool: pool.to_owned(),
        });
    }
    let unknown =
        |_| GrantTrouble::UnknownDevice { request: result.request.clone(), device: result.device.clone() };
    let device: DeviceName = result.device.parse().map_err(unknown)?;
    let main = result.request.split('/').next().unwrap_or_default();
    let mut chosen = None;
    for decoded in configs {
        let named = decoded.requests.iter().any(|request| *request == result.request || request == main);
        match misfit(&decoded.config, &device) {
            None if named || decoded.requests.is_empty() => chosen = Some(&decoded.config),
            Some((kind, fix)) if named => {
                let request = result.request.clone();
                return Err(GrantTrouble::Misfit { place: decoded.place, kind, device, request, fix });
            }
            _ => {}
        }
    }
    let usage = if result.admin { Usage::Watch } else { usage(result, &device, chosen)? };
    Ok(Grant { request: main.to_owned(), device, share: result.share.clone(), usage })
}

/// Why a config does not go with a device, and what to do; nothing where it does.
fn misfit(config: &OpaqueConfig, device: &DeviceName) -> Option<(&'static str, &'static str)> {
    let (kind, sharing, mig) = match config {
        OpaqueConfig::Fraction(_) => {
            let fits = device.sharing == Some(Sharing::Limiter);
            let fix = "name a request that asks for a fraction, or take the config out";
            return (!fits).then_some(("FractionConfig", fix));
        }
        OpaqueConfig::Gpu(sharing) => ("GpuConfig", sharing, false),
        OpaqueConfig::Mig(sharing) => ("MigDeviceConfig", sharing, true),
    };
    if mig != device.mig.is_some() {
        let fix =
            if mig { "write GpuConfig for a whole GPU" } else { "write MigDeviceConfig for a MIG device" };
        return Some((kind, fix));
    }
    let fits = match (device.sharing, sharing) {
        (None, _) => true,
        (Some(_), None) => true,
        (Some(Sharing::Mps), Some(dra_config::Sharing::Mps(_))) => true,
        (Some(Sharing::TimeSlicing), Some(dra_config::Sharing::TimeSlicing(_))) => true,
        (Some(_), Some(_)) => false,
    };
    (!fits).then_some((
        kind,
        "the device is shared in another way; take the config out, or ask for another class",
    ))
}

fn usage(
    result: &Allocated,
    device: &DeviceName,
    config: Option<&OpaqueConfig>,
) -> Result<Usage, GrantTrouble> {
    let sharing = match config {
        Some(OpaqueConfig::Gpu(sharing) | OpaqueConfig::Mig(sharing)) => sharing.as_ref(),
        _ => None,
    };
    let not_said = |capacity: &'static str| GrantTrouble::NotSaid {
        request: result.request.clone(),
        device: device.clone(),
        capacity,
    };
    let amount = |capacity: &'static str| -> Result<Quantity, GrantTrouble> {
        let text = result.consumed.get(capacity).ok_or_else(|| not_said(capacity))?;
        text.parse().map_err(|_| not_said(capacity))
    };
    let percent = || Ok(amount("compute")?.whole().and_then(|whole| u8::try_from(whole).ok()).unwrap_or(100));
    Ok(match device.sharing {
        None => match sharing {
            None => Usage::Alone,
            // Instances have no turns of their own to set.
            Some(dra_config::Sharing::TimeSlicing(_)) if device.mig.is_some() => Usage::Alone,
            Some(dra_config::Sharing::TimeSlicing(interval)) => Usage::AloneByTurns(*interval),
            Some(dra_config::Sharing::Mps(config)) => Usage::AloneOverMps(config.clone()),
        },
        Some(Sharing::Limiter) => {
            let config = match config {
                Some(OpaqueConfig::Fraction(config)) => *config,
                _ => FractionConfig::default(),
            };
            Usage::Fraction { memory: amount("memory")?.whole_mebibytes(), compute: percent()?, config }
        }
        Some(Sharing::Mps) => {
            let (memory, mut threads) = (amount("memory")?.whole_mebibytes(), percent()?);
            let mut each = memory;
            if let Some(dra_config::Sharing::Mps(config)) = sharing {
                // A claim may hold its clients to less than it has.
                if let Some(limit) = config.memory.default {
                    each = each.min(limit.whole_mebibytes());
                }
                if let Some(limit) = config.active_thread_percentage.filter(|limit| *limit > 0) {
                    threads = if threads == 0 { limit } else { threads.min(limit) };
                }
            }
            Usage::MpsShare { memory, each, threads }
        }
        Some(Sharing::TimeSlicing) => Usage::Turn(match sharing {
            Some(dra_config::Sharing::TimeSlicing(interval)) => *interval,
            _ => Interval::Default,
        }),
    })
}

/// Whether two claims can not hold these devices at the same time; each device with its share.
///
/// The scheduler keeps them apart by counters; this is for the day it does not.
pub fn excludes(one: (&DeviceName, Option<&str>), other: (&DeviceName, Option<&str>)) -> bool {
    let ((one, share), (other, other_share)) = (one, other);
    if one.minor != other.minor {
        return false;
    }
    if one == other {
        return one.sharing.is_none() || share.is_none() || other_share.is_none() || share == other_share;
    }
    match (&one.mig, &other.mig) {
        // Whether two places overlap is known to the GPU, which refuses the second.
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}
