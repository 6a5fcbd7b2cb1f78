//! Which memory limit the MPS daemon sets for which device of a claim.

use crate::workloads::Quantity;
use carve_gpu_model::Mebibytes;
use std::collections::BTreeMap;
use thiserror::Error;

/// Limits as a config states them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MpsLimits {
    /// For every device that has none of its own.
    pub default: Option<Quantity>,
    /// By UUID, or by place among the claim's UUIDs in their order.
    pub devices: BTreeMap<String, Quantity>,
}

/// Why limits can not be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MpsLimitError {
    /// Nothing is known by this name.
    #[error(
        "there is no device '{device}' in the claim; name one by its UUID or by its place, of which there are {devices}, from 0 on"
    )]
    NoDevice {
        /// What was written.
        device: String,
        /// How many there are.
        devices: usize,
    },
    /// Less than a mebibyte.
    #[error(
        "the memory limit {of} is less than 1 MiB, the least that MPS can hold a client to; write at least 1Mi"
    )]
    TooLow {
        /// Which limit.
        of: String,
    },
}

impl MpsLimits {
    /// The limit for each device. MPS counts in whole mebibytes, and what is more is cut off.
    pub fn for_devices(&self, uuids: &[String]) -> Result<BTreeMap<String, Mebibytes>, MpsLimitError> {
        let mut limits = BTreeMap::new();
        if let Some(default) = self.default {
            let limit = mebibytes(default, || "for all devices".to_owned())?;
            limits.extend(uuids.iter().map(|uuid| (uuid.clone(), limit)));
        }
        let mut sorted = uuids.to_vec();
        sorted.sort();
        for (device, limit) in &self.devices {
            let by_place = || device.parse::<usize>().ok().and_then(|place| sorted.get(place));
            let found = sorted.iter().find(|uuid| *uuid == device).or_else(by_place);
            let Some(uuid) = found else {
                return Err(MpsLimitError::NoDevice { device: device.clone(), devices: uuids.len() });
            };
            limits.insert(uuid.clone(), mebibytes(*limit, || format!("of device '{device}'"))?);
        }
        Ok(limits)
    }
}

fn mebibytes(limit: Quantity, of: impl Fn() -> String) -> Result<Mebibytes, MpsLimitError> {
    let whole = limit.whole_mebibytes();
    if whole.0 == 0 { Err(MpsLimitError::TooLow { of: of() }) } else { Ok(whole) }
}
