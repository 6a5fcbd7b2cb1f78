//! Pods that wait for MIG devices get them: every node is cut anew when the mix changes, nobody asks for it, and what is in use stays.

use carve_cluster_tests::{Background, Cluster, ControlPlane, GpuNode, Namespace, PATIENCE, Pod};
use carve_gpu_host::GpuHost;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Two A100s for each node.
const MACHINE: &str = "a100-40gb:2";

/// What is applied, waited for and told when it goes wrong.
struct Scene<'a> {
    cluster: &'a Cluster,
    namespace: &'a Namespace,
    programs: Vec<Background>,
    plane: &'a ControlPlane,
}

impl Scene<'_> {
    fn deploy(&self, name: &str, profile: &str, replicas: usize) {
        self.namespace.apply(&self.pod(name, profile).deployment(replicas));
    }

    fn pod(&self, name: &str, profile: &str) -> Pod {
        Pod::sleeping(self.cluster, name).limit(&format!("nvidia.com/mig-{profile}"), "1")
    }

    /// One pod on the first node, which runs when this returns.
    fn on_first(&self, name: &str, profile: &str) {
        let pod = self.pod(name, profile).spec("nodeSelector", json!({"kubernetes.io/hostname": "node0"}));
        self.namespace.apply(&pod.deployment(1));
        self.until(&format!("{name} runs"), || self.running(name).len() == 1);
    }

    /// Makes this the policy, or tells why it is refused.
    fn policy(&self, spec: &Value) -> Result<String, String> {
        let text = json!({"apiVersion": "carve.dev/v1beta1", "kind": "SlicePolicy",
            "metadata": {"name": "on-demand"}, "spec": spec})
        .to_string();
        self.cluster.try_kubectl(&["apply", "-f", "-"], Some(&text))
    }

    fn told(&self, reason: &str, words: &str) -> bool {
        let events = self.namespace.get(&["events", &format!("--field-selector=reason={reason}")]);
        events["items"].to_string().contains(words)
    }

    fn phases(&self) -> Vec<String> {
        let plans = self.cluster.get(&["sliceplans"]);
        let plans = plans["items"].as_array().cloned().unwrap_or_default();
        plans.iter().filter_map(|plan| Some(plan["status"]["phase"].as_str()?.to_owned())).collect()
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
            let agents = self.programs.iter().map(Background::heard);
            let heard: Vec<String> = agents.chain([self.plane.said()]).collect();
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
    let Some(nodes) = GpuNode::everywhere(&cluster, "on-demand", MACHINE) else { return };
    for (_, definition) in carve_slice_policy::definitions() {
        let text = serde_json::to_string(&definition).expect("a definition");
        cluster.try_kubectl(&["apply", "-f", "-"], Some(&text)).expect("the API server takes the definition");
    }
    let namespace = cluster.namespace("on-demand");
    let own = cluster.namespace("on-demand-control");
    let Some(plane) = ControlPlane::start_replicas(&cluster, &own, 2) else { return };
    let carve = plane.binary();
    // By environment, so that a container can be asked which device it has.
    let settings =
        [("MIG_STRATEGY", "mixed"), ("CARVE_PROBE_SECONDS", "1"), ("DEVICE_LIST_STRATEGY", "envvar")];
    let programs = nodes.iter().map(|node| node.agent_as_process(&namespace, carve, &settings)).collect();
    let scene = Scene { cluster: &cluster, namespace: &namespace, programs, plane: &plane };
    is_refused(&scene);
    is_shared(&scene);
    let kept = is_shown_and_then_done(&scene, &nodes);
    changes(&scene, &nodes, &kept);
    moves(&scene, &nodes);
    for node in cluster.nodes() {
        let labels = &cluster.get(&["node", &node])["metadata"]["labels"];
        assert!(labels["nvidia.com/mig.config"].is_null(), "nobody asked for a config");
    }
    drop(scene);
    cluster.kubectl(&["delete", "slicepolicies,sliceplans", "--all"]);
    for node in &nodes {
        let ours = ["carve.dev/mig.plan-", "carve.dev/mig.gpus-", "carve.dev/device-plugin.config-"];
        cluster.kubectl(&[&["annotate", "node", node.name()][..], &ours].concat());
    }
}

/// What one field alone can not say is refused by the API server itself.
fn is_refused(scene: &Scene<'_>) {
    for (spec, why) in [
        (json!({"mig": {"mode": "Manual", "switchModeOn": true}}), "write DryRun or Automatic"),
        (json!({"mig": {"mode": "Automatic"}, "defragmentation": {"enabled": true}}), "podsEvictedAtOnce"),
        (json!({"namespaces": [{"limits": {}}]}), "write either names or a selector"),
        (json!({"sharing": {"mechanism": "MPS", "replicas": 1}}), "nothing is shared"),
        (json!({"sharing": {"mechanism": "Magic", "replicas": 2}}), "Magic"),
    ] {
        let refused = scene.policy(&spec).expect_err("it can not be");
        assert!(refused.contains(why), "{spec}: {refused}");
    }
}

/// How whole GPUs are shared reaches agents that were given no configuration.
fn is_shared(scene: &Scene<'_>) {
    let offers = |count: u64| {
        scene.until(&format!("{count} GPUs are offered"), || {
            scene.cluster.allocatable("nvidia.com/gpu") == Some(count)
        });
    };
    offers(2);
    scene.policy(&json!({"sharing": {"mechanism": "TimeSlicing", "replicas": 4}})).expect("it is taken");
    offers(8);
    scene.policy(&json!({"mig": {"mode": "Manual"}})).expect("it is taken");
    offers(2);
}

