//! How long it takes to find the diff that keeps the most.

use carve_gpu_model::{GpuInstanceId, Product};
use carve_planner::{PresentCompute, PresentInstance, recut, wanted};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

fn diff(criterion: &mut Criterion) {
    let table =
        Product::by_key("a100-40gb").and_then(Product::profile_table).expect("the catalogue has an A100");
    let maximal = table.maximal_geometries();
    let seven = maximal.iter().max_by_key(|found| found.example.len()).expect("an A100 has geometries");
    let present: Vec<PresentInstance> = seven
        .example
        .iter()
        .enumerate()
        .map(|(position, placed)| PresentInstance {
            id: GpuInstanceId(position as u32),
            placed: *placed,
            compute: vec![PresentCompute {
                id: carve_gpu_model::ComputeInstanceId(0),
                slices: 1,
                in_use: false,
            }],
        })
        .collect();
    let names = ["3g.20gb", "2g.10gb", "1g.5gb"].map(|name| name.parse().expect("a profile name"));
    let target = wanted(&table, [(&names[0], 1), (&names[1], 1), (&names[2], 2)]).expect("a legal target");
    criterion.bench_function("diff from seven instances to 3g+2g+1g+1g", |b| {
        b.iter(|| recut(&table, black_box(&present), black_box(&target)));
    });
}

criterion_group!(benches, diff);
criterion_main!(benches);
