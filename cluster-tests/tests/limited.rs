//! The limiter installed: programs with fractions see their share, get no more memory and no more time, who escapes is told of, and the
//! node counts what programs use, also where MPS holds them.

use carve_cluster_tests::{
    Ask, Audit, Background, Cluster, GpuNode, Namespace, PATIENCE, TAKING, device_of, import_taking,
    limiter_library,
};
use carve_gpu_host::GpuHost;
use carve_gpu_model::{Bytes, GpuIndex};
use serde_json::{Value, json};
use std::path::Path;

/// Pods that name it share the time of the simulated GPUs.
const CLOCK: &str = "CARVE_SIM_CUDA_CLOCK=/machine/clock";

/// Programs that take memory and time.
fn import_programs(cluster: &Cluster) {
    import_taking(cluster, env!("CARGO_BIN_EXE_takes_memory"), env!("CARGO_BIN_EXE_takes_time"));
}

/// A pod with a claim of its own that has those programs.
fn start(cluster: &Cluster, node: &GpuNode, namespace: &Namespace, name: &str, ask: &Ask) {
    namespace.apply(&node.claiming_pod(name, ask).replace(cluster.looker_image(), TAKING));
}

/// What `takes-time` printed: pieces of a millisecond, and the percent of the time that they took.
fn work(printed: &str) -> (u32, f64) {
    let words: Vec<f64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [pieces, microseconds] = words[..] else { panic!("not what takes-time prints: {printed:?}") };
    (pieces as u32, pieces * 1_000.0 / microseconds * 100.0)
}

/// Lets pods work at the same time; answers for each what it got.
fn side_by_side<const N: usize>(
    cluster: &Cluster,
    namespace: &Namespace,
    round: u32,
    pods: [&str; N],
) -> [(u32, f64); N] {
    let (folder, number) = (format!("/machine/meet-{round}"), N.to_string());
    let running: [Background; N] = pods.map(|pod| {
        let exec = ["kubectl", "exec", "-n", namespace.name(), pod, "--", "/usr/bin/env", CLOCK];
        let words = ["/takes-time", "3000", folder.as_str(), pod, number.as_str()];
        cluster.background(&[&exec[..], &words].concat(), &[])
    });
    running.map(|one| {
        let done = || !one.printed().is_empty();
        cluster.until_or("a pod has done its work", PATIENCE, done, || one.heard());
        work(&one.printed())
    })
}

