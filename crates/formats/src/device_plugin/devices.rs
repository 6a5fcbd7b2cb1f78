//! Which devices a sharing rule is for, and the ways to name one device.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A choice of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicatedDevices {
    /// Every device.
    All,
    /// So many devices, whichever.
    Count(u64),
    /// These devices. May be empty.
    List(Vec<DeviceRef>),
}

/// One device, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRef {
    text: String,
    kind: DeviceRefKind,
}

/// The ways to name a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceRefKind {
    /// `0`
    GpuIndex,
    /// `0:1`
    MigIndex,
    /// `GPU-b1028956-cfa2-0990-bf4a-5da9abb51763`
    GpuUuid,
    /// `MIG-b1028956-cfa2-0990-bf4a-5da9abb51763`, or the old form `MIG-GPU-b1028956-cfa2-0990-bf4a-5da9abb51763/3/0`
    MigUuid,
}

/// The text names no device.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is neither a GPU index, nor a MIG index such as 0:1, nor a GPU or MIG UUID")]
pub struct DeviceRefError(pub String);

impl DeviceRef {
    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How it names the device.
    pub fn kind(&self) -> DeviceRefKind {
        self.kind
    }

    /// A whole GPU by index.
    pub fn gpu_index(index: u64) -> Self {
        DeviceRef { text: index.to_string(), kind: DeviceRefKind::GpuIndex }
    }
}

impl FromStr for DeviceRef {
    type Err = DeviceRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = if is_index(text) {
            DeviceRefKind::GpuIndex
        } else if text.split_once(':').is_some_and(|(gpu, device)| is_index(gpu) && is_index(device)) {
            DeviceRefKind::MigIndex
        } else if is_gpu_uuid(text) {
            DeviceRefKind::GpuUuid
        } else if is_mig_uuid(text) {
            DeviceRefKind::MigUuid
        } else {
            return Err(DeviceRefError(text.to_owned()));
        };
        Ok(DeviceRef { text: text.to_owned(), kind })
    }
}

impl fmt::Display for DeviceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_index(text: &str) -> bool {
    !text.starts_with('+') && text.parse::<u64>().is_ok()
}

fn is_gpu_uuid(text: &str) -> bool {
    text.strip_prefix("GPU-").is_some_and(is_uuid)
}

fn is_mig_uuid(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("MIG-") else { return false };
    let parts: Vec<&str> = rest.splitn(3, '/').collect();
    is_uuid(rest) || matches!(parts[..], [gpu, gi, ci] if is_gpu_uuid(gpu) && is_index(gi) && is_index(ci))
}

/// All the spellings that Go's uuid package takes: plain, `urn:uuid:`, in any two brackets, without dashes.
fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    let body = match bytes.len() {
        32 => return bytes.iter().all(u8::is_ascii_hexdigit),
        36 => Some(bytes),
        45 if text.get(..9).is_some_and(|urn| urn.eq_ignore_ascii_case("urn:uuid:")) => bytes.get(9..),
        38 => bytes.get(1..37),
        _ => None,
    };
    body.is_some_and(|body| {
        body.iter().enumerate().all(|(index, b)| match index {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
    })
}
