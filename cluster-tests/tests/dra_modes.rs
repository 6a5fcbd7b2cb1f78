//! One node, every mode: fractions, MIG, a whole GPU and MPS at once, chosen by claims alone, and then the other way round.

use carve_cluster_tests::{Ask, Background, Cluster, GpuNode, Namespace, PATIENCE, device_of};
use carve_gpu_host::GpuHost;
use carve_gpu_model::GpuIndex;

fn start(namespace: &Namespace, node: &GpuNode, name: &str, ask: &Ask) {
    namespace.apply(&node.claiming_pod(name, ask));
}

fn free(cluster: &Cluster, namespace: &Namespace, names: &[&str]) {
    let of = |kind: &str| {
        let words = [&["delete", kind, "-n", namespace.name(), "--wait=true"], names].concat();
        cluster.kubectl(&words);
    };
    of("pod");
    of("resourceclaim");
}

/// What `carve gpus` shows of the node, GPU by GPU.
fn cuts(node: &GpuNode) -> Vec<Vec<u32>> {
    let machine = node.machine();
    let gpus = machine.gpus().expect("GPUs");
    let slices = |index: GpuIndex| {
        let devices = machine.mig_devices(index).expect("MIG devices");
        let mut slices: Vec<u32> = devices.iter().map(|device| device.gpu_slices).collect();
        slices.sort_unstable();
        slices
    };
    gpus.iter().map(|gpu| slices(gpu.index)).collect()
}

/// Waits until a table of `carve gpus --watch` has shown these words, a set for each GPU, at one moment.
fn shown_at_once(cluster: &Cluster, watching: &Background, what: &str, gpus: [&[&str]; 4]) {
    let holds = |table: &str| {
        gpus.iter().enumerate().all(|(gpu, words)| {
            let row = table.lines().find(|line| line.starts_with(&format!("{gpu} ")));
            row.is_some_and(|row| words.iter().all(|word| row.contains(&format!("   {word}   "))))
        })
    };
    let what = format!("carve gpus --watch has shown {what}");
    let shown = || watching.printed().split("\n\n").any(holds);
    cluster.until_or(&what, PATIENCE, shown, || format!("{}\n{}", watching.printed(), watching.heard()));
}

/// The series about a pod's device: device, kind of UUID and usage.
fn attributed(metrics: &str, namespace: &str, pod: &str) -> Vec<(String, String, String)> {
    let label = |line: &str, name: &str| -> Option<String> {
        let start = line.find(&format!("{name}=\""))? + name.len() + 2;
        Some(line[start..].split('"').next()?.to_owned())
    };
    let of_pod = |line: &&str| {
        let starts = format!("carve_agent_claim_device{{namespace=\"{namespace}\",pod=\"{pod}\",");
        line.starts_with(&starts) && line.ends_with("} 1")
    };
    let read = |line: &str| {
        let uuid = label(line, ",uuid")?;
        let claim = (label(line, ",claim")?, label(line, ",claim_namespace")?);
        assert_eq!(claim, (pod.to_owned(), namespace.to_owned()), "{line}");
        Some((label(line, ",device")?, uuid.split('-').next()?.to_owned(), label(line, ",usage")?))
    };
    metrics.lines().filter(of_pod).filter_map(read).collect()
}

