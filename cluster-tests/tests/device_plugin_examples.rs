//! The manifests of `examples/agent`, applied as people apply them: only the image and the places of the simulated driver
//! are others.

use carve_cluster_tests::{Cluster, GpuNode, PATIENCE, stand_ins};
use serde_json::{Value, json};
use std::path::PathBuf;

const GPU: &str = "nvidia.com/gpu";

fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/agent").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of all manifests; a new one is applied without this test being told of it.
fn examples() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/agent");
    let files = std::fs::read_dir(folder).expect("the examples").flatten();
    let mut names: Vec<String> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".yaml"));
    names.sort();
    names
}

/// The element of a list that has a name; that there is one is part of what is tested.
fn named<'a>(list: &'a mut Value, name: &str) -> &'a mut Value {
    let shown = list.to_string();
    let found = list.as_array_mut().and_then(|all| all.iter_mut().find(|one| one["name"] == name));
    found.unwrap_or_else(|| panic!("the example has no {name}: {shown}"))
}

/// The DaemonSet of the examples for a node whose driver is simulated: other image, other paths, and the machine.
fn daemon_set(cluster: &Cluster, node: &GpuNode) -> String {
    let mut set: Value = serde_saphyr::from_str(&example("daemonset.yaml")).expect("the example is YAML");
    let root = node.root().display().to_string();
    let config = cluster.containerd_config();
    let spec = &mut set["spec"]["template"]["spec"];
    let volumes = &mut spec["volumes"];
    named(volumes, "driver")["hostPath"]["path"] = root.clone().into();
    named(volumes, "containerd")["hostPath"]["path"] =
        config.parent().map(|path| path.display().to_string()).into();
    let machine = json!({"name": "machine", "hostPath": {"path": node.machine_folder()}});
    volumes.as_array_mut().expect("volumes").push(machine);
    let container = &mut spec["containers"][0];
    container["image"] = cluster.carve_image().into();
    named(&mut container["env"], "NVIDIA_DRIVER_ROOT")["value"] = root.clone().into();
    let file = config.file_name().unwrap_or_default().to_string_lossy();
    let more = [
        ("NVIDIA_DEV_ROOT", root),
        ("CONTAINERD_CONFIG", format!("/etc/containerd/{file}")),
        ("CARVE_SIM_STATE", "/machine/machine.json".to_owned()),
        // Below the cgroup of the lab's node, which goes with the lab.
        ("CARVE_MPS_CGROUP", format!("{}/carve-mps", cluster.cgroup())),
    ];
    let env = container["env"].as_array_mut().expect("variables");
    env.extend(more.map(|(name, value)| json!({"name": name, "value": value})));
    let mounts = container["volumeMounts"].as_array_mut().expect("mounts");
    mounts.push(json!({"name": "machine", "mountPath": "/machine"}));
    set.to_string()
}

/// Takes everything of the examples away, whatever becomes of the test.
struct Applied<'a>(&'a Cluster);

impl Drop for Applied<'_> {
    fn drop(&mut self) {
        for label in ["carve.dev/agent", "nvidia.com/device-plugin.config", "nvidia.com/mig.config"] {
            let _ = self.0.try_kubectl(&["label", "node", "node0", &format!("{label}-")], None);
        }
        let rbac = example("rbac.yaml");
        let _ = self.0.try_kubectl(&["delete", "--ignore-not-found", "-f", "-"], Some(&rbac));
        let words = ["delete", "namespace", "carve", "--ignore-not-found", "--timeout=60s"];
        let _ = self.0.try_kubectl(&words, None);
        // The record of a layout is made true again by the next agent that has this folder.
        self.0.on_node(&["sh", "-c", "rm -f /var/lib/carve/mig* /var/lib/carve/agent.json"]);
    }
}

