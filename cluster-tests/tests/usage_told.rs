//! Who used what: twelve pods on GPUs that are shared in every way, under a load that is known, and what is told of them.

use carve_cluster_tests::{
    AgentOnNode, Ask, Cluster, GpuNode, Namespace, TAKING, import_taking, limiter_library,
};
use carve_gpu_host::GpuHost;
use carve_gpu_model::{Bytes, ComputeInstanceId, GpuIndex, GpuInstanceId};
use serde_json::json;
use std::time::Duration;

const GIB: u64 = 1 << 30;
/// How far a figure may be from the truth.
const MOST: f64 = 0.02;
/// How long the load is watched.
const WATCHED: Duration = Duration::from_secs(20);
/// Somebody who is in no pod; on the last GPU it works all the time, which is how time as the agent sees it is known.
const STRANGER: u32 = 1;

/// A page of the agent.
struct Page(String);

impl Page {
    fn of(agent: &AgentOnNode<'_>) -> Self {
        Page(agent.metrics())
    }

    /// Values of the series of a name whose labels contain all these words.
    fn values(&self, name: &str, words: &[&str]) -> Vec<f64> {
        let named = self.0.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        let lines = named.filter(|line| words.iter().all(|word| line.contains(word)));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
    }

    fn sum(&self, name: &str, words: &[&str]) -> f64 {
        self.values(name, words).iter().sum()
    }

    /// Seconds of a pod that are known in this way.
    fn seconds(&self, pod: &str, attribution: &str) -> f64 {
        let (pod, attribution) = (format!("pod=\"{pod}\""), format!("attribution=\"{attribution}\""));
        self.sum("carve_container_gpu_seconds_total", &[&pod, &attribution])
    }

    /// Whether everything that is told of a GPU sums up to it.
    #[track_caller]
    fn sums_up(&self, gpu: usize, uuids: &[&str]) {
        let of = |name: &str, uuid: &str| self.sum(name, &[&format!("uuid=\"{uuid}\"")]);
        for uuid in uuids {
            let busy = of("carve_gpu_busy_seconds_total", uuid);
            let parts = [
                "carve_container_gpu_seconds_total",
                "carve_gpu_unattributed_seconds_total",
                "carve_gpu_former_seconds_total",
            ];
            let sum: f64 = parts.iter().map(|name| of(name, uuid)).sum();
            assert!((busy - sum).abs() < 1e-6, "GPU {gpu}: {busy} s, and {sum} in parts");
            let memory = of("carve_gpu_memory_used_bytes", uuid);
            let sum = of("carve_container_memory_used_bytes", uuid)
                + of("carve_gpu_memory_unattributed_bytes", uuid);
            assert!((memory - sum).abs() < 1.0, "GPU {gpu}: {memory} bytes, and {sum} in parts");
        }
    }
}

#[track_caller]
fn close(what: &str, told: f64, truth: f64) {
    let off = if truth == 0.0 { told } else { (told / truth - 1.0).abs() };
    println!("{what}: {told:.4} told, {truth:.4} in truth");
    assert!(off <= MOST, "{what}: {told} told, {truth} in truth");
}

/// A cluster, a node and what pods on it do.
struct Bench<'a> {
    cluster: &'a Cluster,
    node: &'a GpuNode,
    namespace: &'a Namespace,
}