#[test]
fn four_gpus_serve_four_modes_and_swap_them() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-modes", "h200-141gb:4") else { return };
    let namespace = cluster.namespace("dra-modes");
    let agent = node.serve_claims(&namespace, &[]);
    let running = |name: &str| agent.until(&format!("{name} runs"), || namespace.phase(name) == "Running");

    let watching = agent.watch_gpus();

    let quarter = Ask::of("fraction").share("30Gi", "25");
    let fractions = ["f1", "f2", "f3", "f4"];
    for name in fractions {
        start(&namespace, &node, name, &quarter);
        running(name);
        assert_eq!(device_of(&namespace, name), "gpu-0-frac");
    }
    // Left alone, the scheduler would cut the last GPU for the largest of them and the first for the others.
    let uuids: Vec<String> = node.machine().gpus().expect("GPUs").into_iter().map(|gpu| gpu.uuid.0).collect();
    let migs = [("m3", "3g.71gb"), ("m2", "2g.35gb"), ("m1", "1g.18gb")];
    for (name, profile) in migs {
        start(&namespace, &node, name, &Ask::profile("mig", profile).on(&uuids[1]));
        running(name);
        assert!(device_of(&namespace, name).starts_with("gpu-1-mig-"), "{}", device_of(&namespace, name));
    }
    start(&namespace, &node, "whole", &Ask::of("gpu"));
    running("whole");
    assert_eq!(device_of(&namespace, "whole"), "gpu-2");
    for name in ["p1", "p2"] {
        start(&namespace, &node, name, &Ask::of("mps").share("20Gi", "40"));
        running(name);
        assert_eq!(device_of(&namespace, name), "gpu-3-mps");
    }
    assert_eq!(cuts(&node), [vec![], vec![1, 2, 3], vec![], vec![]]);

    // What an operator sees, and what Prometheus is told.
    let space = namespace.name();
    let whole = format!("alone: {space}/whole");
    let mixed: [&[&str]; 4] = [
        &["off", "4 fractions (100 %)"],
        &["1× 1g.18gb, 1× 2g.35gb, 1× 3g.71gb", "MIG, 3 claims"],
        &["off", &whole],
        &["off", "MPS, 2 claims"],
    ];
    shown_at_once(&cluster, &watching, "four modes", mixed);
    let is = |pod: &str, device: &str, kind: &str, usage: &str| {
        let wanted = (device.to_owned(), kind.to_owned(), usage.to_owned());
        agent.until(&format!("the series of {pod}"), || {
            attributed(&agent.metrics(), space, pod) == [wanted.clone()]
        });
    };
    for name in fractions {
        is(name, "gpu-0-frac", "GPU", "fraction");
    }
    for (name, _) in migs {
        is(name, &device_of(&namespace, name), "MIG", "alone");
    }
    is("whole", "gpu-2", "GPU", "alone");
    is("p1", "gpu-3-mps", "GPU", "mps");
    let ready = |count: usize| {
        agent.metrics().lines().any(|line| line == format!("carve_agent_claims_ready {count}"))
    };
    agent.until("ten claims are ready", || ready(10));

    // What pods see in there.
    let seen = |pod: &str| -> serde_json::Value {
        let text = namespace.exec(pod, &["/carve", "gpus", "-o", "json"]);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let devices = seen("m3")["gpus"][0]["mig"]["devices"].clone();
    assert_eq!(devices.as_array().map(Vec::len), Some(1), "its own MIG device and no other: {devices:#}");
    assert_eq!(devices[0]["profile"], "3g.71gb");
    let limits = namespace.exec("f1", &["/bin/ls", "/run/carve/limits"]);
    assert!(limits.contains("GPU-"), "{limits}");
    let pipe = namespace.env("p1", "CUDA_MPS_PIPE_DIRECTORY").expect("the way to the daemon");
    assert!(!namespace.exec("p1", &["/bin/ls", &pipe]).is_empty());
    assert_eq!(namespace.env("p1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").as_deref(), Some("40"));
    let probe = namespace.exec("p1", &["/carve", "cuda-probe", "look"]);
    let probe: serde_json::Value = serde_json::from_str(&probe).expect("what CUDA sees");
    let free_memory = probe["answer"]["look"]["free"].as_u64().unwrap_or_default() >> 20;
    assert!((19_000..20_480).contains(&free_memory), "{free_memory} MiB of 20 GiB: {probe:#}");
    // What the claim says about it.
    let status = || namespace.get(&["resourceclaim", "f1"])["status"]["devices"][0].clone();
    agent.until("the claim's status tells what it has", || status()["data"]["memory"] == "30720Mi");
    assert_eq!(status()["conditions"][0]["status"], "True");

    // There is nothing left for a whole GPU; the pod waits, and says why.
    start(&namespace, &node, "late", &Ask::of("gpu"));
    let waits = || {
        let pod = namespace.get(&["pod", "late"]);
        pod["status"]["conditions"][0]["message"]
            .as_str()
            .is_some_and(|text| text.contains("cannot allocate"))
    };
    agent.until("the late one waits", waits);

    free(&cluster, &namespace, &fractions);
    agent.until("the late one runs on the GPU of the fractions", || namespace.phase("late") == "Running");
    assert_eq!(device_of(&namespace, "late"), "gpu-0");
    agent.until("the series of the fractions are gone, and the late one has one", || {
        let metrics = agent.metrics();
        fractions.iter().all(|pod| attributed(&metrics, space, pod).is_empty())
            && attributed(&metrics, space, "late").len() == 1
    });

    // Everything goes, and comes back the other way round.
    free(&cluster, &namespace, &["m3", "m2", "m1", "whole", "p1", "p2", "late"]);
    agent.until("the node is clean", || {
        let machine = node.machine();
        let modes = machine.gpus().expect("GPUs").into_iter().map(|gpu| machine.mig_mode(gpu.index));
        modes.into_iter().all(|mode| mode.is_ok_and(|mode| mode.is_some_and(|mode| !mode.current)))
    });
    for (name, ask, device) in [
        ("a", Ask::profile("mig", "7g.141gb").on(&uuids[0]), "gpu-0-mig-7g141gb-0-0"),
        ("b", Ask::of("gpu"), "gpu-1"),
        ("c", Ask::of("mps").share("1Gi", "10"), "gpu-2-mps"),
        ("d", Ask::of("fraction").share("1Gi", "10"), "gpu-3-frac"),
    ] {
        start(&namespace, &node, name, &ask);
        running(name);
        assert_eq!(device_of(&namespace, name), device);
    }
    let alone = format!("alone: {space}/b");
    let swapped: [&[&str]; 4] = [
        &["1× 7g.141gb", "MIG, 1 claim"],
        &["off", &alone],
        &["off", "MPS, 1 claim"],
        &["off", "1 fraction (10 %)"],
    ];
    shown_at_once(&cluster, &watching, "the swapped modes", swapped);
    free(&cluster, &namespace, &["a", "b", "c", "d"]);
    let left = || {
        let daemons = cluster.on_node(&["sh", "-c", "pgrep -f '[n]vidia-cuda-mps-control -f' || true"]);
        // Claims have a folder of their own each, called by their UID; what the agent keeps for itself stays.
        let there = "ls /var/run/cdi | grep claim_; ls /run/carve/limits | grep -xE '.{36}'; true";
        let files = cluster.on_node(&["sh", "-c", there]);
        format!("{daemons}{files}")
    };
    cluster.until_or("nothing is left", PATIENCE, || left().is_empty(), left);
    agent.until("no claim is ready", || ready(0));
    assert!(!agent.metrics().contains("carve_agent_claim_device{"), "{}", agent.metrics());
    agent.remove();
}

