//! What is told of containers and devices.

use carve_economics::Parts;
use carve_gpu_host::Readings;
use carve_slicing::Holder;
use carve_usage::Evidence;

/// Everything that is told now; replaced as a whole, so that who is gone has no series from one scrape to the next.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsageRows {
    pub(crate) containers: Vec<ContainerRow>,
    pub(crate) units: Vec<UnitRow>,
    pub(crate) devices: Vec<DeviceRow>,
}

/// A container and its part of one GPU or MIG device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContainerRow {
    pub(crate) holder: Holder,
    /// Of its part.
    pub(crate) uuid: String,
    pub(crate) mechanism: &'static str,
    /// Seconds so far, by how they are known.
    pub(crate) seconds: Vec<(Evidence, f64)>,
    /// Part of the last look's time, where it is known, and how.
    pub(crate) now: Option<f64>,
    pub(crate) how: Option<Evidence>,
    /// Bytes now.
    pub(crate) memory: u64,
    pub(crate) memory_limit: Option<u64>,
    /// Bytes of the part.
    pub(crate) part_memory: Option<u64>,
    /// What it has of the part, where the part is given out in equal shares.
    pub(crate) shares: Option<Parts>,
    /// Of the part's time, where something was promised.
    pub(crate) promised: Option<f64>,
    pub(crate) throttled: Option<f64>,
    pub(crate) denied: Option<u64>,
}

/// A GPU or an instance, of which the driver tells the use.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UnitRow {
    pub(crate) uuid: String,
    /// Of the GPU, as the driver counts.
    pub(crate) gpu: u32,
    /// Id and profile of the instance.
    pub(crate) instance: Option<(u32, String)>,
    /// Seconds in which it was busy.
    pub(crate) seconds: f64,
    /// Of these for containers that are gone.
    pub(crate) former: f64,
    /// Of these for nobody who is known.
    pub(crate) unattributed: f64,
    /// Part of the last look's time; none where the driver does not tell.
    pub(crate) now: Option<f64>,
    /// Part of the last look's time that nobody used who is known.
    pub(crate) rest_now: f64,
    /// Bytes in use that belong to no container.
    pub(crate) rest_memory: u64,
    /// Bytes in use.
    pub(crate) memory: u64,
    /// Bytes there are, where that is known.
    pub(crate) memory_total: Option<u64>,
    /// Its containers, as places in the list of them.
    pub(crate) containers: Vec<usize>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeviceRow {
    pub(crate) uuid: String,
    pub(crate) gpu: u32,
    pub(crate) minor: u32,
    pub(crate) pci: String,
    pub(crate) model: String,
    /// Bytes in use, free, and kept by the driver.
    pub(crate) memory: Option<(u64, u64, u64)>,
    pub(crate) readings: Option<Readings>,
    pub(crate) memory_percent: Option<u32>,
    /// The only container that has anything of it, if there is just one.
    pub(crate) only: Option<usize>,
}
