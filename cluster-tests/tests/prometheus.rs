//! A real Prometheus with what is shipped: every query of every dashboard answers, every rule records, and every alert fires when its fault is
//! made and clears when it is put right.

use carve_cluster_tests::{
    AgentOnNode, Ask, Background, Cluster, ControlPlane, GpuNode, HollowNodes, Namespace, PATIENCE, Pod,
    Prometheus, Scraped, TAKING, dashboard_queries, define, hurried, import_taking, limiter_library,
    promtool, shipped_rules,
};
use carve_gpu_host::{GpuEvent, GpuHost};
use carve_gpu_model::{Bytes, ComputeInstanceId, GpuIndex, GpuInstanceId};
use carve_test_support::fixture_text;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Nodes without kubelets that offer parts of GPUs.
const PARTS: &str = "prometheus-parts";
/// Dollars an hour of the first node.
const PRICE: f64 = 31.5;
const GIB: u64 = 1 << 30;
/// A configuration that does not read, and one that does.
const WRONG: &str = "version: v1\nflags: {migStrategy: sideways}\n";
const RIGHT: &str = "version: v1\nflags: {migStrategy: none}\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n";

#[test]
fn rules_hold_with_their_real_durations() {
    let Some(checked) = promtool(&["check", "rules", "carve-alerts.yaml"]) else { return };
    checked.expect("rules that Prometheus takes");
    let tried = promtool(&["test", "rules", "carve-alerts.test.yaml"]).expect("promtool");
    tried.expect("rules that do as they say");
    // What the test below runs with is taken, too, and differs by nothing but times.
    let hurried = hurried(&shipped_rules());
    assert_eq!(hurried.matches("\n    for: 1s\n").count(), shipped_rules().matches("\n    for: ").count());
    assert!(!hurried.contains("m]") && !hurried.contains("h]"), "{hurried}");
    assert!(hurried.contains("> 5\n    for: 1s"), "{hurried}");
}

/// Everything that runs.
struct Scene<'a> {
    cluster: &'a Cluster,
    namespace: &'a Namespace,
    /// Serves claims.
    first: &'a GpuNode,
    /// Offers devices.
    second: &'a GpuNode,
    agent: &'a AgentOnNode<'a>,
    prometheus: &'a Prometheus,
}

