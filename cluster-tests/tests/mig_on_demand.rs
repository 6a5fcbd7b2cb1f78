//! Pods that wait for MIG devices get them: every node is cut anew when the mix changes, nobody asks for it, and what is in use stays.

use carve_cluster_tests::{Background, Cluster, GpuNode, Namespace, PATIENCE, Pod};
use carve_gpu_host::GpuHost;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Two A100s for each node.
const MACHINE: &str = "a100-40gb:2";

/// What is applied, waited for and told when it goes wrong.
struct Scene<'a> {
    cluster: &'a Cluster,
    namespace: &'a Namespace,
    programs: Vec<Background>,
}

impl Scene<'_> {
    fn deploy(&self, name: &str, profile: &str, replicas: usize) {
        let pod = Pod::sleeping(self.cluster, name).limit(&format!("nvidia.com/mig-{profile}"), "1");
        self.namespace.apply(&pod.deployment(replicas));
    }

    fn running(&self, name: &str) -> Vec<Value> {
        let pods = self.namespace.get(&["pods", "-l", &format!("app={name}")]);
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        pods.into_iter()
            .filter(|pod| {
                pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
            })
            .collect()
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let more = || {
            let heard: Vec<String> = self.programs.iter().map(Background::heard).collect();
            let last = |text: &String| text.lines().rev().take(30).collect::<Vec<_>>().join("\n");
            let plans = self.cluster.try_kubectl(&["get", "sliceplans", "-o", "yaml"], None);
            let plans = plans.unwrap_or_else(|error| error);
            format!("{plans}\n{}", heard.iter().map(last).collect::<Vec<_>>().join("\n──\n"))
        };
        self.cluster.until_or(what, PATIENCE, holds, more);
    }

    /// Deploys and tells how long the first pod and all pods took.
    fn first_and_all(&self, name: &str, profile: &str, replicas: usize) -> (Duration, Duration) {
        let start = Instant::now();
        self.deploy(name, profile, replicas);
        self.until(&format!("a pod with {profile} runs"), || !self.running(name).is_empty());
        let first = start.elapsed();
        let all = || self.running(name).len() == replicas;
        self.until(&format!("{replicas} pods with {profile} run"), all);
        (first, start.elapsed())
    }

    fn remove(&self, name: &str) {
        self.cluster.kubectl(&["delete", "deployment", name, "-n", self.namespace.name()]);
        let none = || {
            let pods = self.namespace.get(&["pods", "-l", &format!("app={name}")]);
            pods["items"].as_array().is_some_and(Vec::is_empty)
        };
        self.until(&format!("{name} is gone"), none);
    }

    /// The MIG device of every pod of a Deployment, as its container was told, and how often it was started again.
    fn devices(&self, name: &str) -> BTreeMap<String, (String, u64)> {
        let pods = self.running(name).into_iter().map(|pod| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let device = self.namespace.env(&name, "NVIDIA_VISIBLE_DEVICES").unwrap_or_default();
            let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(u64::MAX);
            (name, (device, restarts))
        });
        pods.collect()
    }
}

/// Every MIG device of the nodes.
fn present(nodes: &[GpuNode]) -> Vec<String> {
    let mut devices = Vec::new();
    for node in nodes {
        let machine = node.machine();
        for gpu in machine.gpus().expect("GPUs") {
            let found = machine.mig_devices(gpu.index).unwrap_or_default();
            devices.extend(found.into_iter().map(|device| device.uuid.0));
        }
    }
    devices
}

