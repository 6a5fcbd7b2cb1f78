//! How long a plan takes: one host of eight GPUs, and a fleet of 480 half full GPUs with 810 claims.

use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId, Placed, Product, ProfileTable};
use carve_planner::{
    ClaimName, Demand, Effort, FleetGpu, Generation, GpuAt, HostName, MigMode, PendingClaim, PoolName,
    PresentCompute, PresentInstance, Wants, plan,
};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;

/// GPUs of hosts with eight each, in states spread over all legal ones; every second instance is in use.
fn gpus(table: &Arc<ProfileTable>, number: usize) -> Vec<FleetGpu> {
    let mut states: Vec<Vec<Placed>> = Vec::new();
    table.visit_states(|state| states.push(state.to_vec()));
    let gpu = |number: usize| {
        let present = states[number * 37 % states.len()].iter().enumerate().map(|(id, placed)| {
            let slices = table.get(placed.profile).map_or(0, |profile| profile.slices);
            let in_use = (number + id).is_multiple_of(2);
            PresentInstance {
                id: GpuInstanceId(id as u32),
                placed: *placed,
                compute: vec![PresentCompute { id: ComputeInstanceId(0), slices, in_use }],
            }
        });
        FleetGpu {
            at: GpuAt {
                host: HostName(format!("host-{:02}", number / 8)),
                gpu: GpuIndex((number % 8) as u32),
            },
            pool: PoolName::default(),
            table: table.clone(),
            mode: MigMode::On,
            instances: present.collect(),
        }
    };
    (0..number).map(gpu).collect()
}

fn demand(profiles: &[(&str, usize)]) -> Demand {
    let mut demand = Demand::default();
    for (profile, count) in profiles {
        for _ in 0..*count {
            let name = ClaimName(format!("claim-{:04}", demand.pending.len()));
            let wants = Wants::Profile(profile.parse().expect("a profile name"));
            demand.pending.push(PendingClaim { name, wants });
        }
    }
    demand
}

fn plans(criterion: &mut Criterion) {
    let table = Product::by_key("h100-sxm-80gb").and_then(Product::profile_table);
    let table = Arc::new(table.expect("the catalogue has an H100"));
    let host = gpus(&table, 8);
    let asked = demand(&[("1g.10gb", 10), ("2g.20gb", 8), ("3g.40gb", 6), ("4g.40gb", 2), ("7g.80gb", 2)]);
    criterion.bench_function("plan of a host: 8 GPUs, 28 claims", |bench| {
        bench.iter(|| plan(black_box(&host), black_box(&asked), Generation(1), Effort::HOST));
    });
    let fleet = gpus(&table, 480);
    let asked =
        demand(&[("1g.10gb", 300), ("2g.20gb", 250), ("3g.40gb", 200), ("4g.40gb", 40), ("7g.80gb", 20)]);
    let mut group = criterion.benchmark_group("fleet");
    group.sample_size(10);
    group.bench_function("plan of a fleet: 480 GPUs, 810 claims", |bench| {
        bench.iter(|| plan(black_box(&fleet), black_box(&asked), Generation(1), Effort::FLEET));
    });
    group.finish();
}

criterion_group!(benches, plans);
criterion_main!(benches);
