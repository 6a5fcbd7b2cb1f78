//! What the agent costs on a node, beside NVIDIA's device plugin and gpu-feature-discovery on the same kubelet and machine:
//! `cargo xtask lab figures` runs this in a lab with a release build.
//!
//! Memory and size are promises and fail the command; times are printed and no more, because machines differ.
#![allow(clippy::panic, clippy::expect_used, reason = "a failure of the command is a panic that says why")]

use carve_cluster_tests::{Cluster, GpuNode, Incumbents, Namespace, NodeFeatures, PATIENCE, Pod, Program};
use std::path::{Path, PathBuf};
use std::time::Duration;

const GPU: &str = "nvidia.com/gpu";
/// How often eight containers ask kubelet for a GPU each, in eight pods that start at once and then in one pod.
const ROUNDS: u64 = 25;
/// How often sixty containers ask for a GPU shared by turns.
const LONG_ROUNDS: u64 = 20;
/// All GPUs shared by eight: enough for sixty containers, and neither side thinks long about which to give.
const BY_TURNS: &str =
    "{version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 8}]}}}";
/// How long programs are left alone before their memory is read.
const REST: Duration = Duration::from_secs(15);

/// What one side costs.
#[derive(Debug, Default)]
struct Figures {
    rss_kib: u64,
    pss_kib: u64,
    bytes: u64,
    /// Eight pods at once: everything else kubelet does for them goes on meanwhile.
    crowd: Waits,
    /// One pod of eight containers: kubelet asks for one after the other and does nothing else.
    single: Waits,
    /// One pod of sixty containers that never start: nothing but Allocate, often enough for a hundredth part.
    long: Waits,
}

/// What kubelet waited for.
#[derive(Debug, Default, Clone, Copy)]
struct Waits {
    allocations: f64,
    /// Seconds in calls of Allocate.
    allocating: f64,
    within: [f64; STEPS.len()],
    /// Milliseconds until pods had all they asked for: the choice of devices and Allocate, for all their containers.
    admitting_ms: f64,
}

impl Waits {
    fn since(self, before: Waits) -> Waits {
        Waits {
            allocations: self.allocations - before.allocations,
            allocating: self.allocating - before.allocating,
            within: std::array::from_fn(|step| self.within[step] - before.within[step]),
            admitting_ms: self.admitting_ms - before.admitting_ms,
        }
    }

    fn allocate_ms(self) -> f64 {
        self.allocating / self.allocations * 1_000.0
    }

