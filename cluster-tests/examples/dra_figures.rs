//! What claims cost in time: from the claim to the running pod, and in calls of the driver alone. `cargo xtask lab dra-figures` runs it
//! in a lab with a release build.
//!
//! That nothing is left behind is a promise and fails the command; times are printed and no more, because machines differ.
#![allow(clippy::panic, clippy::expect_used, reason = "a failure of the command is a panic that says why")]

use carve_cluster_tests::{Ask, Background, Cluster, DRIVER, GpuNode, Namespace, PATIENCE, apply_classes};
use carve_gpu_host::GpuHost;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Pods of each kind, one after another.
const PODS: usize = 25;
/// Claims that are made ready and taken back without pods.
const ROUNDS: usize = 1_000;

/// The value below which so many hundredths are.
fn percentile(values: &[f64], hundredths: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() * hundredths).div_ceil(100).clamp(1, sorted.len().max(1));
    sorted.get(place - 1).copied().unwrap_or(f64::NAN)
}

fn line(title: &str, values: &[f64], unit: &str) {
    let (p50, p99) = (percentile(values, 50), percentile(values, 99));
    println!("  {title:<34} {:>5} {p50:>9.2} {p99:>9.2} {unit}", values.len());
}

/// When pods began to run, heard from the API server as it happens.
struct Heard {
    running: Arc<Mutex<BTreeMap<String, Instant>>>,
    child: std::process::Child,
}

impl Heard {
    fn listen(cluster: &Cluster, namespace: &Namespace) -> Self {
        let mut command: Command = cluster.kubectl_command(&[
            "get",
            "pods",
            "-n",
            namespace.name(),
            "--watch",
            "-o",
            "jsonpath={.metadata.name} {.status.phase}{\"\\n\"}",
        ]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("kubectl starts");
        let running: Arc<Mutex<BTreeMap<String, Instant>>> = Arc::default();
        let (seen, output) = (Arc::clone(&running), child.stdout.take().expect("its output"));
        std::thread::spawn(move || {
            for text in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some((name, "Running")) = text.split_once(' ') {
                    seen.lock().expect("no panic").entry(name.to_owned()).or_insert_with(Instant::now);
                }
            }
        });
        Heard { running, child }
    }

