//! Machines and questions for the tests of preferred devices.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::expect_used, reason = "the panic is the test's failure")]

use carve_gpu_host::{Link, PciPath};
use carve_gpu_model::GpuIndex;
use carve_placement::preferred::{Candidate, DeviceId, Kind, PartId, Pool, Request, Topology};

/// Name of a whole GPU.
pub(crate) fn name(gpu: u32) -> DeviceId {
    DeviceId::new(format!("GPU-{gpu}"))
}

/// Names of whole GPUs.
pub(crate) fn names(gpus: &[u32]) -> Vec<DeviceId> {
    gpus.iter().copied().map(name).collect()
}

/// A resource of whole GPUs.
pub(crate) fn whole(count: u32) -> Pool {
    Pool::new((0..count).map(|gpu| Candidate {
        id: name(gpu),
        part: PartId::new(format!("GPU-{gpu}")),
        gpu: GpuIndex(gpu),
        numa: None,
    }))
}

/// A resource of parts: for each GPU so many parts, each of so many devices. Device `0/2::1` is the second share of
/// the third part of GPU 0.
pub(crate) fn parts(gpus: &[usize], shares: usize) -> Pool {
    let mut devices = Vec::new();
    for (gpu, parts) in gpus.iter().enumerate() {
        for part in 0..*parts {
            devices.extend((0..shares).map(|share| Candidate {
                id: DeviceId::new(format!("{gpu}/{part}::{share}")),
                part: PartId::new(format!("{gpu}/{part}")),
                gpu: GpuIndex(gpu as u32),
                numa: None,
            }));
        }
    }
    Pool::new(devices)
}

/// All names of a resource.
pub(crate) fn all(pool: &Pool) -> Vec<DeviceId> {
    pool.devices().iter().map(|device| device.id.clone()).collect()
}

/// The answer for whole GPUs, by number.
pub(crate) fn chosen(topology: &Topology, available: &[u32], must_include: &[u32], size: usize) -> Vec<u32> {
    let pool = whole(topology.gpus().len() as u32);
    let (available, must_include) = (names(available), names(must_include));
    let request = Request {
        pool: &pool,
        topology,
        available: &available,
        must_include: &must_include,
        size,
        kind: Kind::WholeGpus,
    };
    let answer = carve_placement::preferred::preferred(&request).expect("an answer");
    answer.iter().map(|id| id.as_str().trim_start_matches("GPU-").parse().expect("a number")).collect()
}

/// Islands of GPUs joined by 12 NVLinks each, the GPUs of an island under one PCI switch.
pub(crate) fn islands(sizes: &[u32]) -> Topology {
    let of: Vec<usize> = sizes
        .iter()
        .enumerate()
        .flat_map(|(island, size)| std::iter::repeat_n(island, *size as usize))
        .collect();
    Topology::new((0..of.len() as u32).map(GpuIndex), |from, to| {
        Some(if of[from.0 as usize] == of[to.0 as usize] {
            Link { pci: PciPath::OneSwitch, nvlinks: 12 }
        } else {
            Link { pci: PciPath::AcrossNodes, nvlinks: 0 }
        })
    })
}

/// A DGX-1 with V100: six NVLinks of each GPU, some doubled; two GPUs to a switch, four to a CPU.
pub(crate) fn dgx1_v100() -> Topology {
    const NVLINKS: [[u32; 8]; 8] = [
        [0, 1, 1, 2, 2, 0, 0, 0],
        [1, 0, 2, 1, 0, 2, 0, 0],
        [1, 2, 0, 2, 0, 0, 1, 0],
        [2, 1, 2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 1, 1, 2],
        [0, 2, 0, 0, 1, 0, 2, 1],
        [0, 0, 1, 0, 1, 2, 0, 2],
        [0, 0, 0, 1, 2, 1, 2, 0],
    ];
    Topology::new((0..8).map(GpuIndex), |from, to| {
        let pci = match (from.0 / 2 == to.0 / 2, from.0 / 4 == to.0 / 4) {
            (true, _) => PciPath::OneSwitch,
            (false, true) => PciPath::HostBridge,
            (false, false) => PciPath::AcrossNodes,
        };
        Some(Link { pci, nvlinks: NVLINKS[from.0 as usize][to.0 as usize] })
    })
}