/// The way over from the device plugin: the same pod, before and after, and nobody writes a claim.
#[test]
fn a_pod_that_asks_for_nvidia_com_gpu_gets_one_on_a_node_that_serves_claims() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-extended", "h200-141gb:1") else { return };
    let namespace = cluster.namespace("dra-extended");
    let pod = node.looking_pod("trainer", "nvidia.com/gpu", 1).manifest();
    let seen = || {
        let text = namespace.exec("trainer", &["/carve", "gpus", "-o", "json"]);
        let seen: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        seen["gpus"].as_array().map_or(0, Vec::len)
    };
    let plugin = node.start_agent(&namespace, &[]);
    plugin.offers("nvidia.com/gpu", 1);
    namespace.apply(&pod);
    namespace.wait_for_phase("trainer", "Running");
    assert_eq!(seen(), 1);
    cluster.kubectl(&["delete", "pod", "trainer", "-n", namespace.name()]);
    plugin.remove();
    cluster.until("kubelet counts no GPU any more", PATIENCE, || {
        cluster.allocatable("nvidia.com/gpu") == Some(0)
    });

    let agent = node.serve_claims(&namespace, &[]);
    namespace.apply(&pod);
    agent.until("the same pod runs", || namespace.phase("trainer") == "Running");
    assert_eq!(seen(), 1);
    let claims = namespace.get(&["resourceclaims"]);
    let device = &claims["items"][0]["status"]["allocation"]["devices"]["results"][0]["device"];
    assert_eq!(device, "gpu-0", "{claims:#}");
    cluster.kubectl(&["delete", "pod", "trainer", "-n", namespace.name()]);
    agent.remove();
}