    /// All that a container waits for, its share of Allocate included.
    fn admit_ms(self) -> f64 {
        self.admitting_ms / self.allocations
    }
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

/// Steps of kubelet's histogram, in seconds.
const STEPS: [&str; 3] = ["0.005", "0.01", "0.025"];

/// What kubelet has waited for so far.
fn waits(cluster: &Cluster) -> Waits {
    let metrics = cluster.kubectl(&["get", "--raw", "/api/v1/nodes/node0/proxy/metrics"]);
    let of = |start: &str| -> f64 {
        let line = metrics.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    };
    let allocate = |series: &str, step: &str| {
        of(&format!("kubelet_device_plugin_alloc_duration_seconds_{series}{{resource_name=\"{GPU}\"{step}}}"))
    };
    Waits {
        allocations: allocate("count", ""),
        allocating: allocate("sum", ""),
        within: STEPS.map(|step| allocate("bucket", &format!(",le=\"{step}\""))),
        admitting_ms: of("kubelet_topology_manager_admission_duration_ms_sum"),
    }
}

/// Has pods take and leave all GPUs again and again.
fn take_and_leave(cluster: &Cluster, namespace: &Namespace, pod: &Pod, replicas: usize) -> Waits {
    let before = waits(cluster);
    for _ in 0..ROUNDS {
        namespace.apply(&pod.deployment(replicas));
        cluster.until("the pods run", PATIENCE, || {
            namespace.get(&["deployment", "worker"])["status"]["availableReplicas"] == replicas
        });
        cluster.kubectl(&["delete", "deployment", "worker", "-n", namespace.name()]);
        cluster.until("they are gone", PATIENCE, || {
            namespace.get(&["pods", "-l", "app=worker"])["items"].as_array().is_some_and(Vec::is_empty)
        });
    }
    let waited = waits(cluster).since(before);
    assert_eq!(waited.allocations, (8 * ROUNDS) as f64, "a call for each container and no other");
    waited
}

/// Has a pod of sixty containers take GPUs again and again. Its image does not exist, so that kubelet admits it and starts nothing.
fn ask_often(cluster: &Cluster, namespace: &Namespace) -> Waits {
    cluster.until("sixty-four shares are offered", PATIENCE, || cluster.allocatable(GPU) == Some(64));
    let pod = Pod::sleeping(cluster, "asker").limit(GPU, "1").container("image", "localhost/none:1".into());
    let manifest = pod.containers(60).manifest();
    let before = waits(cluster);
    for round in 1..=LONG_ROUNDS {
        namespace.apply(&manifest);
        let given = || waits(cluster).since(before).allocations == (60 * round) as f64;
        cluster.until("all containers have their shares", PATIENCE, given);
        cluster.kubectl(&["delete", "pod", "asker", "-n", namespace.name()]);
    }
    waits(cluster).since(before)
}

/// Measures what kubelet waits for.
fn work(cluster: &Cluster, namespace: &Namespace, figures: &mut Figures) {
    cluster.until("eight GPUs are offered", PATIENCE, || cluster.allocatable(GPU) == Some(8));
    let pod = Pod::sleeping(cluster, "worker").limit(GPU, "1");
    figures.crowd = take_and_leave(cluster, namespace, &pod, 8);
    figures.single = take_and_leave(cluster, namespace, &pod.containers(8), 1);
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
    let plugin = node.start_incumbent(incumbents, Program::DevicePlugin, &[("PASS_DEVICE_SPECS", "true")]);
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
    drop(plugin);
    let config = node.files("by-turns").join("config.yaml");
    std::fs::write(&config, BY_TURNS).expect("a file of the test");
    let config = config.display().to_string();
    let environment = [("PASS_DEVICE_SPECS", "true"), ("CONFIG_FILE", config.as_str())];
    let _plugin = node.start_incumbent(incumbents, Program::DevicePlugin, &environment);
    figures.long = ask_often(cluster, namespace);
    figures
}

/// The agent with all its jobs, started as NVIDIA's programs are: as a process beside kubelet. In a container it would have
/// the smallest share of the processors and they would not.
fn ours(cluster: &Cluster, node: &GpuNode, namespace: &Namespace, binary: &Path) -> Figures {
    let mut figures = Figures::default();
    let sharing = |config: &str| {
        let data = serde_json::json!({"all": config});
        let map = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sharing"}, "data": data});
        namespace.apply(&map.to_string());
    };
    sharing("version: v1");
    let map = format!("{}/sharing", namespace.name());
    let environment = [
        ("CARVE_CONFIG_MAP", map.as_str()),
        ("PASS_DEVICE_SPECS", "true"),
        ("DEVICE_LIST_STRATEGY", "envvar"),
    ];
    let agent = node.agent_as_process(namespace, binary, &environment);
    let labelled = || !namespace.get(&["nodefeature", "nvidia-features-for-node0"]).is_null();
    cluster.until_or("the agent has told the cluster", PATIENCE, labelled, || agent.heard());
    work(cluster, namespace, &mut figures);
    weigh(cluster, &format!("{} agent", binary.display()), binary, &mut figures);
    sharing(BY_TURNS);
    figures.long = ask_often(cluster, namespace);
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
    for (title, ours, theirs) in [
        ("eight pods at once", ours.crowd, theirs.crowd),
        ("one pod of eight containers", ours.single, theirs.single),
        ("one pod of sixty that never start", ours.long, theirs.long),
    ] {
        println!("  kubelet waits, {title}, {} GPUs given:", ours.allocations);
        line("  choice and Allocate, mean", ours.admit_ms(), theirs.admit_ms(), "ms");
        line("  Allocate, mean", ours.allocate_ms(), theirs.allocate_ms(), "ms");
        for (step, name) in STEPS.iter().enumerate() {
            line(&format!("  Allocate, calls within {name} s"), ours.within[step], theirs.within[step], "");
        }
    }
    assert!(ours.rss_kib * 2 < theirs.rss_kib, "resident memory is not under half");
    assert!(ours.pss_kib * 2 < theirs.pss_kib, "memory in proportion is not under half");
    assert!(ours.bytes < 30_000_000, "the program is not under 30 MB");
}
