//! How long the default config of mig-parted (81 configs) takes to read. The promise is well under 5 ms.

use carve_formats::{MigPartedConfig, kubernetes_yaml, lint};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

fn parse(c: &mut Criterion) {
    let Some(text) = carve_test_support::fixture_text("mig/upstream/config-default.yaml") else { return };
    c.bench_function("kubernetes_yaml of the default config", |b| {
        b.iter(|| kubernetes_yaml::parse(black_box(&text)))
    });
    c.bench_function("mig-parted default config", |b| b.iter(|| MigPartedConfig::parse(black_box(&text))));
    c.bench_function("lint of the default config", |b| b.iter(|| lint(black_box(&text))));
}

criterion_group!(benches, parse);
criterion_main!(benches);
