//! What a host tells about its driver, GPUs, instances and processes.

use carve_gpu_model::{
    Bytes, ComputeInstanceId, ComputeProfileIndex, Engines, GpuIndex, GpuInstanceId, GpuUuid, Mebibytes,
    MigUuid, PciAddress, PciId, Placement, ProfileId,
};
use serde::{Deserialize, Serialize};

/// The driver of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// Driver version, such as `580.65.06`.
    pub version: String,
    /// Highest CUDA version the driver serves.
    pub cuda: (u32, u32),
}

/// What does not change about a GPU while the driver runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Position in the driver's enumeration.
    pub index: GpuIndex,
    /// Identity.
    pub uuid: GpuUuid,
    /// What the driver calls the board.
    pub name: String,
    /// Where it sits.
    pub address: PciAddress,
    /// What it is.
    pub pci_id: PciId,
    /// What the board maker calls it.
    pub subsystem: Option<PciId>,
    /// Number of `/dev/nvidiaN`.
    pub minor: u32,
    /// All of its memory.
    pub memory: Bytes,
    /// CUDA compute capability.
    pub compute_capability: (u32, u32),
    /// NUMA node, where the machine has several.
    pub numa_node: Option<u32>,
    /// Whether the GPU can be cut by MIG.
    pub mig_capable: bool,
}

/// MIG mode of a GPU that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigMode {
    /// Whether MIG is on now.
    pub current: bool,
    /// Whether MIG will be on after the next reset.
    pub pending: bool,
}

/// What setting the MIG mode came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModeOutcome {
    /// The mode holds now.
    Done,
    /// The mode holds after a reset of the GPU.
    NeedsReset,
}

/// Memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// All of it.
    pub total: Bytes,
    /// Kept by the driver.
    pub reserved: Bytes,
    /// Held by processes, reserved part not counted.
    pub used: Bytes,
}

/// How busy a GPU was in the last sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Percent of the sample in which a kernel ran.
    pub compute_percent: u32,
    /// Percent of the sample in which memory was read or written.
    pub memory_percent: u32,
}

/// What sensors and counters of a GPU say; none where the GPU or its driver does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readings {
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// Degrees Celsius of its memory.
    pub memory_temperature: Option<u32>,
    /// Milliwatts.
    pub power: Option<u32>,
    /// Millijoules since the driver was loaded.
    pub energy: Option<u64>,
    /// Megahertz of the multiprocessors.
    pub compute_clock: Option<u32>,
    /// Megahertz of the memory.
    pub memory_clock: Option<u32>,
    /// How often something had to be sent again over PCI.
    pub pci_replays: Option<u32>,
    /// Percent of the last sample in which video was encoded.
    pub encoder_percent: Option<u32>,
    /// Percent of the last sample in which video was decoded.
    pub decoder_percent: Option<u32>,
    /// Rows of memory that were replaced.
    pub remapped_rows: Option<RemappedRows>,
}

/// Rows of memory that were replaced by spare ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemappedRows {
    /// After errors that could be corrected.
    pub correctable: u32,
    /// After errors that could not.
    pub uncorrectable: u32,
    /// Whether there was no spare one.
    pub failed: bool,
}

/// Which part of a while a device was busy, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BusyPart(pub u32);

impl BusyPart {
    /// All of it.
    pub const ALL: BusyPart = BusyPart(1_000_000);

    /// From percent, as drivers tell it; what is no number, or more than everything, is cut to what can be.
    pub fn from_percent(percent: f64) -> Self {
        BusyPart((percent.clamp(0.0, 100.0) * 10_000.0).round() as u32)
    }
}

/// How a process uses a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessKind {
    /// A CUDA context of its own.
    Compute,
    /// A client of an MPS server.
    MpsClient,
}

/// A process that holds a GPU or one of its instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// Process id.
    pub pid: u32,
    /// How it uses the GPU.
    pub kind: ProcessKind,
    /// Memory it holds, where the driver tells.
    pub memory: Option<Bytes>,
    /// The GPU instance it runs in.
    pub gpu_instance: Option<GpuInstanceId>,
    /// The compute instance it runs in.
    pub compute_instance: Option<ComputeInstanceId>,
}

/// The way between two GPUs over PCI, near to far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PciPath {
    /// Same board.
    SameBoard,
    /// Over one PCI switch.
    OneSwitch,
    /// Over several PCI switches.
    SeveralSwitches,
    /// Over the host bridge.
    HostBridge,
    /// Over the CPU of one NUMA node.
    SameNode,
    /// Between NUMA nodes.
    AcrossNodes,
}

/// How two GPUs are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The way over PCI.
    pub pci: PciPath,
    /// NVLinks from one to the other, directly or through switches.
    pub nvlinks: u32,
}

/// Something the driver told without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuEvent {
    /// Which GPU.
    pub gpu: GpuIndex,
    /// The XID.
    pub xid: u64,
    /// The instance it is confined to, if to one.
    pub gpu_instance: Option<GpuInstanceId>,
    /// The compute instance it is confined to, if to one.
    pub compute_instance: Option<ComputeInstanceId>,
}

/// A GPU instance as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInstance {
    /// The driver's id.
    pub id: GpuInstanceId,
    /// Its profile.
    pub profile: ProfileId,
    /// Where it sits.
    pub placement: Placement,
}

/// A compute instance as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeInstance {
    /// The driver's id inside its GPU instance.
    pub id: ComputeInstanceId,
    /// Its profile.
    pub profile: ComputeProfileIndex,
}

/// A compute instance seen as a device that CUDA can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigDevice {
    /// Identity.
    pub uuid: MigUuid,
    /// Its place among the MIG devices of its GPU.
    pub position: u32,
    /// Its GPU instance.
    pub gpu_instance: GpuInstanceId,
    /// Its compute instance.
    pub compute_instance: ComputeInstanceId,
    /// Memory it can use.
    pub memory: Mebibytes,
    /// Multiprocessors it can use.
    pub multiprocessors: u32,
    /// Compute slices of the GPU instance.
    pub gpu_slices: u32,
    /// Compute slices of the compute instance.
    pub compute_slices: u32,
    /// Engines it can use.
    pub engines: Engines,
}