fn spec(nodes: &[GpuNode], mode: &str) -> Value {
    json!({
        "mig": {"mode": mode, "switchModeOn": true},
        "budgets": {"nodesAtOnce": nodes.len(), "pauseSeconds": 5},
    })
}

/// Pods that stay to the end, with what they have.
type Kept = BTreeMap<String, (String, u64)>;

const KEEPERS: usize = 2;

fn is_shown_and_then_done(scene: &Scene<'_>, nodes: &[GpuNode]) -> Kept {
    scene.policy(&spec(nodes, "DryRun")).expect("it is taken");
    let start = Instant::now();
    scene.deploy("keeper", "1g.5gb", KEEPERS);
    scene.until("a plan is shown", || scene.phases().contains(&"Proposed".to_owned()));
    assert!(present(nodes).is_empty(), "and nothing is cut");
    println!("a dry run showed its plan after {:.1} s", start.elapsed().as_secs_f64());
    scene.policy(&spec(nodes, "Automatic")).expect("it is taken");
    scene.until("the first pods run", || scene.running("keeper").len() == KEEPERS);
    let kept = scene.devices("keeper");
    assert!(kept.values().all(|(device, _)| device.starts_with("MIG-")), "{kept:?}");
    kept
}

fn changes(scene: &Scene<'_>, nodes: &[GpuNode], kept: &Kept) {
    let told = |profile: &str, count: usize, (first, all): (Duration, Duration)| {
        let (first, all) = (first.as_secs_f64(), all.as_secs_f64());
        println!("{profile}: first pod after {first:.1} s, all {count} after {all:.1} s");
    };
    // Seven fit on a GPU, and two of them are there.
    let small = nodes.len() * 2 * 7 - KEEPERS;
    told("1g.5gb", small, scene.first_and_all("small", "1g.5gb", small));
    assert_eq!(present(nodes).len(), small + KEEPERS);
    scene.remove("small");
    // Two fit on a GPU, except on those of the keepers.
    let large = (nodes.len() * 2 - 1) * 2 - 1;
    told("3g.20gb", large, scene.first_and_all("large", "3g.20gb", large));
    assert_eq!(
        scene.devices("keeper"),
        *kept,
        "what is in use is what it was, and nothing was started again"
    );
    let there = present(nodes);
    assert!(kept.values().all(|(device, _)| there.contains(device)));
    scene.remove("large");
    told("1g.5gb", small, scene.first_and_all("again", "1g.5gb", small));
    assert_eq!(scene.devices("keeper"), *kept);
    // One more does not fit anywhere, and is told why.
    scene.deploy("late", "3g.20gb", 1);
    scene.until("it is told", || scene.told("NotCut", "instances in use leave no room"));
    // A pod is told before the policy is: the status follows in the same round, and plans of the last change may still be read back.
    scene.until("the policy tells of all nodes, and that it is kept", || {
        let status = scene.cluster.get(&["slicepolicy", "on-demand"])["status"].clone();
        status["nodes"] == nodes.len() && status["conditions"][0]["status"] == "True"
    });
    scene.until("every plan is done", || scene.phases().iter().all(|phase| phase == "Done"));
    println!("{}", scene.cluster.kubectl(&["get", "sliceplans,slicepolicies"]));
    for name in ["late", "again", "keeper"] {
        scene.remove(name);
    }
}

/// A pod that wants a whole GPU of a node on which both are used a little gets it once pods may be moved.
fn moves(scene: &Scene<'_>, nodes: &[GpuNode]) {
    scene.on_first("whole", "7g.40gb");
    scene.on_first("left", "3g.20gb");
    scene.on_first("beside", "3g.20gb");
    scene.remove("whole");
    scene.on_first("right", "3g.20gb");
    scene.remove("beside");
    let names = |name: &str| scene.devices(name).into_keys().next().unwrap_or_default();
    let before = [names("left"), names("right")];
    let pod = scene.pod("large", "7g.40gb").spec("nodeSelector", json!({"kubernetes.io/hostname": "node0"}));
    let start = Instant::now();
    let mut patient = spec(nodes, "Automatic");
    patient["budgets"]["pauseSeconds"] = 3600.into();
    scene.policy(&patient).expect("it is taken");
    scene.namespace.apply(&pod.deployment(1));
    // A second reason of the same name is told as well.
    scene.until("it is told of the pause", || scene.told("NotCut", "until the policy's pause is over"));
    scene.policy(&spec(nodes, "Automatic")).expect("it is taken");
    let refused = || scene.told("NotCut", "on any of 1 node(s)");
    scene.until("it is told that there is no room", refused);
    let mut moving = spec(nodes, "Automatic");
    moving["budgets"]["podsEvictedAtOnce"] = 1.into();
    moving["defragmentation"] = json!({"enabled": true});
    scene.policy(&moving).expect("it is taken");
    for name in ["large", "left", "right"] {
        scene.until(&format!("{name} runs"), || scene.running(name).len() == 1);
    }
    let after = [names("left"), names("right")];
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert_eq!(moved, 1, "{before:?} {after:?}");
    println!("7g.40gb by moving one pod: {:.1} s", start.elapsed().as_secs_f64());
}
