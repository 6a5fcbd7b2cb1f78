//! How long kubelet waits for the devices a container should get.

use carve_gpu_host::{Link, PciPath};
use carve_gpu_model::GpuIndex;
use carve_placement::preferred::{
    Candidate, DeviceId, Kind, PartId, Policy, Pool, Request, Topology, choose, preferred,
};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;

/// Each GPU joined with the one half the machine away, every fourth under one switch: the best set is not the first.
fn topology(gpus: u32) -> Topology {
    Topology::new((0..gpus).map(GpuIndex), |from, to| {
        let pci = if from.0 % 4 == to.0 % 4 { PciPath::OneSwitch } else { PciPath::AcrossNodes };
        Some(Link { pci, nvlinks: if from.0 % (gpus / 2) == to.0 % (gpus / 2) { 12 } else { 0 } })
    })
}

fn pool(gpus: u32, shares: u32) -> Pool {
    let device = |gpu: u32, share: u32| {
        let part = format!("GPU-{:08x}-aaaa-bbbb-cccc-{gpu:012x}", 0x1000_0000 + gpu);
        let id = if shares == 1 { part.clone() } else { format!("{part}::{share}") };
        Candidate { id: DeviceId::new(id), part: PartId::new(part), gpu: GpuIndex(gpu), numa: None }
    };
    Pool::new((0..gpus).flat_map(|gpu| (0..shares).map(move |share| device(gpu, share))))
}

fn names(pool: &Pool) -> Vec<DeviceId> {
    pool.devices().iter().map(|device| device.id.clone()).collect()
}

fn whole_gpus(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("whole GPUs");
    for gpus in [8, 16, 64] {
        let (pool, topology) = (pool(gpus, 1), topology(gpus));
        let available = names(&pool);
        for size in [1, 2, 4, 8] {
            let request = Request {
                pool: &pool,
                topology: &topology,
                available: &available,
                must_include: &[],
                size,
                kind: Kind::WholeGpus,
            };
            group.bench_function(BenchmarkId::new(format!("of {gpus}"), size), |b| {
                b.iter(|| preferred(black_box(&request)));
            });
            if (gpus, size) == (16, 2) {
                group.bench_function("with the explanation, of 16/2", |b| {
                    b.iter(|| choose(black_box(&request)));
                });
            }
        }
    }
    group.finish();
}

fn shares(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("shares");
    let topology = topology(8);
    for replicas in [10, 1024] {
        let pool = pool(8, replicas);
        let available = names(&pool);
        for size in [1, 8] {
            for (policy, word) in [(Policy::Distributed, "distributed"), (Policy::Packed, "packed")] {
                let request = Request {
                    pool: &pool,
                    topology: &topology,
                    available: &available,
                    must_include: &[],
                    size,
                    kind: Kind::Parts(policy),
                };
                group.bench_function(BenchmarkId::new(format!("{word}, 8 GPUs x {replicas}"), size), |b| {
                    b.iter(|| preferred(black_box(&request)));
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, whole_gpus, shares);
criterion_main!(benches);
