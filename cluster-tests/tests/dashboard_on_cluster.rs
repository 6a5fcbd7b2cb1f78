//! The dashboard in front of a real cluster: what people see is what the cluster has and what agents measure, and who does not answer is said.

use carve_cluster_tests::{
    AgentOnNode, Cluster, ControlPlane, GpuNode, Namespace, PATIENCE, Pod, TAKING, import_taking,
    limiter_library,
};
use carve_gpu_host::GpuHost;
use carve_gpu_model::{Bytes, ComputeInstanceId, GpuIndex};
use serde_json::{Value, json};

const GIB: u64 = 1 << 30;

/// Everything that runs.
struct Scene<'a> {
    cluster: &'a Cluster,
    tenants: &'a Namespace,
    agent: &'a AgentOnNode<'a>,
    plane: &'a ControlPlane,
}

impl Scene<'_> {
    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let more = || format!("{}\n{}\n{:#}", self.plane.said(), self.agent.log(), self.plane.picture());
        self.cluster.until_or(what, PATIENCE, holds, more);
    }

    /// What is seen of a pod: the GPU, and its slice of it.
    fn slice(&self, pod: &str) -> Option<(Value, Value)> {
        let name = format!("{}/{pod}", self.tenants.name());
        let picture = self.plane.picture();
        let gpus = picture["nodes"]["node0"]["gpus"].as_array()?.clone();
        gpus.into_iter().find_map(|gpu| {
            let slice = gpu["slices"].as_array()?.iter().find(|slice| slice["pod"] == name.as_str())?.clone();
            Some((gpu, slice))
        })
    }

    fn sees(&self, pod: &str, what: &str, holds: impl Fn(&Value, &Value) -> bool) -> (Value, Value) {
        self.until(&format!("{pod}: {what}"), || {
            self.slice(pod).is_some_and(|(gpu, slice)| holds(&gpu, &slice))
        });
        self.slice(pod).unwrap_or_else(|| panic!("{pod} was there a moment ago"))
    }
}

/// A pod with programs that take memory and time, which asks for this.
fn pod(cluster: &Cluster, node: &GpuNode, name: &str, limits: Value) -> String {
    let folder = node.machine_folder().display().to_string();
    Pod::sleeping(cluster, name)
        .spec("volumes", json!([{"name": "machine", "hostPath": {"path": folder}}]))
        .container("image", TAKING.into())
        .container("resources", json!({"limits": limits}))
        .container("volumeMounts", json!([{"name": "machine", "mountPath": "/machine"}]))
        .container(
            "env",
            json!([{"name": "CARVE_SIM_STATE", "value": "/machine/machine.json"}, {"name": "CARVE_SIM_DEV", "value": "/dev"}]),
        )
        .manifest()
}

fn import_programs(cluster: &Cluster) {
    import_taking(cluster, env!("CARGO_BIN_EXE_takes_memory"), env!("CARGO_BIN_EXE_takes_time"));
}

