//! Without Karpenter's gate for overlays, pods stand in for those that wait for slices: as many machines come as hold them, are cut after Karpenter
//! counted their whole GPUs, and nothing of the stand-ins is left.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_cluster_tests::{Cluster, ControlPlane, KarpenterRun, Namespace, PATIENCE, Reported, define};
use carve_test_support::fixture_text;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const GPU: &str = "nvidia.com/gpu";
const NOT_READY: &str = "carve.dev/not-ready";
/// Nobody has more to do after that.
const SILENCE: Duration = Duration::from_secs(12);

/// A policy, and what the test knows of it.
#[derive(Clone, Copy)]
struct Case {
    policy: &'static str,
    resource: &'static str,
    gpus: u64,
    slices: u64,
    pods: usize,
    machines: usize,
    stand_ins: usize,
}

/// Quarters of T4s under their own name.
const QUARTERS: Case = Case {
    policy: "renamed-quarters",
    resource: "nvidia.com/gpu.shared",
    gpus: 1,
    slices: 4,
    pods: 40,
    machines: 10,
    stand_ins: 10,
};

/// Sevenths of eight A100s each: 60 of them are nine GPUs.
const SEVENTHS: Case = Case {
    policy: "sevenths",
    resource: "nvidia.com/mig-1g.5gb",
    gpus: 8,
    slices: 56,
    pods: 60,
    machines: 2,
    stand_ins: 9,
};

impl Case {
    fn document(&self) -> String {
        let [group, kind, name] = KarpenterRun::class();
        let mut spec = json!({
            "nodeSelector": {"karpenter.sh/nodepool": self.policy},
            "provision": {
                "mode": "StandIns", "nodeClass": {"group": group, "kind": kind, "name": name},
                "instanceTypesOf": "AWS", "models": ["t4"], "counts": [self.gpus],
            },
        });
        if self.resource.contains("mig") {
            spec["provision"]["models"] = json!(["a100-40gb"]);
            spec["provision"]["mig"] = json!({"all": "1g.5gb"});
        } else {
            spec["sharing"] = json!({"mechanism": "TimeSlicing", "replicas": 4, "renamed": true});
        }
        let metadata = json!({"name": self.policy});
        json!({"apiVersion": "carve.dev/v1beta1", "kind": "SlicePolicy", "metadata": metadata, "spec": spec})
            .to_string()
    }

    fn pods(&self) -> Vec<Value> {
        let pod = |number: usize| {
            json!({
                "metadata": {"name": format!("{}-{number}", self.policy), "labels": {"of": self.policy}},
                "spec": {
                    "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{
                        "name": "main", "image": "none",
                        "resources": {"requests": {"cpu": "50m"}, "limits": {self.resource: "1"}},
                    }],
                },
            })
        };
        (0..self.pods).map(pod).collect()
    }

    /// Whether the agent of a node was told to cut.
    fn is_told(&self, node: &Value) -> bool {
        let metadata = &node["metadata"];
        if self.resource.contains("mig") {
            metadata["labels"]["nvidia.com/mig.config"] == "all-1g.5gb"
        } else {
            let config = metadata["annotations"]["carve.dev/device-plugin.config"].as_str();
            config.is_some_and(|config| config.contains("replicas"))
        }
    }
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}

fn word<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Thousandths of processors that a pod asks for.
fn processors(pod: &Value) -> usize {
    let text = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str().unwrap_or_default();
    match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().unwrap_or(0),
        None => text.parse::<usize>().unwrap_or(0) * 1000,
    }
}

struct Scene {
    cluster: Cluster,
    karpenter: KarpenterRun,
    namespace: Namespace,
    /// Every stand-in that was ever seen, by uid.
    seen: RefCell<BTreeSet<String>>,
    /// Nodes whose agents were told to cut, and have.
    cut: RefCell<BTreeSet<String>>,
}

impl Scene {
    fn stand_ins(&self) -> Vec<Value> {
        let all = items(&self.namespace.get(&["pods", "-l", "carve.dev/stand-in"]));
        self.seen.borrow_mut().extend(all.iter().map(|pod| word(pod, "uid").to_owned()));
        all
    }

    fn nodes(&self, case: Case) -> Vec<Value> {
        items(&self.cluster.get(&["nodes", "-l", &format!("karpenter.sh/nodepool={}", case.policy)]))
    }

    fn bound(&self, case: Case) -> usize {
        let pods = items(&self.namespace.get(&["pods", "-l", &format!("of={}", case.policy)]));
        pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
    }

    /// What kubelets and agents do: nodes have whole GPUs, and slices once they are told to cut.
    fn tend(&self, case: Case) {
        let stand_ins = self.stand_ins();
        let mut others = Reported::new();
        for node in self.nodes(case) {
            let name = word(&node, "name").to_owned();
            if !case.is_told(&node) {
                assert!(!self.cut.borrow().contains(&name), "{name} is whole again: {:#}", node["metadata"]);
                continue;
            }
            if self.cut.borrow_mut().insert(name.clone()) {
                let labels = &node["metadata"]["labels"];
                assert_eq!(labels["karpenter.sh/initialized"], "true", "Karpenter counts on whole GPUs");
                let on = stand_ins.iter().filter(|pod| pod["spec"]["nodeName"] == name.as_str()).count();
                assert_eq!(on, 0, "stand-ins are still on {name}");
            }
            others.insert(name, BTreeMap::from([(case.resource.to_owned(), case.slices)]));
        }
        let whole = BTreeMap::from([(GPU.to_owned(), case.gpus)]);
        self.karpenter.report(case.policy, &whole, &others);
    }

