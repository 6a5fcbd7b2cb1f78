//! What the agent costs on a node, beside NVIDIA's device plugin and gpu-feature-discovery on the same kubelet and machine:
//! `cargo xtask lab figures` runs this in a lab with a release build.
//!
//! Memory and size are promises and fail the command; times are printed and no more, because machines differ.
#![allow(clippy::panic, clippy::expect_used, reason = "a failure of the command is a panic that says why")]

use carve_cluster_tests::{Cluster, GpuNode, Incumbents, Namespace, NodeFeatures, PATIENCE, Pod, Program};
use carve_lab::Image;
use std::path::{Path, PathBuf};
use std::time::Duration;

const GPU: &str = "nvidia.com/gpu";
/// Containers that ask kubelet for a GPU, of each side.
const ROUNDS: u64 = 3;
/// How long programs are left alone before their memory is read.
const REST: Duration = Duration::from_secs(15);

/// What one side costs.
#[derive(Debug, Default)]
struct Figures {
    rss_kib: u64,
    pss_kib: u64,
    bytes: u64,
    calls: f64,
    mean_ms: f64,
    under_5_ms: f64,
}

/// A field of a file of a process on the node, in KiB.
fn kib(cluster: &Cluster, process: &str, file: &str, field: &str) -> u64 {
    let text = cluster.on_node(&["cat", &format!("/proc/{process}/{file}")]);
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value
        .and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or_else(|| panic!("/proc/{process}/{file} has no {field}: {text}"))
}

/// The process whose command line starts with this.
fn process(cluster: &Cluster, start: &str) -> String {
    let found = cluster.on_node(&["pgrep", "-o", "-f", &format!("^{start}")]);
    let id = found.trim().to_owned();
    assert!(!id.is_empty(), "no process runs {start}");
    id
}

/// How often kubelet has called Allocate so far, how long it waited in all, and how many answers came within 5 ms: its
/// histogram has no finer step.
fn allocations(cluster: &Cluster) -> (f64, f64, f64) {
    let metrics = cluster.kubectl(&["get", "--raw", "/api/v1/nodes/node0/proxy/metrics"]);
    let of = |series: &str| -> f64 {
        let name = format!("kubelet_device_plugin_alloc_duration_seconds_{series}");
        let line = metrics.lines().find(|line| line.starts_with(&name) && line.contains(GPU));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    };
    (of("count"), of("sum"), of(&format!("bucket{{resource_name=\"{GPU}\",le=\"0.005\"")))
}

/// Has pods take and leave all GPUs, and measures what kubelet waited for.
fn work(cluster: &Cluster, namespace: &Namespace, figures: &mut Figures) {
    cluster.until("eight GPUs are offered", PATIENCE, || cluster.allocatable(GPU) == Some(8));
    let before = allocations(cluster);
    for _ in 0..ROUNDS {
        namespace.apply(&Pod::sleeping(cluster, "worker").limit(GPU, "1").deployment(8));
        cluster.until("eight pods run", PATIENCE, || {
            namespace.get(&["deployment", "worker"])["status"]["availableReplicas"] == 8
        });
        cluster.kubectl(&["delete", "deployment", "worker", "-n", namespace.name()]);
        cluster.until("they are gone", PATIENCE, || {
            namespace.get(&["pods", "-l", "app=worker"])["items"].as_array().is_some_and(Vec::is_empty)
        });
    }
    let after = allocations(cluster);
    figures.calls = after.0 - before.0;
    figures.mean_ms = (after.1 - before.1) / figures.calls * 1_000.0;
    figures.under_5_ms = after.2 - before.2;
    std::thread::sleep(REST);
}

fn weigh(cluster: &Cluster, start: &str, program: &Path, figures: &mut Figures) {
    let process = process(cluster, start);
    figures.rss_kib += kib(cluster, &process, "status", "VmRSS");
    figures.pss_kib += kib(cluster, &process, "smaps_rollup", "Pss");
    figures.bytes +=
        std::fs::metadata(program).unwrap_or_else(|error| panic!("{}: {error}", program.display())).len();
}

