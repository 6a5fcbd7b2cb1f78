//! How long a scheduler waits for filter and prioritize in a large cluster: reading what it sends, answering, and writing the answer.

use carve_bookings::{Book, Booking, Gpu, Offer};
use carve_extender::{Asked, decide, filter, prioritize, wire::Args};
use carve_gpu_model::{GpuUuid, Mebibytes};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use std::hint::black_box;

const NODES: usize = 1_000;
const GPUS: usize = 8;
const PODS: usize = 5_000;

/// What the webhook writes for a container with some memory and compute.
fn pod(number: usize) -> serde_json::Value {
    let manifest = json!({
        "metadata": {"name": format!("pod-{number}"), "namespace": "team", "uid": format!("uid-{number}")},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {
            "nvidia.com/gpu": "1",
            "nvidia.com/gpumem": (2_000 + number % 7 * 5_000).to_string(),
            "nvidia.com/gpucores": (5 + number % 5 * 15).to_string(),
        }}}]},
    });
    let policy = carve_admission::Policy::default();
    let road = carve_admission::Road::Scheduler;
    let outcome = carve_admission::admit(&manifest, "team", &policy, road, &Default::default());
    let carve_admission::Outcome::Admitted(admission) = outcome else { return manifest };
    let mut pod = manifest;
    pod["metadata"]["annotations"] = json!({"carve.dev/claim": admission.claims.to_annotation()});
    pod
}

fn book(names: &[String]) -> Book {
    let mut book = Book::default();
    for (node, name) in names.iter().enumerate() {
        let gpu = |number: usize| Gpu {
            uuid: GpuUuid(format!("GPU-{node:08}-0000-0000-0000-{number:012}")),
            product: "NVIDIA A100-SXM4-80GB".to_owned(),
            memory: Mebibytes(81_920),
            withheld: None,
        };
        book.offer(name, Offer { gpus: (0..GPUS).map(gpu).collect() });
    }
    for number in 0..PODS {
        let Ok(asked) = serde_json::from_value(pod(number))
            .map_err(|_| ())
            .and_then(|pod| Asked::of(&pod).map_err(|_| ()))
        else {
            continue;
        };
        let node = &names[number * 7 % NODES];
        if let Ok(slices) = decide(&book, node, &asked) {
            book.hold(asked.uid.clone(), Booking::new(&asked.pod, node, &slices, 0, true));
        }
    }
    book
}

fn verbs(criterion: &mut Criterion) {
    let names: Vec<String> = (0..NODES).map(|node| format!("node-{node:04}.example.internal")).collect();
    let book = book(&names);
    let sent = serde_json::to_vec(&json!({"Pod": pod(PODS + 1), "Nodes": null, "NodeNames": names}))
        .unwrap_or_default();
    let answer = |verb: fn(&Book, &[String], &Asked) -> Vec<u8>| {
        let args: Args = serde_json::from_slice(&sent).expect("it was written above");
        let asked = Asked::of(&args.pod).expect("it was admitted");
        verb(&book, args.node_names.as_deref().unwrap_or_default(), &asked)
    };
    criterion.bench_function("filter, 1,000 nodes of 8 GPUs with 5,000 pods", |bench| {
        bench.iter(|| {
            black_box(answer(|book, nodes, asked| {
                serde_json::to_vec(&filter(book, nodes, asked)).unwrap_or_default()
            }))
        });
    });
    criterion.bench_function("prioritize, the same", |bench| {
        bench.iter(|| {
            black_box(answer(|book, nodes, asked| {
                serde_json::to_vec(&prioritize(book, nodes, asked)).unwrap_or_default()
            }))
        });
    });
}

criterion_group!(benches, verbs);
criterion_main!(benches);
