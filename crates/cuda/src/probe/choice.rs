//! Which device a probe is about.

use crate::open::Cuda;
use crate::uuid::DeviceUuid;
use crate::{Device, ProbeError};
use std::fmt;
use std::str::FromStr;

/// A device, by its number in the process or by its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// Its number among the devices that the process sees.
    Ordinal(u32),
    /// Its identity.
    Uuid(DeviceUuid),
}

impl Default for DeviceChoice {
    /// The first one: with `CUDA_VISIBLE_DEVICES` set to one device, that device.
    fn default() -> Self {
        DeviceChoice::Ordinal(0)
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let refused = |error| format!("device '{text}': {error}");
            return text.parse().map(DeviceChoice::Ordinal).map_err(refused);
        }
        text.parse().map(DeviceChoice::Uuid).map_err(|error| format!("device: {error}; or a number"))
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Ordinal(ordinal) => write!(f, "{ordinal}"),
            DeviceChoice::Uuid(uuid) => write!(f, "{uuid}"),
        }
    }
}

impl DeviceChoice {
    /// The chosen device, if this process sees it.
    pub fn find<'c>(&self, cuda: &'c Cuda) -> Result<Device<'c>, ProbeError> {
        let count = cuda.count()?;
        let mut seen = Vec::new();
        for ordinal in 0..count {
            let device = cuda.device(ordinal)?;
            let uuid = device.uuid()?;
            match self {
                DeviceChoice::Ordinal(wanted) if *wanted == ordinal => return Ok(device),
                DeviceChoice::Uuid(wanted) if *wanted == uuid => return Ok(device),
                _ => seen.push(uuid),
            }
        }
        Err(ProbeError::DeviceNotSeen { wanted: *self, seen })
    }
}
