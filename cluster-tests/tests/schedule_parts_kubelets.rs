//! The scheduler road on real kubelets while controllers are killed: pods come and go, each runs with what was decided for it or says why it
//! waits, and in the end nothing is left of them.

use carve_cluster_tests::{
    Background, Chance, Churn, Cluster, ControlPlane, GpuNode, Namespace, PATIENCE, PartsAsk, PartsWatch,
    Pod, limiter_library, why_waiting,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MACHINE: &str = "a100-80gb:2";
const KILLS: usize = 50;
/// More than fit: some wait at any time.
const PODS: usize = 14;

struct Scene<'a> {
    cluster: &'a Cluster,
    tenants: &'a Namespace,
    agents: Vec<Background>,
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
}

/// GPUs of which a pod was given parts.
fn decided(pod: &Value) -> BTreeSet<String> {
    let text = pod["metadata"]["annotations"]["carve.dev/slices"].as_str().unwrap_or("null");
    let slices: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let containers = slices["containers"].as_array().into_iter().flatten();
    let parts = containers.flat_map(|container| container["slices"].as_array().into_iter().flatten());
    parts.filter_map(|part| Some(part["gpu"].as_str()?.to_owned())).collect()
}

impl Scene<'_> {
    fn pods(&self) -> Vec<Value> {
        self.tenants.get(&["pods"])["items"].as_array().cloned().unwrap_or_default()
    }

    fn until(&self, plane: &ControlPlane, what: &str, holds: impl Fn() -> bool) {
        let more = || {
            let heard: Vec<String> =
                self.agents.iter().map(Background::heard).chain([plane.said()]).collect();
            let last = |text: &String| text.lines().rev().take(30).collect::<Vec<_>>().join("\n");
            heard.iter().map(last).collect::<Vec<_>>().join("\n──\n")
        };
        self.cluster.until_or(what, PATIENCE, holds, more);
    }

    /// GPUs of which a pod's containers have limits, as their node has them on disk.
    fn has(&self, pod: &Value) -> BTreeSet<String> {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let find =
            ["find", &format!("/run/carve/limits/{uid}"), "-path", "*GPU-*", "-prune", "-printf", "%f\n"];
        self.cluster.on(node, &find).lines().map(str::to_owned).collect()
    }

    fn is_clean(&self) -> bool {
        let nodes = self.cluster.nodes();
        nodes.iter().all(|node| self.cluster.folders_of_pods(node).is_empty())
    }
}

#[test]
fn pods_get_what_was_decided_whoever_dies() {
    let (Some(cluster), Some(library)) = (Cluster::connect(), limiter_library()) else { return };
    let Some(nodes) = GpuNode::everywhere(&cluster, "kubelets", MACHINE) else { return };
    let own = cluster.namespace("kubelets-control");
    let Some(mut plane) = ControlPlane::start_replicas(&cluster, &own, 2) else { return };
    let library = library.display().to_string();
    let settings = [("CARVE_SLICES", "true"), ("CARVE_LIMITER", library.as_str())];
    let agents = nodes.iter().map(|node| node.agent_as_process(&own, plane.binary(), &settings)).collect();
    let tenants = cluster.namespace("kubelets");
    let scene = Scene { cluster: &cluster, tenants: &tenants, agents };
    for node in &nodes {
        let offers =
            || cluster.get(&["node", node.name()])["status"]["allocatable"]["carve.dev/slice"] == "32";
        scene.until(&plane, "tokens are offered", offers);
    }
    let watch = PartsWatch::start(&cluster);
    let asleep: Value = serde_json::from_str(&Pod::sleeping(&cluster, "asleep").manifest()).expect("a pod");
    let asleep = asleep["spec"]["containers"][0].clone();
    let dress = move |pod: &mut Value| {
        let limits = pod["spec"]["containers"][0]["resources"].clone();
        pod["spec"]["containers"] = json!([asleep]);
        pod["spec"]["containers"][0]["resources"] = limits;
    };
    let churn = Churn::start(&cluster, &tenants, (PODS, 400), dress.clone());
    scene.until(&plane, "pods run", || scene.pods().iter().filter(|pod| runs(pod)).count() >= 3);
    let mut chance = Chance(4_711);
    plane.kill_at_random(KILLS, &mut chance, || watch.check());
    let churned = churn.stop();
    println!(
        "{KILLS} kills: {} pods made, {} refused, {} deleted",
        churned.made,
        churned.refused.len(),
        churned.deleted
    );
    scene.until(&plane, "every pod runs or says why not", || {
        scene.pods().iter().all(|pod| runs(pod) || why_waiting(pod).is_some())
    });
    watch.check();
    let pods = scene.pods();
    let (running, waiting): (Vec<&Value>, Vec<&Value>) = pods.iter().partition(|pod| runs(pod));
    for pod in &running {
        assert_eq!(scene.has(pod), decided(pod), "{} has what was decided for it", name(pod));
    }
    println!("{} run with what was decided for them, {} wait and say why", running.len(), waiting.len());

    tenants.delete_pods();
    scene.until(&plane, "nothing is left of pods that are gone", || scene.is_clean());
    let whole =
        PartsAsk { annotations: json!({}), limits: json!({"carve.dev/gpu": "1"}), plain: (1, 0, 100) };
    let all: Vec<Value> = (0..nodes.len() * 2)
        .map(|number| {
            let mut pod = whole.pod(&format!("whole-{number}"));
            dress(&mut pod);
            pod
        })
        .collect();
    tenants.create_pods(&all);
    scene.until(&plane, "each GPU is had as a whole", || {
        scene.pods().iter().filter(|pod| runs(pod)).count() == all.len()
    });
    watch.check();
    tenants.delete_pods();
}
