//! A SlicePolicy brings machines through Karpenter's own controllers, and pods are let onto those that offer what was promised.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_cluster_tests::{Cluster, ControlPlane, KarpenterRun, Namespace, PATIENCE, Reported, define};
use carve_test_support::fixture_text;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const POLICY: &str = "quarters";
const GPU: &str = "nvidia.com/gpu";
const HARDWARE: &str = "AcceleratedHardwareReady";
/// Short for a machine, long for a test.
const READY_WITHIN: u64 = 60;
/// Nobody has more to say after that.
const SILENCE: Duration = Duration::from_secs(15);

fn policy(name: &str, spec: &Value) -> String {
    json!({"apiVersion": "carve.dev/v1alpha1", "kind": "SlicePolicy", "metadata": {"name": name}, "spec": spec})
        .to_string()
}

/// Quarters of T4s, at most ten GPUs.
fn quarters(remove: bool) -> Value {
    let [group, kind, name] = KarpenterRun::class();
    json!({
        "nodeSelector": {"karpenter.sh/nodepool": POLICY},
        "sharing": {"mechanism": "TimeSlicing", "replicas": 4},
        "provision": {
            "nodeClass": {"group": group, "kind": kind, "name": name}, "instanceTypesOf": "AWS",
            "models": ["t4"], "counts": [1], "mostGpus": 10, "readyWithinSeconds": READY_WITHIN,
            "weights": {"first": 7000, "last": 7009}, "remove": remove,
        },
    })
}

fn pods(count: usize) -> Vec<Value> {
    let pod = |number: usize| {
        json!({
            "metadata": {"name": format!("quarter-{number}")},
            "spec": {
                "nodeSelector": {"karpenter.sh/nodepool": POLICY},
                "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": "none",
                    "resources": {"requests": {"cpu": "50m"}, "limits": {GPU: "1"}},
                }],
            },
        })
    };
    (0..count).map(pod).collect()
}

/// A condition of an object: whether it holds, why in a word, and why for people.
fn condition(object: &Value, kind: &str) -> Option<(bool, String, String)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|one| one["type"] == kind)?;
    let word = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    Some((one["status"] == "True", word("reason"), word("message")))
}

struct Scene {
    cluster: Cluster,
    karpenter: KarpenterRun,
    namespace: Namespace,
    reported: Reported,
}

impl Scene {
    fn said_of(&self, policy: &str, kind: &str) -> Option<(bool, String, String)> {
        condition(&self.cluster.get(&["slicepolicy", policy]), kind)
    }

    fn bound(&self) -> usize {
        let pods = self.namespace.get(&["pods"]);
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
    }

    fn taints(&self, node: &str) -> Vec<String> {
        let node = self.cluster.get(&["node", node]);
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().filter_map(|taint| Some(taint["key"].as_str()?.to_owned())).collect()
    }

    fn is_held_back(&self, node: &str) -> bool {
        self.taints(node).iter().any(|key| key == "carve.dev/not-ready")
    }