#[test]
fn the_mix_changes_and_every_pod_runs() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(first) = GpuNode::new(&cluster, "on-demand", MACHINE) else { return };
    let others = cluster.nodes().into_iter().skip(1).map(|name| first.beside(&name, MACHINE));
    let others: Vec<GpuNode> = others.map(|node| node.expect("stand-ins")).collect();
    let nodes: Vec<GpuNode> = std::iter::once(first).chain(others).collect();
    for (_, definition) in carve_slice_policy::definitions() {
        let text = serde_json::to_string(&definition).expect("a definition");
        cluster.try_kubectl(&["apply", "-f", "-"], Some(&text)).expect("the API server takes the definition");
    }
    let namespace = cluster.namespace("on-demand");
    let binary = Path::new(env!("CARGO_BIN_EXE_repartition_controller"));
    let carve = binary.parent().expect("a folder").join("carve");
    // By environment, so that a container can be asked which device it has.
    let settings =
        [("MIG_STRATEGY", "mixed"), ("CARVE_PROBE_SECONDS", "1"), ("DEVICE_LIST_STRATEGY", "envvar")];
    let mut programs: Vec<Background> =
        nodes.iter().map(|node| node.agent_as_process(&namespace, &carve, &settings)).collect();
    for replica in ["one", "two"] {
        programs.push(cluster.background(&[&binary.display().to_string(), replica], &[]));
    }
    let scene = Scene { cluster: &cluster, namespace: &namespace, programs };
    let policy = |spec: Value| {
        let text = json!({"apiVersion": "carve.dev/v1alpha1", "kind": "SlicePolicy",
            "metadata": {"name": "on-demand"}, "spec": spec})
        .to_string();
        cluster.try_kubectl(&["apply", "-f", "-"], Some(&text))
    };
    // What one field alone can not say is refused by the API server itself.
    let refused = policy(json!({"mig": {"mode": "Manual", "switchModeOn": true}}));
    assert!(refused.is_err_and(|why| why.contains("write DryRun or Automatic")));

    // First it only shows what it would do.
    let mut spec = json!({
        "mig": {"mode": "DryRun", "switchModeOn": true},
        "budgets": {"nodesAtOnce": nodes.len(), "pauseSeconds": 5},
    });
    policy(spec.clone()).expect("the policy is taken");
    let keepers = 2;
    let start = Instant::now();
    scene.deploy("keeper", "1g.5gb", keepers);
    let phases = || {
        let plans = cluster.get(&["sliceplans"]);
        let plans = plans["items"].as_array().cloned().unwrap_or_default();
        plans.iter().filter_map(|plan| Some(plan["status"]["phase"].as_str()?.to_owned())).collect::<Vec<_>>()
    };
    scene.until("a plan is shown", || phases().contains(&"Proposed".to_owned()));
    assert!(present(&nodes).is_empty(), "and nothing is cut");
    println!("a dry run showed its plan after {:.1} s", start.elapsed().as_secs_f64());
    spec["mig"]["mode"] = "Automatic".into();
    policy(spec).expect("the policy is taken");
    scene.until("the first pods run", || scene.running("keeper").len() == keepers);
    let kept = scene.devices("keeper");
    assert!(kept.values().all(|(device, _)| device.starts_with("MIG-")), "{kept:?}");

    // Seven fit on a GPU; two are taken.
    let small = nodes.len() * 2 * 7 - keepers;
    let (first, all) = scene.first_and_all("small", "1g.5gb", small);
    println!(
        "1g.5gb: first pod after {:.1} s, all {small} after {:.1} s",
        first.as_secs_f64(),
        all.as_secs_f64()
    );
    assert_eq!(present(&nodes).len(), small + keepers);
    scene.remove("small");

    // Two fit on a GPU; the keepers leave room for at least one on theirs.
    let large = (nodes.len() * 2 - 1) * 2;
    let (first, all) = scene.first_and_all("large", "3g.20gb", large - 1);
    println!(
        "3g.20gb: first pod after {:.1} s, all {} after {:.1} s",
        first.as_secs_f64(),
        large - 1,
        all.as_secs_f64()
    );
    assert_eq!(scene.devices("keeper"), kept, "what is in use is what it was, and nothing was started again");
    let there = present(&nodes);
    assert!(kept.values().all(|(device, _)| there.contains(device)));
    scene.remove("large");

    let (first, all) = scene.first_and_all("again", "1g.5gb", small);
    println!(
        "1g.5gb: first pod after {:.1} s, all {small} after {:.1} s",
        first.as_secs_f64(),
        all.as_secs_f64()
    );
    assert_eq!(scene.devices("keeper"), kept);

    // One more does not fit anywhere, and is told why.
    scene.deploy("late", "3g.20gb", 1);
    let told = || {
        let events = scene.namespace.get(&["events", "--field-selector=reason=NotCut"]);
        events["items"].to_string().contains("instances in use leave no room")
    };
    scene.until("a pod is told why nothing is cut for it", told);
    let (policy, plans) = (cluster.get(&["slicepolicy", "on-demand"]), phases());
    assert_eq!(policy["status"]["nodes"], nodes.len(), "{policy:#}");
    assert_eq!(policy["status"]["conditions"][0]["status"], "True", "{policy:#}");
    assert!(plans.iter().all(|phase| phase == "Done"), "{plans:?}");
    println!("{}", cluster.kubectl(&["get", "sliceplans,slicepolicies"]));
    for node in cluster.nodes() {
        let labels = &cluster.get(&["node", &node])["metadata"]["labels"];
        assert!(labels["nvidia.com/mig.config"].is_null(), "nobody asked for a config");
    }
    drop(scene);
    cluster.kubectl(&["delete", "slicepolicies,sliceplans", "--all"]);
    for node in &nodes {
        let words = ["annotate", "node", node.name(), "carve.dev/mig.plan-", "carve.dev/mig.gpus-"];
        cluster.kubectl(&words);
    }
}