    fn until(&self, case: Case, what: &str, plane: &ControlPlane, done: impl Fn() -> bool) {
        let tended = || {
            self.tend(case);
            done()
        };
        let more = || {
            let policy = self.cluster.get(&["slicepolicy", case.policy]);
            let stand_ins = self.stand_ins();
            let places: Vec<String> = stand_ins
                .iter()
                .map(|pod| format!("{} on {}", word(pod, "name"), pod["spec"]["nodeName"]))
                .collect();
            let nodes: Vec<String> = self
                .nodes(case)
                .iter()
                .map(|node| format!("{} {}", word(node, "name"), node["spec"]["taints"]))
                .collect();
            format!(
                "{}\n{}\n{:#}\n{places:#?}\n{nodes:#?}",
                plane.said(),
                self.karpenter.said(),
                policy["status"]
            )
        };
        self.cluster.until_or(what, PATIENCE, tended, more);
    }

    /// Goes on for a while; nothing more may happen.
    fn pass(&self, case: Case) {
        let start = Instant::now();
        while start.elapsed() < SILENCE {
            self.tend(case);
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Pods wait, machines come, and pods have them.
    fn run(&self, case: Case, plane: &mut ControlPlane) {
        self.seen.borrow_mut().clear();
        let applied = self.cluster.try_kubectl(&["apply", "-f", "-"], Some(&case.document()));
        applied.expect("a policy");
        let made = || {
            let policy = self.cluster.get(&["slicepolicy", case.policy]);
            let conditions = policy["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Provisioned" && one["status"] == "True")
        };
        self.until(case, "the NodePool is in use", plane, made);
        assert!(items(&self.cluster.get(&["nodeoverlays"])).is_empty());
        let start = Instant::now();
        self.namespace.create_pods(&case.pods());
        // Pods come one after another, and the last stand-in is made anew while it fills.
        let complete = || {
            let all = self.stand_ins();
            all.len() == case.stand_ins && all.iter().map(processors).sum::<usize>() == 50 * case.pods
        };
        self.until(case, "stand-ins ask for whole GPUs", plane, complete);
        self.seen.borrow_mut().clear();
        self.stand_ins();
        let first: BTreeSet<String> = self.seen.borrow().clone();

        // A controller that is killed is followed by one that makes nothing twice.
        plane.kill_controller();
        let arrived = || self.nodes(case).len() == case.machines;
        self.until(case, "machines come", plane, arrived);
        plane.start_controller();
        self.until(case, "all pods have nodes", plane, || self.bound(case) == case.pods);
        println!(
            "{}: {} pods are bound after {:.1} s",
            case.policy,
            case.pods,
            start.elapsed().as_secs_f64()
        );
        self.pass(case);
        assert_eq!(self.stand_ins().len(), 0, "none is left\n{}", plane.said());
        assert_eq!(*self.seen.borrow(), first, "none was made later\n{}", plane.said());
        let brought = self.karpenter.brought(case.policy);
        assert_eq!(brought.len(), case.machines, "{brought:?}\n{}", self.karpenter.said());
        assert!(brought.iter().all(|machine| machine.gpus == case.gpus), "{brought:?}");
        for node in self.nodes(case) {
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            assert!(taints.iter().all(|taint| taint["key"] != NOT_READY), "{taints:?}");
        }
    }
}

impl Drop for Scene {
    /// Policies are the whole cluster's.
    fn drop(&mut self) {
        let words = ["delete", "slicepolicy", QUARTERS.policy, SEVENTHS.policy, "--ignore-not-found"];
        let _ = self.cluster.try_kubectl(&words, None);
    }
}

#[test]
fn stand_ins_bring_machines_that_are_cut_when_they_have_come() {
    let Some(cluster) = Cluster::connect() else { return };
    let definitions: Option<Vec<String>> = ["nodepools", "nodeclaims", "nodeoverlays"]
        .iter()
        .map(|kind| fixture_text(&format!("ecosystem/karpenter/karpenter.sh_{kind}.yaml")))
        .collect();
    let Some(definitions) = definitions else { return };
    let own = carve_slice_policy::definitions()
        .map(|(_, definition)| serde_json::to_string(&definition).expect("a definition"));
    define(&cluster, own.iter().map(String::as_str));
    let Some(karpenter) = KarpenterRun::start_with(&cluster, &definitions, "NodeOverlay=false") else {
        return;
    };
    let namespace = cluster.namespace("karpenter-stand-ins");
    let Some(mut plane) = ControlPlane::start(&cluster, &namespace, "claims") else { return };
    let (seen, cut) = Default::default();
    let scene = Scene { cluster, karpenter, namespace, seen, cut };
    scene.run(QUARTERS, &mut plane);
    scene.run(SEVENTHS, &mut plane);

    // What can not be served like that is refused where people see it.
    let parts = QUARTERS.document().replace(r#""renamed":true"#, r#""renamed":false"#);
    scene.cluster.try_kubectl(&["apply", "-f", "-"], Some(&parts)).expect("a policy");
    let refused = || {
        let policy = scene.cluster.get(&["slicepolicy", QUARTERS.policy]);
        let conditions = policy["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| {
            let message = one["message"].as_str().unwrap_or_default();
            one["type"] == "Provisioned" && one["reason"] == "Refused" && message.contains("renamed: true")
        })
    };
    scene.until(SEVENTHS, "it is refused", &plane, refused);
}