impl Bench<'_> {
    /// The number of a pod's program on the node.
    fn pid(&self, pod: &str) -> u32 {
        let status = self.namespace.get(&["pod", pod]);
        let id = status["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
        let id = id.rsplit('/').next().unwrap_or_default().to_owned();
        let script = format!("grep -l {id} /proc/[0-9]*/cgroup | head -1 | cut -d/ -f3");
        let found = self.cluster.on_node(&["sh", "-c", &script]);
        found.trim().parse().unwrap_or_else(|error| panic!("no process of {pod}: {error}: {found:?}"))
    }

    /// A process holds memory and works so much of the time, in percent.
    fn works(&self, pid: u32, gpu: u32, instance: Option<(u32, u32)>, gib: u64, percent: u32) {
        let instance = instance.map(|(gpu, compute)| (GpuInstanceId(gpu), ComputeInstanceId(compute)));
        let started = self
            .node
            .machine()
            .change_world(|host| host.start_process(GpuIndex(gpu), instance, pid, Bytes(gib * GIB), percent));
        started.expect("the machine").expect("a process on the GPU");
    }

    fn rests(&self, pid: u32) {
        self.node.machine().change_world(|host| host.end_process(pid)).expect("the machine");
    }

    /// Pods run.
    fn run(&self, pods: &[&str], agent: &AgentOnNode<'_>) {
        for pod in pods {
            agent.until(&format!("{pod} runs"), || self.namespace.phase(pod) == "Running");
        }
    }

    /// Has a pod launch kernels for so many milliseconds; answers how many seconds they took. Not too short: between them a busy
    /// machine leaves gaps, which are the GPU's time for whoever has begun. Not too long: what a process did at the very end is not counted.
    fn takes_time(&self, pod: &str, milliseconds: &str) -> f64 {
        let printed =
            self.namespace.exec(pod, &["/usr/bin/env", "TAKES_PIECE=5000", "/takes-time", milliseconds]);
        let pieces: f64 =
            printed.split_whitespace().next().and_then(|word| word.parse().ok()).expect("pieces");
        pieces / 200.0
    }

    /// A server of MPS.
    fn server(&self) -> u32 {
        let found = self.cluster.on_node(&["pgrep", "-o", "nvidia-cuda-mps"]);
        found.trim().parse().unwrap_or_else(|error| panic!("no daemon of MPS: {error}: {found:?}"))
    }
}

fn import_programs(cluster: &Cluster) {
    import_taking(cluster, env!("CARGO_BIN_EXE_takes_memory"), env!("CARGO_BIN_EXE_takes_time"));
}

/// A node of a type, until the test is over.
struct Priced<'a> {
    cluster: &'a Cluster,
    node: &'static str,
}

const TYPE: &str = "node.kubernetes.io/instance-type";

impl<'a> Priced<'a> {
    fn label(cluster: &'a Cluster, node: &'static str, kind: &str) -> Self {
        cluster.label(node, TYPE, kind);
        Priced { cluster, node }
    }
}

impl Drop for Priced<'_> {
    fn drop(&mut self) {
        let _ = self.cluster.try_kubectl(&["label", "node", self.node, &format!("{TYPE}-")], None);
    }
}