#[test]
fn parts_are_seen_as_they_were_decided_and_used() {
    let (Some(cluster), Some(library)) = (Cluster::connect(), limiter_library()) else { return };
    let Some(node) = GpuNode::new(&cluster, "seen", "a100-40gb:2") else { return };
    import_programs(&cluster);
    let (namespace, tenants) = (cluster.namespace("seen"), cluster.namespace("seen-tenants"));
    let library = library.display().to_string();
    let agent = node.start_agent(&namespace, &[("CARVE_SLICES", "true"), ("CARVE_LIMITER", &library)]);
    let Some(plane) = ControlPlane::start_with_dashboard(&cluster, &namespace, "scheduler") else { return };
    agent.offers("carve.dev/slice", 32);
    let scene = Scene { cluster: &cluster, tenants: &tenants, agent: &agent, plane: &plane };
    let part = |memory: &str, compute: &str| json!({"carve.dev/gpu-memory": memory, "carve.dev/gpu-compute": compute});
    for (name, limits) in [
        ("small", part("4096", "20")),
        ("half", part("20000", "50")),
        ("large", part("40000", "90")),
        ("late", part("40000", "95")),
    ] {
        tenants.apply(&pod(&cluster, &node, name, limits));
    }
    for name in ["small", "half"] {
        scene.until(&format!("{name} runs"), || tenants.phase(name) == "Running");
        // What is seen is what was written when it was bound.
        let (gpu, slice) = scene.sees(name, "it is seen", |_, _| true);
        let bound = tenants.get(&["pod", name]);
        let text = bound["metadata"]["annotations"]["carve.dev/slices"].as_str().unwrap_or("null").to_owned();
        let written: Value = serde_json::from_str(&text).expect("slices");
        let written = &written["containers"][0]["slices"][0];
        assert_eq!(gpu["uuid"], written["gpu"], "{slice:#}");
        assert_eq!(
            (&slice["memory"], &slice["mechanism"]),
            (&written["memory"], &"limiter".into()),
            "{slice:#}"
        );
        let compute = slice["compute"].as_f64().expect("a promise") * 1000.0;
        assert_eq!(compute.round() as u64, written["compute"].as_u64().expect("a part"));
        assert_eq!(slice["workload"], format!("Pod/{name}"));
    }

    // Of the two large ones at least one waits, for the reason that the scheduler has written.
    let waits = || {
        let picture = plane.picture();
        let waiting = picture["waiting"].as_object().cloned().unwrap_or_default();
        waiting
            .into_iter()
            .find(|(_, one)| one["why"].as_str().is_some_and(|why| why.contains("nodes are available")))
    };
    scene.until("somebody waits", || waits().is_some());
    let (name, waiting) = waits().expect("it waits");
    let name = name.rsplit('/').next().expect("a name").to_owned();
    let conditions = tenants.get(&["pod", &name])["status"]["conditions"].clone();
    let said =
        conditions.as_array().and_then(|all| all.iter().find(|one| one["type"] == "PodScheduled").cloned());
    assert_eq!(said.expect("a condition")["message"], waiting["why"]);
    assert!(waiting["asks"].as_str().is_some_and(|asks| asks.contains("40000 MiB")), "{waiting:#}");

    // What a program does arrives, and whoever listens hears of it.
    let words = ["kubectl", "exec", "-n", tenants.name(), "small", "--"];
    let program = ["/usr/bin/env", "TAKES_PIECE=5000", "/takes-time", "60000"];
    let working = cluster.background(&[&words[..], &program].concat(), &[]);
    let used = |_: &Value, slice: &Value| slice["computeUsed"].as_f64().is_some_and(|used| used > 0.05);
    let (_, slice) = scene.sees("small", "what it uses is told", used);
    assert_eq!(slice["how"], "limiter", "{slice:#}");
    assert!(slice["computeUsed"].as_f64() <= Some(0.3), "it is held to a fifth: {slice:#}");
    let heard = plane.hears_changes(3);
    assert!(heard.contains("\"gpu\"") || heard.contains("\"node\""), "{heard}");
    drop(working);

    // What the page asks beside the picture, by which it lists what makes pods.
    let answer = |path: &str| plane.dashboard(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let workloads = answer("/api/v1/workloads");
    let small = workloads["items"].as_array().into_iter().flatten().find(|one| one["name"] == "small");
    assert_eq!(small.map(|one| &one["running"]), Some(&1.into()), "{workloads:#}");
    assert_eq!(answer("/api/v1/node?name=node0")["name"], "node0");
    assert!(answer("/api/v1/advice")["items"].is_array());

    // In the terminal; controller_installed.rs does it through the API server.
    let told = plane.top();
    println!("{told}");
    for words in
        ["node0:0", "node0:1", "/small/main", "/half/main", "limiter", "WAITING", &format!("/{name}  ")]
    {
        assert!(told.contains(words), "{words}: {told}");
    }

    // An agent that stands still is said, and what it had told stays; then it goes on.
    agent.signal("STOP");
    let node_says = || plane.picture()["nodes"]["node0"].clone();
    scene.until("its silence is said", || node_says()["ready"] == false);
    let shown = node_says();
    assert!(shown["why"].as_str().is_some_and(|why| why.contains("its agent does not answer")), "{shown:#}");
    let (_, slice) = scene.sees("half", "it stays", |_, _| true);
    assert!(slice["computeUsed"].is_null() && slice["memory"] == 20_000, "{slice:#}");
    let told = plane.top();
    assert!(told.contains("NODES\n  node0  not ready: its agent does not answer"), "{told}");
    agent.signal("CONT");
    scene.until("it answers again", || node_says()["ready"] == true);
    let happened = plane.picture()["happenings"].to_string();
    for reason in ["AgentSilent", "AgentAnswers", "Validated"] {
        assert!(happened.contains(reason), "{reason}: {happened}");
    }

    // Who is gone is not seen any more.
    cluster.kubectl(&["delete", "pod", "half", "-n", tenants.name(), "--grace-period=0", "--force"]);
    scene.until("half is gone", || scene.slice("half").is_none());
    drop(plane);
    agent.remove();
}

#[test]
fn devices_are_seen_with_their_instances() {
    let Some(cluster) = Cluster::connect() else { return };
    // A driver tells how busy MIG devices are on Hopper and later.
    const MACHINE: &str = "h200-141gb:2";
    let Some(node) = GpuNode::new(&cluster, "seen-mig", MACHINE) else { return };
    node.cut_anew(MACHINE, &[(1, "3g.71gb"), (1, "1g.18gb")]);
    import_programs(&cluster);
    let (namespace, tenants) = (cluster.namespace("seen-mig"), cluster.namespace("seen-mig-tenants"));
    let agent = node.start_agent(&namespace, &[("MIG_STRATEGY", "mixed")]);
    let Some(plane) = ControlPlane::start_with_dashboard(&cluster, &namespace, "claims") else { return };
    agent.offers("nvidia.com/mig-3g.71gb", 1);
    let scene = Scene { cluster: &cluster, tenants: &tenants, agent: &agent, plane: &plane };
    tenants.apply(&pod(&cluster, &node, "whole", json!({"nvidia.com/gpu": "1"})));
    let cut = pod(&cluster, &node, "cut", json!({"nvidia.com/mig-3g.71gb": "1"}));
    tenants.apply(&cut);
    let (_, slice) = scene.sees("whole", "it is seen", |_, _| true);
    assert_eq!((&slice["mechanism"], &slice["compute"]), (&"exclusive".into(), &1.0.into()), "{slice:#}");
    let (gpu, slice) = scene.sees("cut", "it is seen", |_, _| true);
    assert_eq!((&gpu["index"], &gpu["slots"]), (&1.into(), &8.into()), "{gpu:#}");

    // Instances are where the driver has them.
    let mut machine = node.machine();
    let placed = machine.gpu_instances(GpuIndex(1)).expect("instances");
    let instances = gpu["instances"].as_array().expect("instances");
    let mut seen: Vec<(u64, u64)> = instances
        .iter()
        .map(|one| (one["start"].as_u64().unwrap_or(99), one["size"].as_u64().unwrap_or(99)))
        .collect();
    let mut there: Vec<(u64, u64)> =
        placed.iter().map(|one| (one.placement.start.into(), one.placement.size.into())).collect();
    seen.sort_unstable();
    there.sort_unstable();
    assert_eq!(seen, there, "{gpu:#}");
    let own = instances.iter().find(|one| one["uuid"] == slice["instance"]).expect("its own");
    assert_eq!(own["profile"], "3g.71gb");

    // Seven tenths of three sevenths are measured.
    scene.until("it runs", || tenants.phase("cut") == "Running");
    let status = tenants.get(&["pod", "cut"]);
    let id = status["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default().to_owned();
    let id = id.rsplit('/').next().unwrap_or_default();
    let script = format!("grep -l {id} /proc/[0-9]*/cgroup | head -1 | cut -d/ -f3");
    let pid: u32 = cluster.on_node(&["sh", "-c", &script]).trim().parse().expect("a process");
    let large = placed.iter().find(|one| one.placement.size == 4).expect("the large one").id;
    let inside = Some((large, ComputeInstanceId(0)));
    let works = machine.change_world(|host| host.start_process(GpuIndex(1), inside, pid, Bytes(2 * GIB), 70));
    works.expect("the machine").expect("a process on the GPU");
    let used = |_: &Value, slice: &Value| {
        slice["computeUsed"].as_f64().is_some_and(|used| (used - 0.3).abs() < 0.02)
            && slice["memoryUsed"] == 2_048
    };
    let (_, slice) = scene.sees("cut", "what it uses is told", used);
    assert_eq!(slice["how"], "measured", "{slice:#}");
    let told = plane.top();
    assert!(told.contains("MIG 3g.71gb") && told.contains("/whole/main"), "{told}");
    machine.change_world(|host| host.end_process(pid)).expect("the machine");
    drop(plane);
    agent.remove();
}
