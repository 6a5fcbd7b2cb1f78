//! Names of things: GPUs, instances, PCI functions. Newtypes, so that an index cannot be taken for an id.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Position of a GPU in the driver's enumeration, as `nvidia-smi -i` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GpuIndex(pub u32);

/// Identity of a physical GPU: `GPU-` and a UUID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GpuUuid(pub String);

/// Identity of a MIG device: `MIG-` and a UUID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MigUuid(pub String);

/// The driver's id of a GPU instance on its GPU. It says nothing about placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GpuInstanceId(pub u32);

/// The driver's id of a compute instance inside its GPU instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ComputeInstanceId(pub u32);

/// Minor number of a `/dev/nvidia-caps/nvidia-capN` node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CapabilityMinor(pub u32);

macro_rules! display_inner {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
display_inner!(GpuIndex, GpuUuid, MigUuid, GpuInstanceId, ComputeInstanceId, CapabilityMinor);

/// A PCI device (or subsystem) id with its vendor, written `0xDDDDVVVV` as mig-parted's filters do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciId(u32);

impl PciId {
    /// NVIDIA's PCI vendor id.
    pub const NVIDIA: u16 = 0x10DE;

    /// From the packed form that NVML reports.
    pub const fn from_packed(packed: u32) -> Self {
        PciId(packed)
    }

    /// From a device id of NVIDIA.
    pub const fn nvidia(device: u16) -> Self {
        PciId(((device as u32) << 16) | Self::NVIDIA as u32)
    }

    /// Device id in the upper, vendor id in the lower half.
    pub const fn packed(self) -> u32 {
        self.0
    }

    /// The device half.
    pub const fn device(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The vendor half.
    pub const fn vendor(self) -> u16 {
        self.0 as u16
    }
}

impl fmt::Display for PciId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08X}", self.0)
    }
}

impl fmt::Debug for PciId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a PCI id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a PCI device id; write it as 0xDDDDVVVV, for example 0x20B010DE")]
pub struct PciIdParseError(pub String);

impl FromStr for PciId {
    type Err = PciIdParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || PciIdParseError(text.to_owned());
        let digits = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))
            .filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .ok_or_else(error)?;
        u32::from_str_radix(digits, 16).map(PciId).map_err(|_| error())
    }
}

impl Serialize for PciId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where a GPU sits on the PCI bus, written `0000:01:00.0` as sysfs does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// PCI domain.
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device on the bus.
    pub device: u8,
}

impl PciAddress {
    /// The spelling NVML uses, with an eight-digit domain.
    pub fn nvml_bus_id(self) -> String {
        format!("{:08X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.0", self.domain, self.bus, self.device)
    }
}

/// The text is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a PCI address; write it as 0000:01:00.0")]
pub struct PciAddressParseError(pub String);

impl FromStr for PciAddress {
    type Err = PciAddressParseError;

    /// Accepts four- and eight-digit domains, and no domain at all.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || PciAddressParseError(text.to_owned());
        let hex = |digits: &str, most: u32| {
            (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()))
                .then(|| u32::from_str_radix(digits, 16).ok())
                .flatten()
                .filter(|value| *value <= most)
                .ok_or_else(error)
        };
        let mut parts = text.rsplitn(3, ':');
        let slot = parts.next().ok_or_else(error)?;
        let bus = parts.next().ok_or_else(error)?;
        let domain = parts.next().unwrap_or("0");
        let (device, function) = slot.split_once('.').unwrap_or((slot, "0"));
        hex(function, 7)?;
        Ok(PciAddress {
            domain: hex(domain, u32::MAX)?,
            bus: hex(bus, 0xFF)? as u8,
            device: hex(device, 0x1F)? as u8,
        })
    }
}

impl Serialize for PciAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
