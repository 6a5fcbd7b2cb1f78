//! How long a plan of 1,000 pods on 100 nodes takes, from text to plan. The promise is under a second.

use carve_fleet_plan::{Settings, plan, pools};
use carve_formats::workloads::{Source, read};
use criterion::{Criterion, criterion_group, criterion_main};
use std::fmt::Write as _;
use std::hint::black_box;

/// Fifty deployments of twenty pods: MIG devices, parts by size, shares and whole GPUs.
fn manifests() -> String {
    let limits = [
        "nvidia.com/mig-1g.5gb: 1",
        "nvidia.com/gpumem: 6000, nvidia.com/gpucores: 30",
        "nvidia.com/gpu: 1",
        "nvidia.com/gpu.shared: 1",
        "nvidia.com/mig-3g.20gb: 1",
    ];
    let mut text = String::new();
    for number in 0..50 {
        let limits = limits[number % limits.len()];
        let _ = writeln!(
            text,
            "---\nkind: Deployment\nmetadata: {{name: d{number}}}\nspec:\n  replicas: 20\n  template:\n    spec:\n      containers:\n      - \
             name: c\n        resources: {{limits: {{{limits}, cpu: 500m, memory: 1Gi}}}}"
        );
    }
    text
}

fn thousand_pods(criterion: &mut Criterion) {
    let text = manifests();
    let machines = pools("p4d.24xlarge=20,g5.12xlarge=40,g4dn.2xlarge=40").unwrap_or_default();
    criterion.bench_function("plan of 1,000 pods on 100 nodes", |bench| {
        bench.iter(|| {
            let read = read(&[Source { name: "bench", text: black_box(&text) }]);
            plan(&read.workloads, &machines, Settings::default())
        });
    });
}

criterion_group!(benches, thousand_pods);
criterion_main!(benches);