    fn when(&self, pod: &str) -> Option<Instant> {
        self.running.lock().expect("no panic").get(pod).copied()
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The agent as a process beside kubelet, in a release build.
fn start(cluster: &Cluster, node: &GpuNode, namespace: &Namespace, binary: &Path) -> Background {
    let environment = [("CARVE_DRA", "true"), ("CARVE_WITHOUT", "validation,labels")];
    let agent = node.agent_as_process(namespace, binary, &environment);
    let driver = format!("--field-selector=spec.driver={DRIVER}");
    let offered = || {
        let slices = cluster.get(&["resourceslices", &driver]);
        let registered = cluster.on_node(&["sh", "-c", "ls /var/lib/kubelet/plugins_registry"]);
        slices["items"].as_array().is_some_and(|items| items.len() > 1) && registered.contains(DRIVER)
    };
    cluster.until_or("claims are served", PATIENCE, offered, || agent.heard());
    agent
}

/// Pods of a kind, one after another: seconds from before their claim is sent until they run.
fn pods(cluster: &Cluster, node: &GpuNode, namespace: &Namespace, kind: &str, ask: &Ask) -> Vec<f64> {
    let heard = Heard::listen(cluster, namespace);
    let mut seconds = Vec::new();
    for number in 0..PODS {
        let name = format!("{kind}-{number}");
        let manifest = node.claiming_pod(&name, ask);
        let begin = Instant::now();
        namespace.apply(&manifest);
        cluster.until(&format!("{name} runs"), PATIENCE, || heard.when(&name).is_some());
        seconds.push(heard.when(&name).map_or(f64::NAN, |when| (when - begin).as_secs_f64()));
        for what in ["pod", "resourceclaim"] {
            cluster.kubectl(&["delete", what, &name, "-n", namespace.name(), "--wait=true"]);
        }
        // The scheduler would give the next one the same device, which kubelet has not taken back yet.
        let records = node.files("state").join("dra/claims");
        let given_back = || {
            let entries = std::fs::read_dir(&records).into_iter().flatten().flatten();
            entries.into_iter().all(|entry| entry.path().extension().is_none_or(|kind| kind != "json"))
        };
        cluster.until(&format!("{name} is given back"), PATIENCE, given_back);
    }
    seconds
}

/// What is on the node that claims could have left.
fn left(cluster: &Cluster, node: &GpuNode) -> String {
    let state = node.files("state").join("dra");
    let script = format!(
        "ls /var/run/cdi | grep claim_; ls {0}/claims | grep -v lock; ls {0}/instances; ls /run/carve/limits | grep -xE '.{{36}}'; \
         pgrep -f '[n]vidia-cuda-mps-control -f'; true",
        state.display()
    );
    let machine = node.machine();
    let gpus = machine.gpus().expect("GPUs");
    let cut: usize =
        gpus.iter().map(|gpu| machine.gpu_instances(gpu.index).map_or(0, |found| found.len())).sum();
    let instances = if cut == 0 { String::new() } else { format!("{cut} MIG instances\n") };
    format!("{}{instances}", cluster.on_node(&["sh", "-c", &script]))
}

fn main() {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let binary = named("CARVE_RELEASE_BINARY").expect("CARVE_RELEASE_BINARY names a release build of carve");
    let caller =
        named("CARVE_CLAIM_ROUNDS").expect("CARVE_CLAIM_ROUNDS names the program that plays kubelet");
    let cluster = Cluster::connect().expect("a lab is up");
    let node = GpuNode::new(&cluster, "dra-figures", "h200-141gb:4").expect("the simulated driver is built");
    let namespace = cluster.namespace("dra-figures");
    apply_classes(&cluster);
    let agent = start(&cluster, &node, &namespace, &binary);

    println!("claims on one kubelet, four simulated H200, the agent in a release build");
    println!("  {:<34} {:>5} {:>9} {:>9}", "", "", "p50", "p99");
    let fraction = Ask::of("fraction").share("4Gi", "25");
    line("claim to running pod, fraction", &pods(&cluster, &node, &namespace, "fraction", &fraction), "s");
    let mig = Ask::profile("mig", "1g.18gb");
    line("claim to running pod, MIG", &pods(&cluster, &node, &namespace, "mig", &mig), "s");

    let socket = cluster.on_node(&["sh", "-c", &format!("ls /var/lib/kubelet/plugins/{DRIVER}/dra*.sock")]);
    let rounds = ROUNDS.to_string();
    let (program, kubeconfig) = (caller.display().to_string(), cluster.kubeconfig());
    let words = [&program, &kubeconfig, "node0", namespace.name(), socket.trim(), &rounds];
    let printed = cluster.on_node(&words);
    let times: Vec<(String, f64, f64)> = serde_json::from_str(&printed)
        .unwrap_or_else(|error| panic!("{error}: {printed}\n{}", agent.heard()));
    assert_eq!(times.len(), ROUNDS);
    for way in ["fraction", "mig", "mig-fraction", "whole", "mps"] {
        let of: Vec<&(String, f64, f64)> = times.iter().filter(|(of, _, _)| of == way).collect();
        line(&format!("Prepare, {way}"), &of.iter().map(|time| time.1).collect::<Vec<_>>(), "ms");
        line(&format!("Unprepare, {way}"), &of.iter().map(|time| time.2).collect::<Vec<_>>(), "ms");
    }
    // A daemon is a process of NVIDIA's that has to start, here a simulated one: what it takes says nothing about the driver.
    let but_mps = times.iter().filter(|(way, _, _)| way != "mps");
    line("Prepare, all but MPS", &but_mps.map(|time| time.1).collect::<Vec<_>>(), "ms");
    cluster.until_or(
        "nothing is left",
        PATIENCE,
        || left(&cluster, &node).is_empty(),
        || left(&cluster, &node),
    );
    println!("  after {ROUNDS} claims nothing is left: no instance, daemon, record or file");
}