impl Scene<'_> {
    fn run(&self, pods: &[&str]) {
        for pod in pods {
            self.agent.until(&format!("{pod} runs"), || self.namespace.phase(pod) == "Running");
        }
    }

    /// The number of a pod's program on the first node.
    fn pid(&self, pod: &str) -> u32 {
        let uid = self.namespace.get(&["pod", pod])["metadata"]["uid"].as_str().expect("a uid").to_owned();
        let script = format!("grep -l pod{uid} /proc/[0-9]*/cgroup | tail -1 | cut -d/ -f3");
        let found = self.cluster.on_node(&["sh", "-c", &script]);
        found.trim().parse().unwrap_or_else(|error| panic!("no process of {pod}: {error}: {found:?}"))
    }

    fn works(&self, pid: u32, gpu: u32, instance: Option<(u32, u32)>, percent: u32) {
        let instance = instance.map(|(gpu, compute)| (GpuInstanceId(gpu), ComputeInstanceId(compute)));
        let started = self
            .first
            .machine()
            .change_world(|host| host.start_process(GpuIndex(gpu), instance, pid, Bytes(GIB), percent));
        started.expect("the machine").expect("a process on the GPU");
    }

    fn rests(&self, pid: u32) {
        self.first.machine().change_world(|host| host.end_process(pid)).expect("the machine");
    }

    /// A pod with a claim of its own and programs that take memory and time.
    fn start(&self, pod: &str, ask: &Ask) {
        self.namespace.apply(&self.first.claiming_pod(pod, ask).replace(self.cluster.looker_image(), TAKING));
    }

    fn delete(&self, pods: &[&str]) {
        let words = ["delete", "pod", "-n", self.namespace.name(), "--force", "--grace-period=0"];
        self.cluster.kubectl(&[&words[..], pods].concat());
    }

    fn apply(&self, object: &Value) -> Result<String, String> {
        self.cluster.try_kubectl(&["apply", "-f", "-"], Some(&object.to_string()))
    }

    /// An agent beside kubelet on the second node, with this configuration.
    fn second_agent(&self, binary: &std::path::Path, config: &std::path::Path) -> Background {
        let (config, prices) = (config.display().to_string(), self.prices().display().to_string());
        let environment = [
            ("CARVE_LISTEN", "0.0.0.0:9411"),
            ("CARVE_PROBE_SECONDS", "1"),
            ("CONFIG_FILE", &config),
            ("CARVE_PRICES", &prices),
        ];
        self.second.agent_as_process(self.namespace, binary, &environment)
    }

    /// Where the price of the second node is looked for.
    fn prices(&self) -> PathBuf {
        self.second.files("prices").join("prices")
    }

    /// Every query of every dashboard gives a number at least once within a minute.
    fn dashboards_answer(&self) {
        let (mut silent, start) = (dashboard_queries(self.first.name()), Instant::now());
        let all = silent.len();
        // Somewhere to place pods, so that there is something to decide.
        let _parts = HollowNodes::with_gpus(self.cluster, PARTS, 1, 8, 81_920);
        let mut decided = 0;
        while !silent.is_empty() && start.elapsed() < Duration::from_secs(60) {
            self.namespace
                .apply(&self.part(&format!("decided-{decided}"), |spec| HollowNodes::allow(spec, PARTS)));
            decided += 1;
            silent.retain(|one| !self.prometheus.answers(&one.query));
        }
        assert!(silent.is_empty(), "no answer: {silent:#?}");
        println!("{all} queries of dashboards answer, after {:.1} s", start.elapsed().as_secs_f64());
        let words = [
            "delete",
            "pods",
            "-n",
            self.namespace.name(),
            "-l",
            "app=decided",
            "--force",
            "--grace-period=0",
        ];
        self.cluster.kubectl(&words);
    }

    /// A pod with a part of a GPU.
    fn part(&self, name: &str, change: impl Fn(&mut Value)) -> String {
        let mut part: Value =
            serde_json::from_str(&Pod::sleeping(self.cluster, name).manifest()).expect("a pod");
        part["metadata"]["annotations"] = json!({"gpu-fraction": "0.1"});
        part["metadata"]["labels"] = json!({"app": "decided"});
        change(&mut part["spec"]);
        part.to_string()
    }

    /// Dollars that the first node has cost so far, and when that was.
    fn spent(&self) -> (f64, Instant) {
        let found =
            self.prometheus.ask("sum(carve_node_cost_dollars_total{node=\"node0\"})").expect("an answer");
        let sum = found.first().and_then(|one| one["value"][1].as_str()?.parse().ok());
        (sum.unwrap_or_else(|| panic!("nothing is told of money: {found:?}")), Instant::now())
    }

    /// What became of the money since then sums up to the price. Books are written every few seconds, so it takes a while to see that.
    fn sums_up(&self, (before, at): (f64, Instant)) {
        let least = Duration::from_secs(120);
        std::thread::sleep(least.saturating_sub(at.elapsed()));
        let (after, now) = self.spent();
        let an_hour = (after - before) / (now - at).as_secs_f64() * 3600.0;
        println!("{an_hour:.2} dollars an hour, of {PRICE}");
        assert!((an_hour / PRICE - 1.0).abs() < 0.06, "{an_hour} dollars an hour, of {PRICE}");
    }

    /// Every recording rule gives a number.
    fn rules_record(&self) {
        for record in shipped_rules().lines().filter_map(|line| line.trim().strip_prefix("- record: ")) {
            assert!(self.prometheus.answers(record), "{record}");
        }
    }
}

fn slice_policy(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "carve.dev/v1beta1", "kind": "SlicePolicy", "metadata": {"name": name}, "spec": spec})
}