fn theirs(cluster: &Cluster, node: &GpuNode, namespace: &Namespace, incumbents: &Incumbents) -> Figures {
    let mut figures = Figures::default();
    let _plugin = node.start_incumbent(incumbents, Program::DevicePlugin, &[("PASS_DEVICE_SPECS", "true")]);
    let kubeconfig = cluster.kubeconfig();
    let environment = [("KUBECONFIG", kubeconfig.as_str()), ("NAMESPACE", namespace.name())];
    let labels = node.start_incumbent(incumbents, Program::FeatureDiscovery, &environment);
    let labelled = || !namespace.get(&["nodefeature", "nvidia-features-for-node0"]).is_null();
    cluster.until_or("gpu-feature-discovery has told the cluster", PATIENCE, labelled, || labels.heard());
    work(cluster, namespace, &mut figures);
    for program in [Program::DevicePlugin, Program::FeatureDiscovery] {
        let path = incumbents.path(program);
        weigh(cluster, &path.display().to_string(), &path, &mut figures);
    }
    figures
}

fn ours(cluster: &Cluster, node: &GpuNode, namespace: &Namespace, binary: &Path) -> Figures {
    let mut figures = Figures::default();
    let image = Image::new("localhost/carve:release")
        .program(binary, "/carve")
        .unwrap_or_else(|error| panic!("{error:#}"))
        .env("HOME", "/tmp")
        .entrypoint(["/carve"]);
    cluster.import(&image);
    namespace
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: sharing}, data: {all: 'version: v1'}}");
    let map = format!("{}/sharing", namespace.name());
    let environment =
        [("CARVE_CONFIG_MAP", map.as_str()), ("PASS_DEVICE_SPECS", "true"), ("CARVE_PROBE_SECONDS", "10")];
    let agent = node.start_agent_of(image.name(), namespace, &environment);
    agent.wait_until_ready();
    work(cluster, namespace, &mut figures);
    weigh(cluster, "/carve agent", binary, &mut figures);
    agent.remove();
    figures
}

fn main() {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let binary = named("CARVE_RELEASE_BINARY").expect("CARVE_RELEASE_BINARY names a release build of carve");
    let cluster = Cluster::connect().expect("a lab is up");
    let incumbents = Incumbents::locate().expect("CARVE_INCUMBENTS names NVIDIA's programs");
    let node = GpuNode::new(&cluster, "figures", "p4d.24xlarge").expect("the simulated driver is built");
    let namespace = cluster.namespace("figures");
    let features = NodeFeatures::serve(&cluster);
    let theirs = theirs(&cluster, &node, &namespace, &incumbents);
    cluster.until("the plugin is gone", PATIENCE, || cluster.allocatable(GPU) == Some(0));
    cluster.kubectl(&["delete", "nodefeatures", "--all", "-n", namespace.name()]);
    let ours = ours(&cluster, &node, &namespace, &binary);
    drop(features);

    let mb = |kib: u64| kib as f64 * 1_024.0 / 1e6;
    println!(
        "carve agent with all its jobs, nvidia-device-plugin with gpu-feature-discovery, in turns on one kubelet, 8 GPUs"
    );
    println!("  {:<44} {:>9} {:>9}", "", "carve", "NVIDIA");
    let line = |title: &str, ours: f64, theirs: f64, unit: &str| {
        println!("  {title:<44} {ours:>9.2} {theirs:>9.2} {unit}");
    };
    line("resident memory (VmRSS)", mb(ours.rss_kib), mb(theirs.rss_kib), "MB");
    line("memory in proportion (Pss)", mb(ours.pss_kib), mb(theirs.pss_kib), "MB");
    line("programs on disk", ours.bytes as f64 / 1e6, theirs.bytes as f64 / 1e6, "MB");
    line("Allocate as kubelet measures it, calls", ours.calls, theirs.calls, "");
    line("  mean", ours.mean_ms, theirs.mean_ms, "ms");
    line("  within 5 ms, its histogram's finest step", ours.under_5_ms, theirs.under_5_ms, "");
    assert!(ours.rss_kib * 2 < theirs.rss_kib, "resident memory is not under half");
    assert!(ours.pss_kib * 2 < theirs.pss_kib, "memory in proportion is not under half");
    assert!(ours.bytes < 30_000_000, "the program is not under 30 MB");
}
