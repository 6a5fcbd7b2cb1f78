//! What is told of use on a node that is full of pods: all of it, in one page, with little memory.

use crate::GPU;
use crate::node::{Node, devices};
use carve_gpu_model::{Bytes, GpuIndex};
use std::time::Instant;

/// Pods on the node, which is more than a kubelet takes.
const PODS: usize = 500;
/// GPUs, and shares of each.
const GPUS: usize = 8;
const SHARES: usize = 64;

/// Values of the series of a name.
fn values(page: &str, name: &str) -> Vec<f64> {
    let lines = page.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
}

#[tokio::test]
async fn five_hundred_pods_are_told_of_with_little_memory() {
    let mut node = Node::with(&format!("h200-141gb:{GPUS}"));
    let kubelet = node.kubelet().await;
    node.install_driver();
    node.install_driver_root();
    let shared = format!(
        "version: v1\nsharing:\n  timeSlicing:\n    resources: [{{name: nvidia.com/gpu, replicas: {SHARES}}}]\n"
    );
    node.configure(&shared);
    node.start_on_file();
    node.ready().await;
    let shares = devices(&kubelet, GPU, GPUS * SHARES).await;
    for (number, share) in shares.iter().take(PODS).enumerate() {
        kubelet.hold(GPU, share, &format!("pod-{number:03}"));
    }
    // A process that is nobody's as far as can be known without a cluster: everybody may have worked.
    let started = node.machine().change_world(|host| {
        (0..GPUS as u32).try_for_each(|gpu| host.start_process(GpuIndex(gpu), None, 1, Bytes(1 << 30), 50))
    });
    started.expect("the machine").expect("processes");

    let seconds = "carve_container_gpu_seconds_total";
    let all_told = |page: &str| values(page, seconds).iter().filter(|value| **value > 0.0).count() == PODS;
    let page =
        node.answer_when("/metrics", "all pods are told of", |answer| all_told(&answer.body)).await.body;
    let sum = |name: &str| values(&page, name).iter().sum::<f64>();
    let told =
        sum(seconds) + sum("carve_gpu_unattributed_seconds_total") + sum("carve_gpu_former_seconds_total");
    assert!((told - sum("carve_gpu_busy_seconds_total")).abs() < 1e-6, "{told} s in parts:\n{page}");
    assert!(
        (sum("DCGM_FI_DEV_GPU_UTIL") - 50.0 * GPUS as f64).abs() < 0.1,
        "{}",
        sum("DCGM_FI_DEV_GPU_UTIL")
    );

    let mut times = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        let answer = node.ask("/metrics").await.expect("an answer");
        assert!(all_told(&answer.body));
        times.push(start.elapsed());
    }
    times.sort();
    // A program with everything for debuggers in it is large by itself, so that only the rest is held to a limit here.
    let (resident, anonymous) = node.resident_kib();
    println!(
        "{PODS} pods: a page of {} KiB in {:?} (half of 20), {:?} at most; {resident} KiB resident, of which {anonymous} are of no file",
        page.len() / 1024,
        times[10],
        times[19],
    );
    assert!(anonymous < 32 * 1024, "{anonymous} KiB of no file");

    kubelet.release("pod-007");
    let gone = |page: &str| !page.contains(r#"pod="pod-007""#);
    node.answer_when("/metrics", "who is gone is not told of", |answer| gone(&answer.body)).await;
}
