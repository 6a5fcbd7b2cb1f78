//! One request for GPUs, after the dialect is gone.

use carve_gpu_model::{GpuUuid, Isolation, Mebibytes, Mechanism, ProfileName};
use std::fmt;

/// Thousandths of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thousandths(pub u16);

impl Thousandths {
    /// All of it.
    pub const WHOLE: Thousandths = Thousandths(1000);
}

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 10 {
            0 => write!(f, "{}%", self.0 / 10),
            tenth => write!(f, "{}.{tenth}%", self.0 / 10),
        }
    }
}

/// Memory of each GPU that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryAsk {
    /// So much.
    Amount(Mebibytes),
    /// A part of whatever the GPU has.
    Share(Thousandths),
}

impl fmt::Display for MemoryAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryAsk::Amount(amount) => write!(f, "{amount}"),
            MemoryAsk::Share(share) => write!(f, "{share}"),
        }
    }
}

/// Whose words a request is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// NVIDIA's device plugin: `nvidia.com/gpu`, `.shared`, `nvidia.com/mig-*`.
    Nvidia,
    /// HAMi: `nvidia.com/gpumem`, `gpumem-percentage`, `gpucores`.
    Hami,
    /// Volcano: `volcano.sh/vgpu-*`, `gpu-memory`, `gpu-number`.
    Volcano,
    /// Run:ai and KAI: the annotations `gpu-fraction` and `gpu-memory`.
    Kai,
    /// Koordinator: `koordinator.sh/gpu-*`.
    Koordinator,
    /// gpushare: `aliyun.com/gpu-mem`.
    Gpushare,
    /// gpu-manager: `tencent.com/vcuda-*`.
    GpuManager,
    /// vgpu-manager: `nvidia.com/vgpu-*`.
    VgpuManager,
    /// elastic-gpu: `elasticgpu.io/*`.
    ElasticGpu,
    /// nvshare: `nvshare.com/gpu`.
    Nvshare,
    /// TensorFusion: annotations `tensor-fusion.ai/*`.
    TensorFusion,
    /// Resource claims (`resource.k8s.io`).
    Dra,
    /// carve: `carve.dev/gpu*`.
    Carve,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Dialect; 13] = [
        Dialect::Nvidia,
        Dialect::Hami,
        Dialect::Volcano,
        Dialect::Kai,
        Dialect::Koordinator,
        Dialect::Gpushare,
        Dialect::GpuManager,
        Dialect::VgpuManager,
        Dialect::ElasticGpu,
        Dialect::Nvshare,
        Dialect::TensorFusion,
        Dialect::Dra,
        Dialect::Carve,
    ];

    /// One word for it, in configuration and annotations.
    pub const fn word(self) -> &'static str {
        match self {
            Dialect::Nvidia => "nvidia",
            Dialect::Hami => "hami",
            Dialect::Volcano => "volcano",
            Dialect::Kai => "kai",
            Dialect::Koordinator => "koordinator",
            Dialect::Gpushare => "gpushare",
            Dialect::GpuManager => "gpu-manager",
            Dialect::VgpuManager => "vgpu-manager",
            Dialect::ElasticGpu => "elastic-gpu",
            Dialect::Nvshare => "nvshare",
            Dialect::TensorFusion => "tensor-fusion",
            Dialect::Dra => "dra",
            Dialect::Carve => "carve",
        }
    }

    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Dialect::Nvidia => "device plugin",
            Dialect::Hami => "HAMi",
            Dialect::Volcano => "Volcano",
            Dialect::Kai => "KAI",
            Dialect::Koordinator => "Koordinator",
            Dialect::Gpushare => "gpushare",
            Dialect::GpuManager => "gpu-manager",
            Dialect::VgpuManager => "vgpu-manager",
            Dialect::ElasticGpu => "elastic-gpu",
            Dialect::Nvshare => "nvshare",
            Dialect::TensorFusion => "TensorFusion",
            Dialect::Dra => "resource claim",
            Dialect::Carve => "carve",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// Names that will do, and names that will not. Both empty: any will do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Names<T> {
    /// One of these, if there are any.
    pub wanted: Vec<T>,
    /// None of these.
    pub unwanted: Vec<T>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Names { wanted: Vec::new(), unwanted: Vec::new() }
    }
}

/// GPUs, or parts of different GPUs, that one container or claim asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuAsk {
    /// Whose words.
    pub dialect: Dialect,
    /// The container, or the request of a claim; empty for the pod as a whole.
    pub asker: String,
    /// How many. Parts of different GPUs where a part is asked for.
    pub count: u32,
    /// Memory of each; all of it where nothing is said.
    pub memory: Option<MemoryAsk>,
    /// Compute of each; no limit where nothing is said.
    pub compute: Option<Thousandths>,
    /// A MIG device of this profile.
    pub mig: Option<ProfileName>,
    /// Any MIG device will do.
    pub any_mig: bool,
    /// A share of unsaid size, of a GPU or of the MIG device.
    pub shared: bool,
    /// GPU models, by a part of their name, without regard to case.
    pub models: Names<String>,
    /// GPUs by their ids.
    pub uuids: Names<GpuUuid>,
    /// What must not reach it from its neighbours.
    pub isolation: Isolation,
    /// The mechanism it names.
    pub hint: Option<Mechanism>,
    /// It may use compute that its neighbours leave: what it asks for is the least, not the most.
    pub burst: bool,
    /// The one resource claim (`namespace/name`) that several pods use together.
    pub claim: Option<String>,
}

impl GpuAsk {
    /// So many whole GPUs.
    pub fn whole(dialect: Dialect, asker: &str, count: u32) -> Self {
        GpuAsk {
            dialect,
            asker: asker.to_owned(),
            count,
            memory: None,
            compute: None,
            mig: None,
            any_mig: false,
            shared: false,
            models: Names::default(),
            uuids: Names::default(),
            isolation: Isolation::Unstated,
            hint: None,
            burst: false,
            claim: None,
        }
    }

    /// Whether it takes its GPUs whole: nothing smaller is named, or all of everything.
    pub fn is_whole(&self) -> bool {
        let all_memory = matches!(self.memory, None | Some(MemoryAsk::Share(Thousandths::WHOLE)));
        let all_compute = matches!(self.compute, None | Some(Thousandths::WHOLE));
        self.mig.is_none() && !self.any_mig && !self.shared && all_memory && all_compute
    }
}

impl fmt::Display for GpuAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × ", self.count)?;
        match (&self.mig, self.any_mig) {
            (Some(profile), _) => write!(f, "{profile}")?,
            (None, true) => f.write_str("any MIG device")?,
            (None, false) => f.write_str("GPU")?,
        }
        if self.shared {
            f.write_str(" (a share)")?;
        }
        if let Some(memory) = self.memory {
            write!(f, ", memory {memory}")?;
        }
        if let Some(compute) = self.compute {
            write!(f, ", compute {compute}")?;
        }
        Ok(())
    }
}