/// Quarters of T4s of which machines are to come.
fn quarters(name: &str, first: u16) -> Value {
    json!({
        "nodeSelector": {"karpenter.sh/nodepool": name},
        "sharing": {"mechanism": "TimeSlicing", "replicas": 4},
        "provision": {
            "nodeClass": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "instanceTypesOf": "AWS", "models": ["t4"], "counts": [1], "mostGpus": 10,
            "weights": {"first": first, "last": first + 9}, "remove": true,
        },
    })
}

/// Policies are the whole cluster's, and so is what they have made.
struct Policies<'a>(&'a Cluster);

impl Drop for Policies<'_> {
    fn drop(&mut self) {
        for words in [
            ["delete", "slicepolicy", "watched", "unbelievable"],
            ["delete", "node", "watched-0", "--wait=false"],
            ["delete", "nodepool", "watched", "--wait=false"],
        ] {
            let _ = self.0.try_kubectl(&[&words[..], &["--ignore-not-found"]].concat(), None);
        }
    }
}

#[test]
fn every_query_answers_and_every_alert_fires_and_clears() {
    let begin = Instant::now();
    let (Some(cluster), Some(library)) = (Cluster::connect(), limiter_library()) else { return };
    let definitions: Option<Vec<String>> = ["nodepools", "nodeoverlays"]
        .iter()
        .map(|kind| fixture_text(&format!("ecosystem/karpenter/karpenter.sh_{kind}.yaml")))
        .collect();
    let Some(definitions) = definitions else { return };
    let Some(first) = GpuNode::new(&cluster, "prometheus", "h200-141gb:4") else { return };
    let Some(second) = first.beside("node1", "a100-40gb:2") else { return };
    import_taking(&cluster, env!("CARGO_BIN_EXE_takes_memory"), env!("CARGO_BIN_EXE_takes_time"));
    let own = carve_slice_policy::definitions()
        .map(|(_, definition)| serde_json::to_string(&definition).expect("a definition"));
    define(&cluster, own.iter().chain(&definitions).map(String::as_str));
    let _policies = Policies(&cluster);
    let namespace = cluster.namespace("prometheus");
    let control = cluster.namespace("prometheus-control");
    let library = library.display().to_string();
    std::fs::write(first.files("tests").join("prices"), format!("node0 {PRICE}\n")).expect("a file");
    let environment = [("CARVE_LIMITER", library.as_str()), ("CARVE_PRICES", "/tests/prices")];
    let agent = first.serve_claims(&namespace, &environment);
    let address = |object: &Value, list: &str| -> String {
        object["status"][list].as_str().unwrap_or_else(|| panic!("no address: {object:#}")).to_owned()
    };
    let pods = namespace.get(&["pods", "-l", "app=carve-agent"]);
    let node1 = cluster.get(&["node", "node1"]);
    let node1 = node1["status"]["addresses"][0]["address"].as_str().expect("an address");
    let scraped = [
        ("carve-agent", format!("{}:9411", address(&pods["items"][0], "podIP")), "node0", false),
        ("carve-agent", format!("{node1}:9411"), "node1", false),
        ("carve-controller", "127.0.0.1:18443".to_owned(), "node0", true),
    ]
    .map(|(job, address, node, tls)| Scraped { job, address, node: node.to_owned(), tls });
    let Some(prometheus) = Prometheus::start(&cluster, &hurried(&shipped_rules()), &scraped) else { return };
    let scene = Scene {
        cluster: &cluster,
        namespace: &namespace,
        first: &first,
        second: &second,
        agent: &agent,
        prometheus: &prometheus,
    };
    let pids = pods_of_every_kind(&scene);
    let Some(mut plane) = without_controller(&scene, &control) else { return };
    let kept = plane.binary().to_owned();
    let spent = scene.spent();
    println!("── {:.0} s: configuration", begin.elapsed().as_secs_f64());
    let second_agent = wrong_and_right_configuration(&scene, &kept);
    println!("── {:.0} s: everything else", begin.elapsed().as_secs_f64());
    everything_else(&scene, &pids);
    println!("── {:.0} s: nobody leads", begin.elapsed().as_secs_f64());
    nobody_leads(&scene, &control);
    println!("── {:.0} s: the controller is gone", begin.elapsed().as_secs_f64());
    plane.kill_controller();
    prometheus.fire(&[("CarveControllerDown", "")]);
    plane.start_controller();
    prometheus.clear(&[("CarveControllerDown", "")]);
    drop(second_agent);
    scene.sums_up(spent);
    let pods = ["t1", "t2", "p1", "m1", "f1", "f2", "plain"];
    scene.delete(&pods);
    // An agent that goes before its claims are given back leaves them to whoever serves claims there next.
    agent.until("nothing is left of pods that are gone", || cluster.folders_of_pods("node0").is_empty());
    println!("── {:.0} s", begin.elapsed().as_secs_f64());
    agent.remove();
}

