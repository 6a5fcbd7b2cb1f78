//! How long legality and enumeration take; the promises are in SPECIFICATION.md.

use carve_gpu_model::{Placed, Product};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

fn geometry(criterion: &mut Criterion) {
    let table =
        Product::by_key("a100-40gb").and_then(Product::profile_table).expect("the catalogue has an A100");
    let at = |name: &str, start| {
        let (profile, _) = table.by_name(&name.parse().expect("a profile name")).expect("an A100 profile");
        Placed { profile, start }
    };
    let seven: Vec<Placed> = (0..7).map(|start| at("1g.5gb", start)).collect();
    let balanced = [at("2g.10gb", 0), at("1g.5gb", 2), at("1g.5gb", 3), at("3g.20gb", 4)];
    criterion.bench_function("legality of 7x 1g.5gb", |b| b.iter(|| table.check(black_box(&seven))));
    criterion.bench_function("legality of 2g+1g+1g+3g", |b| b.iter(|| table.check(black_box(&balanced))));
    criterion.bench_function("all maximal geometries of an A100", |b| b.iter(|| table.maximal_geometries()));
}

criterion_group!(benches, geometry);
criterion_main!(benches);