/// `carve cost` asks the agent through the API server: one of eight GPUs is the pod's, and the rest nobody's.
fn is_paid_for(cluster: &Cluster, namespace: &str) {
    cluster.label("node0", "node.kubernetes.io/instance-type", "p4d.24xlarge");
    let carve = stand_ins().expect("they are built").join("carve");
    let script =
        format!("KUBECONFIG={} {} cost --by workload -o json 2>&1", cluster.kubeconfig(), carve.display());
    let asked = || cluster.on_node(&["sh", "-c", &script]);
    let name = format!("{namespace}/Pod/looker");
    let row = |report: &Value| {
        let rows = report["rows"].as_array().cloned().unwrap_or_default();
        rows.into_iter().find(|row| row["name"] == *name)
    };
    let report = || serde_json::from_str::<Value>(&asked()).unwrap_or_default();
    let paid = || row(&report()).is_some_and(|row| row["total"].as_f64() > Some(0.0));
    cluster.until_or("the pod is paid for", PATIENCE, paid, asked);
    let report = report();
    assert_eq!(report["nodes"]["node0"]["source"], "AWS us-east-1 on demand, 2026-07-20", "{report:#}");
    let total = report["total"]["total"].as_f64().expect("a number");
    let pod = row(&report).expect("it pays")["total"].as_f64().expect("a number");
    assert!(pod < total / 8.0 + 1e-9, "an eighth, while it was there: {report:#}");
    let sum: f64 =
        report["rows"].as_array().into_iter().flatten().filter_map(|row| row["total"].as_f64()).sum();
    assert!((sum - total).abs() < 1e-6, "{report:#}");
    let _ = cluster.try_kubectl(&["label", "node", "node0", "node.kubernetes.io/instance-type-"], None);
}

#[test]
fn the_examples_work_as_the_documentation_says() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "examples", "p4d.24xlarge") else { return };
    let namespace = cluster.namespace("examples");
    let apply = |manifest: &str| {
        let applied = cluster.try_kubectl(&["apply", "-f", "-"], Some(manifest));
        applied.unwrap_or_else(|error| panic!("kubectl apply: {error}\n{manifest}"));
    };
    // What an interrupted run left behind.
    drop(Applied(&cluster));
    let _applied = Applied(&cluster);
    apply(&example("namespace.yaml"));
    for name in examples() {
        match name.as_str() {
            "daemonset.yaml" => apply(&daemon_set(&cluster, &node)),
            _ => apply(&example(&name)),
        }
    }
    let log = || {
        let words = ["logs", "-n", "carve", "daemonset/carve-agent", "--tail=60"];
        cluster.try_kubectl(&words, None).unwrap_or_else(|error| error)
    };
    let until = |what: &str, holds: &dyn Fn() -> bool| cluster.until_or(what, PATIENCE, holds, log);
    let offers = |wanted: &[(&str, u64)]| {
        let all = || wanted.iter().all(|(name, count)| cluster.allocatable(name).unwrap_or(0) == *count);
        until(&format!("the node offers {wanted:?}"), &all);
    };
    let set = || cluster.get(&["-n", "carve", "daemonset", "carve-agent"])["status"].clone();
    until("no node has the label yet", &|| set()["desiredNumberScheduled"] == 0);
    cluster.label("node0", "carve.dev/agent", "true");
    until("the agent is ready", &|| set()["numberReady"] == 1);
    offers(&[(GPU, 8)]);

    namespace.apply(&node.looking_pod("looker", GPU, 1).manifest());
    namespace.wait_for_phase("looker", "Running");
    let seen = namespace.exec("looker", &["/carve", "gpus", "-o", "json"]);
    let seen: Value = serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{error}: {seen}"));
    assert_eq!(seen["gpus"].as_array().map(Vec::len), Some(1), "its own GPU and no other: {seen:#}");
    is_paid_for(&cluster, namespace.name());
    cluster.kubectl(&["delete", "pod", "looker", "-n", namespace.name()]);

    let choose = |name: &str| cluster.label("node0", "nvidia.com/device-plugin.config", name);
    choose("time-slicing-4");
    offers(&[(GPU, 32)]);
    choose("exclusive");
    offers(&[(GPU, 8)]);
    choose("mps-4");
    offers(&[(GPU, 32)]);
    choose("exclusive");
    offers(&[(GPU, 8)]);
    let daemons = || cluster.on_node(&["pgrep", "-f", "nvidia-cuda-mps-control -f"]).lines().count();
    until("the MPS daemons end", &|| daemons() == 0);

    cluster.label("node0", "nvidia.com/mig.config", "one-whole");
    offers(&[
        (GPU, 1),
        ("nvidia.com/mig-1g.5gb", 14),
        ("nvidia.com/mig-2g.10gb", 7),
        ("nvidia.com/mig-3g.20gb", 7),
    ]);
}