/// The value of a series about a pod, or about a GPU.
fn value(metrics: &str, name: &str, label: &str) -> Option<f64> {
    let start = format!("carve_agent_{name}{{");
    let line = metrics.lines().find(|line| line.starts_with(&start) && line.contains(label))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// What is told about a pod.
struct Told {
    metrics: String,
    label: String,
}

impl Told {
    fn new(metrics: String, pod: &str) -> Self {
        Told { metrics, label: format!("pod=\"{pod}\"") }
    }

    fn is(&self, name: &str, wanted: f64) -> bool {
        self.get(name) == Some(wanted)
    }

    fn get(&self, name: &str) -> Option<f64> {
        value(&self.metrics, name, &self.label)
    }

    /// Whether this is said to hold its time.
    fn is_held_by(&self, mechanism: &str) -> bool {
        let label = format!("mechanism=\"{mechanism}\"");
        let about =
            |line: &&str| line.starts_with("carve_agent_share_mechanism{") && line.contains(&self.label);
        self.metrics.lines().filter(about).any(|line| line.contains(&label))
    }
}

#[test]
fn programs_see_and_get_their_share() {
    let (Some(cluster), Some(library)) = (Cluster::connect(), limiter_library()) else { return };
    let Some(node) = GpuNode::new(&cluster, "limited", "h200-141gb:1") else { return };
    import_programs(&cluster);
    let namespace = cluster.namespace("limited");
    let library = library.display().to_string();
    let agent = node.serve_claims(&namespace, &[("CARVE_LIMITER", &library)]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    let ask = Ask::of("fraction").share("2Gi", "25");
    for name in ["one", "two"] {
        let text = node.claiming_pod(name, &ask);
        namespace.apply(&text);
    }
    start(&cluster, &node, &namespace, "cuda", &ask);
    audit.run(&["one", "two", "cuda"]);

    // NVML and CUDA in the pod show the share, and no more than that is to be had.
    let text = namespace.exec("one", &["/carve", "gpus", "-o", "json"]);
    let seen: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(seen["gpus"][0]["memoryMiB"], 2_048, "{seen:#}");
    let claim = namespace.get(&["resourceclaim", "cuda"]);
    assert_eq!(claim["status"]["devices"][0]["data"]["enforced"], true, "{claim:#}");
    let uid = claim["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let record = audit.holdings().records.remove(&uid).expect("a record");
    let device = &record.devices[0];
    let (part, share) = (device.part.clone().expect("a part"), device.share.clone().expect("a share"));
    let folder = Path::new("/run/carve/limits").join(&uid);
    let there = cluster.on_node(&["ls", &folder.join("usage").join(&part).display().to_string()]);
    assert_eq!(there.trim(), share);
    // The agent measures what a context takes while it serves, so the share contains it if the claim came later than that.
    let limits = folder.join("limits").join(&part).join(&share).display().to_string();
    let told = cluster.on_node(&["od", "-A", "n", "-t", "u8", "-j", "32", "-N", "8", &limits]);
    let context: u64 = told.trim().parse().unwrap_or_else(|error| panic!("{limits}: {error}: {told}"));
    let left = (2u64 << 30) - context;
    let got = left / (64 << 20) * (64 << 20);
    for _ in 0..2 {
        // Twice: what the first one had is free again when it is dead.
        let text = namespace.exec("cuda", &["/takes-memory"]);
        assert_eq!(
            text.trim(),
            format!("2048 {} {}", got >> 20, (left - got) >> 20),
            "context of {context} bytes"
        );
    }

    // What the share used is told, while a process lives and when it is dead.
    let tells = |what: &str, series: &[(&str, Option<f64>)]| {
        agent.until(what, || {
            let metrics = agent.metrics();
            series.iter().all(|(name, wanted)| value(&metrics, name, "pod=\"cuda\"") == *wanted)
        });
    };
    let all = f64::from(2u32 << 30);
    tells(
        "the series of a share",
        &[
            ("share_memory_limit_bytes", Some(all)),
            ("share_compute_limit_ratio", Some(0.25)),
            ("share_mechanism", Some(1.0)),
            ("share_memory_denials_total", Some(2.0)),
            ("share_memory_bytes", Some(0.0)),
            ("share_processes", Some(0.0)),
        ],
    );
    let words = ["kubectl", "exec", "-n", namespace.name(), "cuda", "--", "/takes-memory", "stay"];
    let staying = cluster.background(&words, &[]);
    tells(
        "a process that stays",
        &[
            ("share_memory_bytes", Some((context + got) as f64)),
            ("share_processes", Some(1.0)),
            ("share_memory_denials_total", Some(3.0)),
        ],
    );
    cluster.on_node(&["pkill", "--signal", "KILL", "-f", "^/takes-memory stay"]);
    drop(staying);
    tells(
        "a process that is dead",
        &[
            ("share_memory_bytes", Some(0.0)),
            ("share_processes", Some(0.0)),
            ("share_memory_denials_total", Some(3.0)),
        ],
    );
    agent.kill();
    tells("an agent that was killed goes on counting", &[("share_memory_denials_total", Some(3.0))]);

    // A process of a pod shows up on the GPU, and no share has counted it.
    let pod = namespace.get(&["pod", "one"])["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let script = format!("grep -l pod{pod} /proc/[0-9]*/cgroup | head -1 | cut -d/ -f3");
    let pid: u32 = cluster.on_node(&["sh", "-c", &script]).trim().parse().expect("a process of the pod");
    let escaped = |number: f64| {
        agent.until(&format!("{number} processes have escaped"), || {
            value(&agent.metrics(), "escaped_processes", &part) == Some(number)
        });
    };
    escaped(0.0);
    let appears =
        node.machine().change_world(|host| host.start_process(GpuIndex(0), None, pid, Bytes(1 << 30), 0));
    appears.expect("the machine").expect("a process on the GPU");
    escaped(1.0);
    agent.until("the escape is told", || {
        let told = cluster.told("LimiterEscaped");
        let whole = |message: &String| {
            [&format!("process {pid} "), &pod, &part, "1024 MiB"].iter().all(|word| message.contains(*word))
        };
        told.iter().filter(|message| whole(message)).count() == 1
    });
    node.machine().change_world(|host| host.end_process(pid)).expect("the machine");
    escaped(0.0);

    audit.delete(&["one", "two", "cuda"]);
    audit.gone(&["one", "two", "cuda"]);
    audit.clean();
    agent.until("the series go with the claims", || !agent.metrics().contains("carve_agent_share_"));
    agent.remove();
}

/// Two pods on one GPU that never have enough, with 30 and 70 percent of it.
#[test]
fn programs_get_the_time_of_their_share() {
    let (Some(cluster), Some(library)) = (Cluster::connect(), limiter_library()) else { return };
    let Some(node) = GpuNode::new(&cluster, "limited-time", "h200-141gb:1") else { return };
    import_programs(&cluster);
    let namespace = cluster.namespace("limited-time");
    let library = library.display().to_string();
    let agent = node.serve_claims(&namespace, &[("CARVE_LIMITER", &library)]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    for (name, percent) in [("few", "30"), ("many", "70")] {
        start(&cluster, &node, &namespace, name, &Ask::of("fraction").share("2Gi", percent));
    }
    audit.run(&["few", "many"]);

    // Alone on the GPU, one gets no more than its share all the same.
    let (mut few_pieces, alone) =
        work(&namespace.exec("few", &["/usr/bin/env", CLOCK, "/takes-time", "3000"]));
    assert!(alone < 40.0, "{alone} % of the time, and 30 % are the share");

    // Together, each gets its own. Whoever is kept from work by a busy machine gets less, so it is tried more than once; nobody ever
    // gets far more.
    let (mut many_pieces, mut ratios) = (0, Vec::new());
    let close = |ratio: &f64| (ratio / (70.0 / 30.0) - 1.0).abs() < 0.2;
    while !ratios.last().is_some_and(close) {
        let round = ratios.len() as u32;
        assert!(round < 6, "70 and 30 percent came out as {ratios:?} to 1");
        let [few, many] = side_by_side(&cluster, &namespace, round, ["few", "many"]);
        assert!(few.1 < 40.0 && many.1 < 80.0, "{few:?} of 30 % and {many:?} of 70 %");
        (few_pieces, many_pieces) = (few_pieces + few.0, many_pieces + many.0);
        ratios.push(f64::from(many.0) / f64::from(few.0));
    }
    eprintln!("alone {alone:.1} % of 30 %; side by side 70 % to 30 % as {ratios:.2?} to 1");
    for (pod, pieces, percent) in [("few", few_pieces, 0.3), ("many", many_pieces, 0.7)] {
        agent.until(&format!("all pieces of {pod} are counted"), || {
            let told = Told::new(agent.metrics(), pod);
            told.is("share_launches_total", f64::from(pieces))
                && told.is("share_compute_limit_ratio", percent)
                && told.get("share_gpu_seconds_total") > Some(0.0)
                && told.get("share_throttled_seconds_total") > Some(0.0)
                && told.is_held_by("limiter")
        });
    }
    audit.delete(&["few", "many"]);
    audit.gone(&["few", "many"]);
    audit.clean();
    agent.remove();
}

/// A share of a GPU over MPS, and a whole GPU over MPS: their daemons hold them, and the limiter counts.
#[test]
fn what_is_used_over_mps_is_counted() {
    let (Some(cluster), Some(library)) = (Cluster::connect(), limiter_library()) else { return };
    let Some(node) = GpuNode::new(&cluster, "limited-mps", "h200-141gb:2") else { return };
    import_programs(&cluster);
    let namespace = cluster.namespace("limited-mps");
    let library = library.display().to_string();
    let agent = node.serve_claims(&namespace, &[("CARVE_LIMITER", &library)]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    let config = json!({
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
        "sharing": {"strategy": "MPS", "mpsConfig": {
            "defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "2Gi",
        }},
    });
    start(&cluster, &node, &namespace, "share", &Ask::of("mps").share("2Gi", "40"));
    start(&cluster, &node, &namespace, "whole", &Ask::of("gpu").config(config));
    let both = ["share", "whole"];
    audit.run(&both);
    audit.settled(&both);
    assert!(device_of(&namespace, "share").ends_with("-mps"), "{}", device_of(&namespace, "share"));
    assert_eq!(namespace.env("share", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").as_deref(), Some("40"));
    let tells = |pod: &str, what: &str, holds: &dyn Fn(&Told) -> bool| {
        agent.until(&format!("{pod}: {what}"), || holds(&Told::new(agent.metrics(), pod)));
    };

    for (pod, percent) in [("share", 0.4), ("whole", 0.5)] {
        let status = || namespace.get(&["resourceclaim", pod])["status"]["devices"][0]["data"].clone();
        agent.until("the claim says that it is counted", || status()["counted"] == true);
        let (pieces, _) = work(&namespace.exec(pod, &["/takes-time", "500"]));
        let done = f64::from(pieces) / 1_000.0;
        tells(pod, "time is counted and not held", &|told| {
            let seconds = told.get("share_gpu_seconds_total");
            told.is("share_launches_total", f64::from(pieces))
                && seconds.is_some_and(|seconds| seconds > 0.0 && seconds < 2.0 * done)
                && told.is("share_throttled_seconds_total", 0.0)
                && told.is("share_compute_limit_ratio", percent)
                && told.is("share_memory_bytes", 0.0)
                && told.is_held_by("mps")
        });
    }

    // Memory: a share has what it asked for, and a whole GPU has all, of which its config gives each process 2 GiB. The daemon takes the
    // context of that.
    tells("share", "2 GiB", &|told| told.is("share_memory_limit_bytes", f64::from(2u32 << 30)));
    let memory = node.machine().memory(GpuIndex(0)).expect("the memory of a GPU");
    let all = (memory.total.0 - memory.reserved.0) >> 20 << 20;
    tells("whole", "all", &|told| told.is("share_memory_limit_bytes", all as f64));
    let taken = |printed: &str| -> Vec<u64> {
        let found: Vec<u64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(found.len(), 3, "not what takes-memory prints: {printed:?}");
        found
    };
    for pod in both {
        let words = ["kubectl", "exec", "-n", namespace.name(), pod, "--", "/takes-memory", "stay"];
        let staying = cluster.background(&words, &[]);
        let has_printed = || !staying.printed().is_empty();
        cluster.until_or("it has what it gets", PATIENCE, has_printed, || staying.heard());
        let first = taken(&staying.printed())[1];
        assert!((1_024..2_048).contains(&first), "{pod}: {first} MiB of a limit of 2 GiB for each process");
        tells(pod, "a process that stays", &|told| {
            told.is("share_memory_bytes", (first << 20) as f64) && told.is("share_processes", 1.0)
        });
        // A second one gets what the share has left, and of a GPU that the claim has alone as much as the first.
        let second = taken(&namespace.exec(pod, &["/takes-memory"]))[1];
        let (expected, denials) =
            if pod == "share" { ((2_048 - first) / 64 * 64, 1.0) } else { (first, 0.0) };
        assert_eq!(second, expected, "{pod}, beside {first} MiB");
        tells(pod, "refusals of the limiter", &|told| told.is("share_memory_denials_total", denials));
        cluster.on_node(&["pkill", "--signal", "KILL", "-f", "^/takes-memory stay"]);
        drop(staying);
        tells(pod, "a process that is dead", &|told| {
            told.is("share_memory_bytes", 0.0) && told.is("share_processes", 0.0)
        });
    }

    // What was counted outlives the agent, and nobody is said to have escaped.
    let before = Told::new(agent.metrics(), "whole").get("share_launches_total");
    assert!(before > Some(0.0), "{before:?}");
    let metered = cluster.on_node(&["cat", "/run/carve/limits/metered.json"]);
    for pod in both {
        let claim = namespace.get(&["resourceclaim", pod]);
        let uid = claim["metadata"]["uid"].as_str().expect("a uid");
        assert!(metered.contains(uid), "{pod}: {metered}");
    }
    agent.kill();
    tells("whole", "an agent that was killed goes on counting", &|told| {
        told.get("share_launches_total") == before
    });
    assert!(!agent.metrics().contains("carve_agent_escaped_processes{"), "{}", agent.metrics());

    audit.delete(&both);
    audit.gone(&both);
    audit.clean();
    agent.until("the series go with the claims", || !agent.metrics().contains("carve_agent_share_"));
    agent.remove();
}