/// Processes of pods whose load is written down.
struct Pids {
    in_mig: (u32, (u32, u32)),
    mig_uuid: String,
    with_fraction: u32,
    over_mps: String,
    fractions: String,
}

/// Two that take turns, one over MPS, one in a MIG device, two with fractions.
fn pods_of_every_kind(scene: &Scene<'_>) -> Pids {
    let uuids: Vec<String> =
        scene.first.machine().gpus().expect("GPUs").into_iter().map(|gpu| gpu.uuid.0).collect();
    let mut turns = Ask::of("gpu").claim("turns");
    let expression = format!("device.attributes['gpu.carve.dev'].uuid == '{}'", uuids[0]);
    turns["spec"]["devices"]["requests"][0]["exactly"]["selectors"] =
        json!([{"cel": {"expression": expression}}]);
    turns["spec"]["devices"]["config"] = json!([{"opaque": {"driver": "gpu.carve.dev", "parameters": {
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
        "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}},
    }}}]);
    scene.namespace.apply(&turns.to_string());
    for pod in ["t1", "t2"] {
        scene.namespace.apply(&scene.first.claimant(pod, "turns").to_string());
    }
    scene.start("p1", &Ask::of("mps").share("20Gi", "30").on(&uuids[1]));
    let mig = Ask::profile("mig", "2g.35gb").on(&uuids[2]);
    scene.namespace.apply(&scene.first.claiming_pod("m1", &mig));
    for pod in ["f1", "f2"] {
        scene.start(pod, &Ask::of("fraction").share("4Gi", "20").on(&uuids[3]));
    }
    scene.run(&["t1", "t2", "p1", "m1", "f1", "f2"]);
    for (pod, percent) in [("t1", 30), ("t2", 20)] {
        scene.works(scene.pid(pod), 0, None, percent);
    }
    let migs = scene.first.machine().mig_devices(GpuIndex(2)).expect("MIG devices");
    let mig = migs.first().expect("a MIG device");
    let in_mig = (scene.pid("m1"), (mig.gpu_instance.0, mig.compute_instance.0));
    scene.works(in_mig.0, 2, Some(in_mig.1), 70);
    let with_fraction = scene.pid("f2");
    let mig_uuid = mig.uuid.0.clone();
    Pids { in_mig, mig_uuid, with_fraction, over_mps: uuids[1].clone(), fractions: uuids[3].clone() }
}

/// Before there is a controller, and an agent on the second node; claims that nobody can make ready.
fn without_controller(scene: &Scene<'_>, control: &Namespace) -> Option<ControlPlane> {
    let bad = ["bad1", "bad2", "bad3", "bad4"];
    let nonsense = json!({
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "Nonsense"},
    });
    for pod in bad {
        scene.start(pod, &Ask::of("fraction").share("1Gi", "5").config(nonsense.clone()));
    }
    let missing = [
        ("CarveAgentDown", "node=\"node1\""),
        ("CarveControllerDown", ""),
        ("CarveClaimsFailing", "node=\"node0\",verb=\"prepare\""),
    ];
    scene.prometheus.fire(&missing);
    scene.delete(&bad);
    let plane = ControlPlane::start(scene.cluster, control, "scheduler")?;
    scene.prometheus.clear(&missing[1..]);
    Some(plane)
}

