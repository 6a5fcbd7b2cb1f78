//! What kubelet counts: a GPU, a MIG device, or one of several shares of either.

use carve_formats::device_plugin::ResourceName;
use carve_gpu_model::{GpuIndex, GpuUuid};
use std::fmt;

/// A whole GPU or a MIG device, by the name the driver gives it: `GPU-…` or `MIG-…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(String);

impl PartId {
    /// From the driver's name.
    pub fn new(uuid: impl Into<String>) -> Self {
        PartId(uuid.into())
    }

    /// The driver's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name under which kubelet knows a device: that of the part, and of a shared one `::N` behind it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(String);

impl DeviceId {
    /// The name of a part that is not shared.
    pub fn whole(part: &PartId) -> Self {
        DeviceId(part.0.clone())
    }

    /// The name of one share of a part.
    pub fn replica(part: &PartId, number: u64) -> Self {
        DeviceId(format!("{part}::{number}"))
    }

    /// The name, as kubelet writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How several containers use one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// One container has it alone.
    Exclusive,
    /// In turns.
    TimeSlicing,
    /// Together, through the multi-process service.
    Mps,
}

impl Mechanism {
    /// The word NVIDIA's labels use.
    pub fn label(self) -> &'static str {
        match self {
            Mechanism::Exclusive => "none",
            Mechanism::TimeSlicing => "time-slicing",
            Mechanism::Mps => "mps",
        }
    }
}

/// How a part is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// In which way.
    pub mechanism: Mechanism,
    /// Among how many.
    pub replicas: u64,
}

impl Share {
    /// Not at all.
    pub const NONE: Share = Share { mechanism: Mechanism::Exclusive, replicas: 1 };
}

/// One device of a resource, with all that an answer about it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// What kubelet calls it.
    pub id: DeviceId,
    /// What it is, or is a share of.
    pub part: PartId,
    /// The GPU it is on.
    pub gpu: GpuIndex,
    /// The same GPU's lasting name.
    pub gpu_uuid: GpuUuid,
    /// Its place in the driver's order: `0`, or `0:1` for a MIG device.
    pub index: String,
    /// NUMA node, where the machine has several.
    pub numa_node: Option<u32>,
    /// Device nodes a container needs besides those every container needs: `/dev/nvidia0`, capability nodes.
    pub nodes: Vec<String>,
    /// How the part is shared.
    pub share: Share,
    /// What the part was called before it was shared.
    pub unshared_name: ResourceName,
}
