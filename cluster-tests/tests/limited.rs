//! Fractions with the limiter installed: programs in the pod see their share, get no more, the node counts what they use, and who
//! escapes is told of.

use carve_cluster_tests::{Ask, Audit, Cluster, GpuNode};
use carve_gpu_model::{Bytes, GpuIndex};
use carve_lab::Image;
use serde_json::Value;
use std::path::{Path, PathBuf};

const IMAGE: &str = "localhost/takes-memory:1";

/// The limiter's library; the tests' own command builds it.
fn library() -> Option<PathBuf> {
    let named = std::env::var_os("CARVE_LIMITER_LIBRARY").map(PathBuf::from);
    let found = named.filter(|path| path.exists());
    if found.is_none() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CARVE_LIMITER_LIBRARY must name the limiter");
        eprintln!("skipped: CARVE_LIMITER_LIBRARY does not name the limiter (cargo xtask limiter builds it)");
    }
    found
}

/// The value of a series about a pod, or about a GPU.
fn value(metrics: &str, name: &str, label: &str) -> Option<f64> {
    let start = format!("carve_agent_{name}{{");
    let line = metrics.lines().find(|line| line.starts_with(&start) && line.contains(label))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn programs_see_and_get_their_share() {
    let (Some(cluster), Some(library)) = (Cluster::connect(), library()) else { return };
    let Some(node) = GpuNode::new(&cluster, "limited", "h200-141gb:1") else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_takes_memory"));
    let image = Image::new(IMAGE).program(program, "/takes-memory").expect("the program");
    let image = image.program(Path::new("/bin/sleep"), "/bin/sleep").expect("sleep");
    cluster.import(&image);
    let namespace = cluster.namespace("limited");
    let library = library.display().to_string();
    let agent = node.serve_claims(&namespace, &[("CARVE_LIMITER", &library)]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    let ask = Ask::of("fraction").share("2Gi", "25");
    for name in ["one", "two"] {
        let text = node.claiming_pod(name, &ask);
        namespace.apply(&text);
    }
    namespace.apply(&node.claiming_pod("cuda", &ask).replace(cluster.looker_image(), IMAGE));
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