fn wrong_and_right_configuration(scene: &Scene<'_>, binary: &std::path::Path) -> Background {
    let config: PathBuf = scene.second.files("config").join("config.yaml");
    let write = |text: &str| std::fs::write(&config, text).expect("a file");
    write(WRONG);
    let agent = scene.second_agent(binary, &config);
    let on_second = "node=\"node1\"";
    let refused = [("CarveAgentNotReady", on_second), ("CarveConfigRefused", on_second)];
    scene.prometheus.fire(&refused);
    scene.prometheus.clear(&[("CarveAgentDown", on_second)]);
    write(RIGHT);
    scene.prometheus.clear(&refused);
    let plain = scene.second.looking_pod("plain", "nvidia.com/gpu", 1);
    let plain = plain.spec("nodeSelector", json!({"kubernetes.io/hostname": "node1"}));
    scene.namespace.apply(&plain.manifest());
    scene.namespace.wait_for_phase("plain", "Running");
    agent
}

fn everything_else(scene: &Scene<'_>, pids: &Pids) {
    let Scene { cluster, namespace, prometheus, .. } = *scene;
    // ── faults ──
    // A GPU that is lost, and an error that is reported of another.
    let world = |act: &dyn Fn(&mut carve_gpu_host::SimulatedHost)| {
        scene.second.machine().change_world(|host| act(host)).expect("the machine");
    };
    world(&|host| host.lose(GpuIndex(1)));
    world(&|host| {
        host.raise(GpuEvent { gpu: GpuIndex(0), xid: 13, gpu_instance: None, compute_instance: None });
    });
    // A daemon that can not be started again.
    let program = scene.first.root().join("usr/bin/nvidia-cuda-mps-control");
    let aside = program.with_extension("aside");
    std::fs::rename(&program, &aside).expect("the program is put aside");
    std::fs::write(&program, "broken").expect("a program that does not run");
    cluster.on_node(&["pkill", "--signal", "KILL", "nvidia-cuda-mps"]);
    // A process that no share counts, and work that is held back.
    scene.works(pids.with_fraction, 3, None, 0);
    let exec = ["kubectl", "exec", "-n", namespace.name(), "f1", "--"];
    let work = [&exec[..], &["/usr/bin/env", "TAKES_PIECE=5000", "/takes-time", "600000"]].concat();
    let working = cluster.background(&work, &[]);
    // Somebody who holds a device and does nothing.
    scene.rests(pids.in_mig.0);
    // Pods that nobody has a place for, on two roads.
    namespace.apply(&scene.part("part", |_| ()));
    namespace.apply(&Pod::sleeping(cluster, "many").limit("nvidia.com/mig-7g.40gb", "8").manifest());
    // A policy that can not be promised, and a node that breaks a promise.
    let mut unbelievable = quarters("unbelievable", 8000);
    unbelievable["mig"] = json!({"mode": "Automatic"});
    scene.apply(&slice_policy("unbelievable", &unbelievable)).expect("a policy");
    scene.apply(&slice_policy("watched", &quarters("watched", 7000))).expect("a policy");
    let overlay = || cluster.get(&["nodeoverlays", "-l", "carve.dev/policy=watched"])["items"][0].clone();
    cluster.until("the overlay is written", PATIENCE, || overlay().is_object());
    let name = overlay()["metadata"]["name"].as_str().expect("a name").to_owned();
    let at = "2026-01-01T00:00:00Z";
    let ready = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": at},
    ]}});
    let patch = ["patch", "nodeoverlay", &name, "--subresource=status", "--type=merge", "-p"];
    cluster.kubectl(&[&patch[..], &[&ready.to_string()]].concat());
    cluster.until("the pool is made", PATIENCE, || !cluster.get(&["nodepool", "watched"]).is_null());
    let node = |gpus: &str| {
        let size = json!({"cpu": "4", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": gpus});
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "watched-0", "labels": {
                "karpenter.sh/nodepool": "watched", "node.kubernetes.io/instance-type": "g4dn.xlarge",
                "kubernetes.io/arch": "amd64", "karpenter.sh/capacity-type": "on-demand",
            }},
            "status": {"capacity": size, "allocatable": size},
        })
    };
    scene.apply(&node("2")).expect("a node");
    let report = |gpus: &str| {
        let patch = ["patch", "node", "watched-0", "--subresource=status", "--type=merge", "-p"];
        cluster.kubectl(&[&patch[..], &[&node(gpus).to_string()]].concat());
    };
    report("2");
    // Last what is over soon: memory that is refused, and a layout that nobody can cut.
    for _ in 0..8 {
        namespace.exec("f2", &["/takes-memory"]);
    }
    cluster.label("node1", "nvidia.com/mig.config", "no-such-layout");

    // ── what is said of them ──
    let (held, shared, mps) = (
        format!("uuid=\"{}\",namespace=\"{}\"", pids.mig_uuid, namespace.name()),
        format!("uuid=\"{}\"", pids.fractions),
        format!("uuid=\"{}\"", pids.over_mps),
    );
    let alerts = [
        ("CarveGpuWithheld", "node=\"node1\",gpu=\"1\""),
        ("CarveCuttingFailed", "node=\"node1\""),
        ("CarveMpsNotReady", &mps),
        ("CarveProcessesEscaped", &shared),
        ("CarveMemoryRefused", "pod=\"f2\""),
        ("CarveThrottledOnIdleGpu", "pod=\"f1\""),
        ("CarveGpuHeldIdle", &held),
        ("CarvePodsWaiting", "road=\"scheduler\""),
        ("CarvePodsWaiting", "road=\"devices\""),
        ("CarvePolicyNotProvisioned", "policy=\"unbelievable\""),
        ("CarvePromiseBroken", "policy=\"watched\""),
        ("CarvePriceUnknown", "node=\"node1\""),
    ];
    prometheus.fire(&alerts);
    scene.dashboards_answer();
    scene.rules_record();

    // ── put right ──
    std::fs::rename(&aside, &program).expect("the program is back");
    world(&|host| host.find_again(GpuIndex(1)));
    cluster.kubectl(&["label", "node", "node1", "nvidia.com/mig.config-"]);
    scene.rests(pids.with_fraction);
    cluster.on_node(&["pkill", "--signal", "KILL", "-f", "^/takes-time"]);
    drop(working);
    scene.works(pids.in_mig.0, 2, Some(pids.in_mig.1), 70);
    scene.delete(&["many"]);
    std::fs::write(scene.prices(), "* 3.20\n").expect("a file");
    cluster.kubectl(&["delete", "slicepolicy", "unbelievable"]);
    report("4");
    prometheus.clear(&alerts);
}

/// Somebody else holds the Lease, and lets it go again.
fn nobody_leads(scene: &Scene<'_>, control: &Namespace) {
    let patch = |holder: &str, seconds: u32| {
        let renewed = scene.cluster.on_node(&["date", "-u", "+%Y-%m-%dT%H:%M:%S.000000Z"]);
        let spec = json!({"spec": {
            "holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed.trim(),
        }});
        let words = ["patch", "lease", "carve-controller", "-n", control.name(), "--type=merge", "-p"];
        scene.cluster.kubectl(&[&words[..], &[&spec.to_string()]].concat());
    };
    patch("somebody", 3600);
    scene.prometheus.fire(&[("CarveNoLeader", "")]);
    scene.cluster.kubectl(&["delete", "lease", "carve-controller", "-n", control.name()]);
    scene.prometheus.clear(&[("CarveNoLeader", "")]);
}