    /// Events about an object, by reason.
    fn told(&self, name: &str, reason: &str) -> Vec<String> {
        let selector = format!("--field-selector=reason={reason},involvedObject.name={name}");
        let events = self.cluster.get(&["events", "-n", "default", &selector]);
        let events = events["items"].as_array().cloned().unwrap_or_default();
        events.iter().map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// What was written of our objects: which they are, and how often that changed.
    fn written(&self) -> BTreeMap<String, (String, i64)> {
        let mut all = BTreeMap::new();
        for kind in ["nodepools", "nodeoverlays"] {
            let list = self.cluster.get(&[kind, "-l", &format!("carve.dev/policy={POLICY}")]);
            for object in list["items"].as_array().into_iter().flatten() {
                let metadata = &object["metadata"];
                let word = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
                let generation = metadata["generation"].as_i64().unwrap_or(0);
                all.insert(format!("{kind}/{}", word("name")), (word("uid"), generation));
            }
        }
        all
    }

    fn tend(&self) {
        let usual = BTreeMap::from([(GPU.to_owned(), 4)]);
        self.karpenter.report(POLICY, &usual, &self.reported);
    }

    /// Waits while kubelets report.
    fn until(&self, what: &str, plane: &ControlPlane, done: impl Fn() -> bool) {
        let tended = || {
            self.tend();
            done()
        };
        let more = || {
            let policy = self.cluster.get(&["slicepolicy", POLICY]);
            format!("{}\n{}\n{:#}", plane.said(), self.karpenter.said(), policy["status"])
        };
        self.cluster.until_or(what, PATIENCE, tended, more);
    }

    /// Goes on for a while; nothing more may happen.
    fn pass(&self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.tend();
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

impl Drop for Scene {
    /// Policies are the whole cluster's.
    fn drop(&mut self) {
        let words = ["delete", "slicepolicy", POLICY, "on-demand", "--ignore-not-found"];
        let _ = self.cluster.try_kubectl(&words, None);
    }
}

#[test]
fn a_policy_brings_machines_and_pods_come_onto_those_that_are_what_was_promised() {
    let Some(cluster) = Cluster::connect() else { return };
    let definitions: Option<Vec<String>> = ["nodepools", "nodeclaims", "nodeoverlays"]
        .iter()
        .map(|kind| fixture_text(&format!("ecosystem/karpenter/karpenter.sh_{kind}.yaml")))
        .collect();
    let Some(definitions) = definitions else { return };
    let own = carve_slice_policy::definitions()
        .map(|(_, definition)| serde_json::to_string(&definition).expect("a definition"));
    define(&cluster, own.iter().map(String::as_str));
    let Some(karpenter) = KarpenterRun::start(&cluster, &definitions) else { return };
    let namespace = cluster.namespace("karpenter-policy");
    let Some(mut plane) = ControlPlane::start(&cluster, &namespace, "claims") else { return };
    let mut scene = Scene { cluster: cluster.clone(), karpenter, namespace, reported: Reported::new() };
    let apply =
        |name: &str, spec: &Value| cluster.try_kubectl(&["apply", "-f", "-"], Some(&policy(name, spec)));
    let refuse = |change: &dyn Fn(&mut Value), words: &str| {
        let mut spec = quarters(false);
        change(&mut spec);
        let refusal = apply("wrong", &spec).expect_err("the API server refuses it");
        assert!(refusal.contains(words), "{refusal}");
    };
    refuse(&|spec| spec["provision"]["parts"] = true.into(), "in one way how GPUs of new machines are cut");
    refuse(&|spec| spec["provision"]["nodeClass"] = Value::Null, "Karpenter makes machines from a class");
    refuse(&|spec| spec["provision"]["weights"] = json!({"first": 9, "last": 1}), "first is the smallest");

    // What can not be promised is refused where people see it, and nothing is made.
    let mut on_demand = quarters(false);
    on_demand["mig"] = json!({"mode": "Automatic"});
    on_demand["nodeSelector"] = json!({"carve.lab/nobody": "true"});
    apply("on-demand", &on_demand).expect("a policy");
    let refused = || scene.said_of("on-demand", "Provisioned");
    scene.until("it is refused", &plane, || refused().is_some_and(|(_, reason, _)| reason == "Refused"));
    let message = refused().expect("a condition").2;
    assert!(message.contains("mig.mode") && message.contains("provision.mig"), "{message}");
    cluster.kubectl(&["delete", "slicepolicy", "on-demand"]);

    apply(POLICY, &quarters(false)).expect("a policy");
    let made =
        || scene.said_of(POLICY, "Provisioned").is_some_and(|(holds, reason, _)| holds && reason == "Made");
    scene.until("NodePool and NodeOverlay are in use", &plane, made);
    let written = scene.written();
    let names: Vec<&String> = written.keys().collect();
    assert_eq!(names, ["nodeoverlays/quarters.t4.x1", "nodepools/quarters"]);

    // Forty quarters are ten machines. The first of them will have too little.
    let start = Instant::now();
    scene.namespace.create_pods(&pods(40));
    let arrived = || scene.karpenter.nodes(POLICY).len() == 10;
    cluster.until_or("ten machines", PATIENCE, arrived, || scene.karpenter.said());
    let short = scene.karpenter.nodes(POLICY).into_iter().min().expect("a node");
    scene.reported.insert(short.clone(), BTreeMap::from([(GPU.to_owned(), 2)]));
    scene.until("pods are on nine of them", &plane, || scene.bound() == 36);
    println!("36 of 40 pods are bound after {:.1} s", start.elapsed().as_secs_f64());
    scene.until("people are told of the tenth", &plane, || !scene.told(&short, "PromiseBroken").is_empty());
    assert!(scene.is_held_back(&short));
    for node in scene.karpenter.nodes(POLICY).iter().filter(|node| **node != short) {
        assert!(!scene.is_held_back(node), "{node}: {:?}", scene.taints(node));
    }
    let broken = || scene.said_of(POLICY, "PromiseKept").filter(|(holds, _, _)| !holds);
    scene.until("the policy says so", &plane, || broken().is_some_and(|(_, reason, _)| reason == "Broken"));
    let message = broken().expect("a condition").2;
    assert!(message.contains(&short) && message.contains("4 promised, 2 advertised"), "{message}");

    // A controller that is killed is followed by one that makes nothing twice.
    plane.kill_controller();
    plane.start_controller();
    let hardware = |scene: &Scene| condition(&scene.cluster.get(&["node", &short]), HARDWARE);
    scene.until("its time is over", &plane, || hardware(&scene).is_some_and(|(ready, _, _)| !ready));
    let (_, reason, message) = hardware(&scene).expect("a condition");
    assert_eq!(reason, "PromiseBroken");
    assert!(message.contains("4 promised, 2 advertised"), "{message}");
    scene.pass(SILENCE);
    assert_eq!(scene.written(), written, "{}", plane.said());
    let times = |scene: &Scene, words: &str| {
        scene.told(&short, "PromiseBroken").iter().filter(|told| told.contains(words)).count()
    };
    // What the cloud lists, before the kubelet reports, may have been told as well.
    assert_eq!(times(&scene, "4 promised, 2 advertised"), 1, "{:?}", scene.told(&short, "PromiseBroken"));
    assert!(scene.is_held_back(&short));
    assert_eq!(scene.bound(), 36);
    assert_eq!(scene.karpenter.brought(POLICY).len(), 10, "{}", scene.karpenter.said());

    // It is put right.
    scene.reported.clear();
    scene.until("all pods have nodes", &plane, || scene.bound() == 40);
    assert!(!scene.is_held_back(&short));
    scene.until("its condition is good", &plane, || hardware(&scene).is_some_and(|(ready, _, _)| ready));
    let kept = || scene.said_of(POLICY, "PromiseKept").is_some_and(|(holds, _, _)| holds);
    scene.until("the policy says so, too", &plane, kept);
    assert_eq!(scene.karpenter.brought(POLICY).len(), 10, "{}", scene.karpenter.said());

    // One that was good and is not any more is told of, and stays open.
    scene.reported.insert(short.clone(), BTreeMap::from([(GPU.to_owned(), 3)]));
    scene.until("it is told of", &plane, || hardware(&scene).is_some_and(|(ready, _, _)| !ready));
    assert!(!scene.is_held_back(&short));
    // The event follows the condition.
    scene.until("people are told as well", &plane, || times(&scene, "4 promised, 3 advertised") > 0);
    assert_eq!(times(&scene, "4 promised, 3 advertised"), 1, "{:?}", scene.told(&short, "PromiseBroken"));
    scene.reported.clear();

    // Without its policy the pool stays, with its overlay, and says why; where the policy said so, it goes.
    cluster.kubectl(&["delete", "slicepolicy", POLICY]);
    scene.until("people are told that it stays", &plane, || !scene.told(POLICY, "PoolLeft").is_empty());
    assert_eq!(scene.written(), written);
    apply(POLICY, &quarters(true)).expect("a policy");
    let to_go = || {
        let pool = cluster.get(&["nodepool", POLICY]);
        pool["metadata"]["annotations"]["carve.dev/remove-with-policy"] == "true"
    };
    scene.until("it is to go", &plane, to_go);
    cluster.kubectl(&["delete", "slicepolicy", POLICY]);
    let going = || {
        let pool = cluster.get(&["nodepool", POLICY]);
        pool.is_null() || !pool["metadata"]["deletionTimestamp"].is_null()
    };
    scene.until("it goes", &plane, going);
}