#[test]
fn twelve_pods_are_told_apart() {
    let (Some(cluster), Some(library)) = (Cluster::connect(), limiter_library()) else { return };
    let Some(node) = GpuNode::new(&cluster, "usage", "h200-141gb:5") else { return };
    import_programs(&cluster);
    let namespace = cluster.namespace("usage");
    let library = library.display().to_string();
    // What it costs is known from its type.
    let _priced = Priced::label(&cluster, "node0", "p5en.48xlarge");
    let agent = node.serve_claims(&namespace, &[("CARVE_LIMITER", &library)]);
    let bench = Bench { cluster: &cluster, node: &node, namespace: &namespace };
    let uuids: Vec<String> = node.machine().gpus().expect("GPUs").into_iter().map(|gpu| gpu.uuid.0).collect();

    // Three that take turns on one claim, three over MPS, three with MIG devices, three with fractions.
    let turns = json!({
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
        "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}},
    });
    let whole = |gpu: &str| {
        let mut ask = Ask::of("gpu").claim("turns");
        let expression = format!("device.attributes['gpu.carve.dev'].uuid == '{gpu}'");
        ask["spec"]["devices"]["requests"][0]["exactly"]["selectors"] =
            json!([{"cel": {"expression": expression}}]);
        ask["spec"]["devices"]["config"] =
            json!([{"opaque": {"driver": "gpu.carve.dev", "parameters": turns}}]);
        ask
    };
    namespace.apply(&whole(&uuids[0]).to_string());
    let (taking_turns, over_mps, in_mig, with_fractions) =
        (["t1", "t2", "t3"], ["p1", "p2", "p3"], ["m1", "m2", "m3"], ["f1", "f2", "f3"]);
    for pod in taking_turns {
        namespace.apply(&node.claimant(pod, "turns").to_string());
    }
    let with_programs = |pod: &str, ask: &Ask| {
        namespace.apply(&node.claiming_pod(pod, ask).replace(cluster.looker_image(), TAKING));
    };
    for pod in over_mps {
        with_programs(pod, &Ask::of("mps").share("20Gi", "30").on(&uuids[1]));
    }
    for (pod, profile) in in_mig.iter().zip(["3g.71gb", "2g.35gb", "1g.18gb"]) {
        namespace.apply(&node.claiming_pod(pod, &Ask::profile("mig", profile).on(&uuids[2])));
        bench.run(&[pod], &agent);
    }
    for pod in with_fractions {
        with_programs(pod, &Ask::of("fraction").share("20Gi", "30").on(&uuids[3]));
    }
    for pods in [taking_turns, over_mps, in_mig, with_fractions] {
        bench.run(&pods, &agent);
    }

    // The load, as it is written down for the driver to tell.
    bench.works(STRANGER, 4, None, 1, 100);
    let pids = taking_turns.map(|pod| bench.pid(pod));
    for (pid, percent) in pids.iter().zip([30, 20, 10]) {
        bench.works(*pid, 0, None, u64::from(percent / 10), percent);
    }
    let migs = node.machine().mig_devices(GpuIndex(2)).expect("MIG devices");
    let mig_of = |pod: &str| {
        let uuid = Page::of(&agent)
            .0
            .lines()
            .find(|line| {
                line.starts_with("carve_agent_claim_device{") && line.contains(&format!("pod=\"{pod}\""))
            })
            .and_then(|line| Some(line.split("uuid=\"").nth(1)?.split('"').next()?.to_owned()));
        migs.iter().find(|mig| Some(&mig.uuid.0) == uuid.as_ref()).cloned()
    };
    agent.until("every MIG device has its pod", || in_mig.iter().all(|pod| mig_of(pod).is_some()));
    let mut parts = Vec::new();
    for (pod, percent) in in_mig.iter().zip([70, 50, 25]) {
        let mig = mig_of(pod).expect("a MIG device");
        let instance = (mig.gpu_instance.0, mig.compute_instance.0);
        bench.works(bench.pid(pod), 2, Some(instance), 2, percent);
        parts.push(mig.uuid.0);
    }
    // Under MPS the driver tells of its server, and nothing of its clients.
    bench.works(bench.server(), 1, None, 0, 100);

    let stranger = |page: &Page| page.sum("carve_gpu_busy_seconds_total", &["gpu=\"4\""]);
    let told = |pods: &[&str], attribution: &str| {
        agent.until(&format!("{pods:?} are told by {attribution}"), || {
            let page = Page::of(&agent);
            pods.iter().all(|pod| page.seconds(pod, attribution) > 0.0)
        });
    };
    told(&taking_turns, "equal");
    told(&in_mig, "measured");
    agent.until("everybody is in the books", || {
        let page = Page::of(&agent);
        let named = |pod: &&str| page.0.contains(&format!("pod=\"{pod}\",mechanism="));
        [taking_turns, over_mps, in_mig, with_fractions].concat().iter().all(named)
    });
    // Entries in the books are five seconds long; the first ones are from before there was any load.
    std::thread::sleep(Duration::from_secs(7));
    let before = Page::of(&agent);
    std::thread::sleep(WATCHED);
    let after = Page::of(&agent);
    let time = stranger(&after) - stranger(&before);
    let part = |pod: &str, attribution: &str| {
        (after.seconds(pod, attribution) - before.seconds(pod, attribution)) / time
    };
    for (pod, percent) in in_mig.iter().zip([70, 50, 25]) {
        close(pod, part(pod, "measured"), f64::from(percent) / 100.0);
    }
    // Nobody knows how those who take turns share what the device did; it is an even part, and says so.
    for pod in taking_turns {
        close(pod, part(pod, "equal"), 0.2);
    }
    close("all who take turns", taking_turns.iter().map(|pod| part(pod, "equal")).sum(), 0.6);
    // Everybody pays for their part of a fifth of the machine, and what all pay is what it costs.
    let cost = |words: &[&str]| {
        after.sum("carve_cost_dollars_total", words) - before.sum("carve_cost_dollars_total", words)
    };
    let node_cost = |words: &[&str]| {
        after.sum("carve_node_cost_dollars_total", words) - before.sum("carve_node_cost_dollars_total", words)
    };
    let all = node_cost(&[]);
    assert!(all > 0.0, "{}", after.0);
    close("the price of an hour", after.sum("carve_node_price_dollars_per_hour", &["AWS us-east-1"]), 63.296);
    for (pods, weight) in [(taking_turns, 1.0 / 3.0), (over_mps, 0.3), (with_fractions, 0.3)] {
        for pod in pods {
            let named = format!("pod=\"{pod}\"");
            let said = |page: &Page| {
                page.0.lines().filter(|line| line.contains(&named)).collect::<Vec<_>>().join("\n")
            };
            assert!(cost(&[&named]) > 0.0, "{pod} pays nothing:\n{}\n──\n{}", said(&before), said(&after));
            close(&format!("{pod} pays"), cost(&[&format!("pod=\"{pod}\"")]) / all, weight / 5.0);
        }
    }
    let used = |pod: &str| {
        let pod = format!("pod=\"{pod}\"");
        cost(&[&pod, "kind=\"used\""]) / cost(&[&pod])
    };
    for (pod, percent) in in_mig.iter().zip([70, 50, 25]) {
        close(&format!("{pod} has used of what it pays for"), used(pod), f64::from(percent) / 100.0);
    }
    // A fifth of the time is three fifths of a third.
    close("t1 has used of what it pays for", used("t1"), 0.6);
    let kinds = ["idle", "fragmentation", "overhead"];
    let nobodys: f64 = kinds.iter().map(|kind| node_cost(&[&format!("kind=\"{kind}\"")])).sum();
    close("all that is paid", cost(&[]) + nobodys, all);
    // Memory is told of every process.
    for (pod, gib) in taking_turns.iter().zip([3, 2, 1]) {
        let label = format!("pod=\"{pod}\"");
        close(pod, after.sum("carve_container_memory_used_bytes", &[&label]), (gib * GIB) as f64);
    }

    // What the limiter counts, in fractions and over MPS, one after the other.
    for (pods, milliseconds) in [(with_fractions, "9000"), (over_mps, "3000")] {
        for pod in pods {
            // Whoever is kept from launching by a busy machine leaves gaps, so it is tried more than once.
            let mut tried = Vec::new();
            while !tried.last().is_some_and(|(told, truth): &(f64, f64)| (told / truth - 1.0).abs() <= MOST) {
                assert!(tried.len() < 4, "{pod}, told and in truth: {tried:?}");
                let before = Page::of(&agent).seconds(pod, "limiter");
                let truth = bench.takes_time(pod, milliseconds);
                agent.until(&format!("what {pod} did is told"), || {
                    Page::of(&agent).seconds(pod, "limiter") - before > truth / 2.0
                });
                std::thread::sleep(Duration::from_secs(5));
                tried.push((Page::of(&agent).seconds(pod, "limiter") - before, truth));
            }
            println!("{pod}, told and in truth: {tried:.4?}");
        }
    }

    let page = Page::of(&agent);
    for gpu in [0, 1, 3, 4] {
        page.sums_up(gpu, &[&uuids[gpu]]);
    }
    page.sums_up(2, &parts.iter().map(String::as_str).collect::<Vec<_>>());
    // Under the names of NVIDIA's exporter a device is the sum of its series, too.
    close("utilisation of GPU 0", page.sum("DCGM_FI_DEV_GPU_UTIL", &["gpu=\"0\""]), 60.0);
    close("of a MIG device", page.sum("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &["gpu=\"2\"", "pod=\"m1\""]), 0.7);
    assert_eq!(
        page.values("DCGM_FI_DEV_GPU_TEMP", &["gpu=\"0\"", "Hostname=\"node0\",hostname=\"node0\""]).len(),
        1
    );

    // Who dies is not told of after one scrape.
    bench.rests(pids[2]);
    cluster.kubectl(&[
        "delete",
        "pod",
        "t3",
        "-n",
        namespace.name(),
        "--wait=true",
        "--grace-period=0",
        "--force",
    ]);
    agent.until("the node has ended the pod", || {
        let script = format!("test ! -e /proc/{}", pids[2]);
        cluster.on_node(&["sh", "-c", &format!("{script} && echo gone || true")]).contains("gone")
    });
    let _last = Page::of(&agent);
    std::thread::sleep(Duration::from_secs(3));
    let page = Page::of(&agent);
    assert!(
        !page.0.contains("pod=\"t3\""),
        "{}",
        page.0.lines().filter(|line| line.contains("\"t3\"")).collect::<Vec<_>>().join("\n")
    );
    page.sums_up(0, &[&uuids[0]]);
    for pod in [&taking_turns[..2], &over_mps, &in_mig, &with_fractions].concat() {
        cluster.kubectl(&[
            "delete",
            "pod",
            pod,
            "-n",
            namespace.name(),
            "--wait=true",
            "--grace-period=0",
            "--force",
        ]);
    }
    agent.remove();
}
