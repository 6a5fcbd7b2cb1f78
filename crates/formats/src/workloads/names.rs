//! The resource names by which GPUs are asked for, whose each is, and in what unit.

use super::ask::Dialect;
use carve_gpu_model::ProfileName;

/// What the number of a resource means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// GPUs.
    Count,
    /// Shares of unsaid size.
    Shares,
    /// MIG devices, or shares of them.
    Mig { profile: ProfileName, shared: bool },
    /// Memory of each GPU, in so many mebibytes.
    Memory { unit: u64 },
    /// Memory of all GPUs together, as a quantity of bytes.
    MemoryBytes,
    /// Memory in GiB or MiB, whichever the cluster chose.
    MemoryEither,
    /// Percent of each GPU's memory.
    MemoryPercent,
    /// Percent of each GPU's compute.
    ComputePercent,
    /// Percent of compute, beyond 100 in whole GPUs.
    ComputeHundreds,
    /// Percent of memory, beyond 100 in whole GPUs.
    MemoryHundreds,
    /// Percent of both, beyond 100 in whole GPUs.
    BothHundreds,
    /// Says nothing about how much.
    Nothing,
}

/// Names under which resources of the device plugin and of HAMi go, for suggestions.
pub(super) const NVIDIA_NAMES: &[&str] = &[
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "nvidia.com/vgpu-number",
    "nvidia.com/vgpu-memory",
    "nvidia.com/vgpu-cores",
    "nvidia.com/priority",
    "carve.dev/gpu",
    "carve.dev/gpu-memory",
    "carve.dev/gpu-compute",
];

const MIB: Meaning = Meaning::Memory { unit: 1 };

/// Every resource name that is one for NVIDIA GPUs, except those of MIG devices, which begin with [`MIG`].
const NAMES: &[(&str, Dialect, Meaning)] = &[
    ("nvidia.com/gpu", Dialect::Nvidia, Meaning::Count),
    ("nvidia.com/gpu.shared", Dialect::Nvidia, Meaning::Shares),
    ("nvidia.com/gpumem", Dialect::Hami, MIB),
    ("nvidia.com/gpumem-percentage", Dialect::Hami, Meaning::MemoryPercent),
    ("nvidia.com/gpucores", Dialect::Hami, Meaning::ComputePercent),
    ("nvidia.com/priority", Dialect::Hami, Meaning::Nothing),
    ("nvidia.com/vgpu-number", Dialect::VgpuManager, Meaning::Count),
    ("nvidia.com/vgpu-memory", Dialect::VgpuManager, MIB),
    ("nvidia.com/vgpu-cores", Dialect::VgpuManager, Meaning::ComputePercent),
    ("volcano.sh/vgpu-number", Dialect::Volcano, Meaning::Count),
    ("volcano.sh/gpu-number", Dialect::Volcano, Meaning::Count),
    ("volcano.sh/vgpu-memory", Dialect::Volcano, MIB),
    ("volcano.sh/gpu-memory", Dialect::Volcano, MIB),
    ("volcano.sh/vgpu-memory-percentage", Dialect::Volcano, Meaning::MemoryPercent),
    ("volcano.sh/vgpu-cores", Dialect::Volcano, Meaning::ComputePercent),
    ("koordinator.sh/gpu", Dialect::Koordinator, Meaning::BothHundreds),
    ("koordinator.sh/gpu.shared", Dialect::Koordinator, Meaning::Shares),
    ("koordinator.sh/gpu-core", Dialect::Koordinator, Meaning::ComputeHundreds),
    ("koordinator.sh/gpu-memory", Dialect::Koordinator, Meaning::MemoryBytes),
    ("koordinator.sh/gpu-memory-ratio", Dialect::Koordinator, Meaning::MemoryHundreds),
    ("aliyun.com/gpu-mem", Dialect::Gpushare, Meaning::MemoryEither),
    ("aliyun.com/gpu-count", Dialect::Gpushare, Meaning::Count),
    ("aliyun.com/gpu-core.percentage", Dialect::Gpushare, Meaning::ComputePercent),
    ("tencent.com/vcuda-core", Dialect::GpuManager, Meaning::ComputeHundreds),
    ("tencent.com/vcuda-memory", Dialect::GpuManager, Meaning::Memory { unit: 256 }),
    ("elasticgpu.io/gpu-core", Dialect::ElasticGpu, Meaning::ComputeHundreds),
    ("elasticgpu.io/gpu-memory", Dialect::ElasticGpu, MIB),
    ("nvshare.com/gpu", Dialect::Nvshare, Meaning::Shares),
    ("carve.dev/gpu", Dialect::Carve, Meaning::Count),
    ("carve.dev/gpu-memory", Dialect::Carve, MIB),
    ("carve.dev/gpu-compute", Dialect::Carve, Meaning::ComputePercent),
    // What admission writes: tokens, and sums that the scheduler counts. What is asked for is said elsewhere.
    ("carve.dev/slice", Dialect::Carve, Meaning::Nothing),
    ("carve.dev/memory", Dialect::Carve, Meaning::Nothing),
    ("carve.dev/compute", Dialect::Carve, Meaning::Nothing),
];

/// What names of resources for MIG devices begin with.
pub const MIG: &str = "nvidia.com/mig-";

/// Every resource name by which GPUs are asked for in any dialect, and whose it is; names of MIG devices begin with [`MIG`].
pub fn resource_names() -> impl Iterator<Item = (&'static str, Dialect)> {
    NAMES.iter().map(|(name, dialect, _)| (*name, *dialect))
}

/// What a resource name means, if it is one for NVIDIA GPUs; an error for a MIG resource whose profile is none.
pub(super) fn known(name: &str) -> Option<Result<(Dialect, Meaning), String>> {
    if let Some((_, dialect, meaning)) = NAMES.iter().find(|(known, ..)| *known == name) {
        return Some(Ok((*dialect, meaning.clone())));
    }
    let profile = name.strip_prefix(MIG)?;
    Some(mig(profile).map(|meaning| (Dialect::Nvidia, meaning)))
}

/// Whose name for GPUs of NVIDIA a resource is, however wrong the rest of it may be.
pub fn dialect_of_resource(name: &str) -> Option<Dialect> {
    known(name).map(|found| found.map_or(Dialect::Nvidia, |(dialect, _)| dialect))
}

/// `1g.5gb`, `1g.10gb.me` (a resource name can not hold a plus) or `1g.5gb.shared`.
fn mig(written: &str) -> Result<Meaning, String> {
    let (written, shared) = match written.strip_suffix(".shared") {
        Some(name) => (name, true),
        None => (written, false),
    };
    let name = match written.split_once("gb.") {
        Some((fields, attribute)) => format!("{fields}gb+{attribute}"),
        None => written.to_owned(),
    };
    name.parse()
        .map(|profile| Meaning::Mig { profile, shared })
        .map_err(|error: carve_gpu_model::ProfileNameError| error.to_string())
}

/// Whether a resource is an accelerator of another maker.
pub(super) fn is_of_another_maker(name: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "amd.com/gpu",
        "gpu.intel.com/",
        "huawei.com/",
        "cambricon.com/",
        "hygon.com/",
        "iluvatar.ai/",
        "mthreads.com/",
        "metax-tech.com/",
        "enflame.com/",
        "kunlunxin.com/",
        "habana.ai/",
        "aws.amazon.com/neuron",
        "google.com/tpu",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
