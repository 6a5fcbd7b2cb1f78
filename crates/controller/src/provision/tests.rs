//! What is decided and written, over a store in memory, with a Karpenter that does as the test says.

use super::act::Provisioning;
use super::objects::{Objects, Watched};
use super::store::{About, ProvisionStore};
use crate::repartition::written;
use crate::store::StoreError;
use carve_karpenter::{HardwareReady, Kind, Named};
use carve_repartition::Seconds;
use carve_slice_policy::Condition;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// What was written, in its order.
#[derive(Default)]
pub(super) struct Written {
    pub(super) log: Vec<String>,
    /// Nodes as they are now.
    pub(super) nodes: BTreeMap<String, Value>,
    /// Stand-ins.
    pub(super) pods: BTreeMap<String, Value>,
    documents: BTreeMap<String, Value>,
    conditions: BTreeMap<String, Vec<Condition>>,
    told: Vec<(String, String)>,
    /// What is refused.
    pub(super) refused: Option<&'static str>,
}

#[derive(Clone, Default)]
pub(super) struct Memory(pub(super) Arc<Mutex<Written>>);

impl Memory {
    fn log(&self, line: String) -> BoxFuture<'static, Result<(), StoreError>> {
        let mut written = self.0.lock().unwrap();
        let refused = written.refused.is_some_and(|word| line.contains(word));
        written.log.push(line);
        async move { if refused { Err(StoreError::Refused("not like this".to_owned())) } else { Ok(()) } }
            .boxed()
    }
}

impl ProvisionStore for Memory {
    fn apply<'a>(&'a self, document: &'a Value) -> BoxFuture<'a, Result<Value, StoreError>> {
        let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let written = self.log(format!("apply {name}"));
        self.0.lock().unwrap().documents.insert(name, document.clone());
        let mut there = document.clone();
        there["metadata"]["creationTimestamp"] = written_at(START).into();
        async move { written.await.map(|()| there) }.boxed()
    }

    fn delete<'a>(&'a self, named: &'a Named, _: &'a Value) -> BoxFuture<'a, Result<(), StoreError>> {
        let kind = if named.kind == Kind::NodePool { "pool" } else { "overlay" };
        self.log(format!("delete {kind} {}", named.name))
    }

    fn put_taints<'a>(
        &'a self,
        node: &'a str,
        version: &'a str,
        taints: &'a [Value],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let keys: Vec<&str> = taints.iter().filter_map(|taint| taint["key"].as_str()).collect();
        self.log(format!("taints of {node}@{version}: {}", keys.join(",")))
    }

    fn put_stage<'a>(
        &'a self,
        node: &'a str,
        version: &'a str,
        taints: &'a [Value],
        labels: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Value, StoreError>> {
        let stage = taints.iter().find(|taint| taint["key"] == "carve.dev/not-ready").expect("a stage");
        let labels: Vec<&str> = labels.values().map(String::as_str).collect();
        let line = format!(
            "{node}@{version} is {} {}",
            stage["value"].as_str().unwrap_or_default(),
            labels.join(",")
        );
        let written = self.log(line.trim_end().to_owned());
        let mut there = self.0.lock().unwrap().nodes[node].clone();
        there["spec"]["taints"] = taints.into();
        self.0.lock().unwrap().nodes.insert(node.to_owned(), there.clone());
        async move { written.await.map(|()| there) }.boxed()
    }

    fn create_stand_in<'a>(&'a self, pod: &'a Value) -> BoxFuture<'a, Result<Option<Value>, StoreError>> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let written = self.log(format!("create {name}"));
        let mut pod = pod.clone();
        pod["metadata"]["uid"] = name.into();
        let there = self.0.lock().unwrap().pods.contains_key(name);
        self.0.lock().unwrap().pods.entry(name.to_owned()).or_insert_with(|| pod.clone());
        async move { written.await.map(|()| (!there).then_some(pod)) }.boxed()
    }

    fn delete_stand_in<'a>(&'a self, name: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.lock().unwrap().pods.remove(name);
        self.log(format!("delete {name}"))
    }

    fn put_hardware_ready<'a>(
        &'a self,
        node: &'a str,
        said: &'a HardwareReady,
        _: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.log(format!("hardware of {node}: {}", said.ready))
    }

    fn put_conditions<'a>(
        &'a self,
        policy: &'a str,
        conditions: &'a [Condition],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.lock().unwrap().conditions.insert(policy.to_owned(), conditions.to_vec());
        async { Ok(()) }.boxed()
    }

    fn warn<'a>(
        &'a self,
        about: &'a About,
        reason: &'a str,
        message: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let (About::Node { name, .. } | About::NodePool { name, .. }) = about;
        self.0.lock().unwrap().told.push((format!("{name} {reason}"), message.to_owned()));
        async { Ok(()) }.boxed()
    }
}

pub(super) const START: u64 = 1_700_000_000;

pub(super) fn written_at(second: u64) -> String {
    written(Seconds(second))
}

/// A controller, and a cluster with Karpenter.
pub(super) struct Bench {
    pub(super) memory: Memory,
    pub(super) objects: Arc<Mutex<Objects>>,
    pub(super) provisioning: Provisioning<Memory>,
    now: u64,
}

impl Bench {
    pub(super) fn new() -> Self {
        let (memory, objects) = (Memory::default(), Arc::new(Mutex::new(Objects::default())));
        for kind in [Watched::Policies, Watched::Nodes, Watched::NodePools, Watched::NodeOverlays] {
            objects.lock().unwrap().listed(kind, &BTreeSet::new());
        }
        let provisioning = Provisioning::new(memory.clone(), Arc::clone(&objects), Default::default());
        Bench { memory, objects, provisioning, now: START }
    }

    pub(super) fn see(&self, kind: Watched, object: Value) {
        self.objects.lock().unwrap().seen(kind, object);
    }

    pub(super) fn policy(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut spec = json!({
            "sharing": {"mechanism": "TimeSlicing", "replicas": 4},
            "provision": {
                "nodeClass": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "models": ["t4"], "counts": [1],
            },
        });
        change(&mut spec);
        self.see(Watched::Policies, json!({"metadata": {"name": name, "generation": 1}, "spec": spec}));
    }

    /// Karpenter has looked at everything that is there.
    pub(super) fn ready(&self) {
        let mut objects = self.objects.lock().unwrap();
        let Objects { pools, overlays, .. } = &mut *objects;
        for seen in [pools, overlays] {
            for mut object in seen.all().cloned().unwrap_or_default().into_values() {
                object["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
                seen.put(object);
            }
        }
    }

    fn node(&self, name: &str, gpus: u64, held_back: bool) {
        let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
        let mut taints = vec![taint("nvidia.com/gpu")];
        taints.extend(held_back.then(|| taint("carve.dev/not-ready")));
        self.see(Watched::Nodes, json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "7", "creationTimestamp": written_at(START), "labels": {
                "karpenter.sh/nodepool": "a", "karpenter.sh/registered": "true",
                "karpenter.k8s.aws/instance-gpu-name": "t4", "karpenter.k8s.aws/instance-gpu-count": "1",
            }},
            "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "3920m", "nvidia.com/gpu": gpus.to_string()}},
        }));
    }

    pub(super) async fn look(&mut self, later: u64) -> Vec<String> {
        self.now += later;
        self.provisioning.look(Seconds(self.now)).await;
        std::mem::take(&mut self.memory.0.lock().unwrap().log)
    }

    /// A policy whose pool is in use.
    async fn made(&mut self, name: &str) {
        self.policy(name, |_| {});
        for _ in 0..3 {
            self.look(0).await;
            self.ready();
        }
    }

    /// What is said of a policy: whether it holds, and why.
    pub(super) fn said(&self, policy: &str, kind: &str) -> Option<(String, String, String)> {
        let written = self.memory.0.lock().unwrap();
        let one = written.conditions.get(policy)?.iter().find(|one| one.kind == kind)?;
        Some((one.status.clone(), one.reason.clone(), one.message.clone()))
    }

    pub(super) fn reason(&self, policy: &str) -> String {
        self.said(policy, "Provisioned")
            .map(|(status, reason, _)| format!("{status} {reason}"))
            .unwrap_or_default()
    }
}

#[tokio::test]
async fn a_policy_becomes_a_pool_and_is_left_alone_then() {
    let mut bench = Bench::new();
    bench.policy("a", |_| {});
    assert_eq!(bench.look(0).await, ["apply a.t4.x1"], "the pool waits until Karpenter uses the overlay");
    assert_eq!(bench.reason("a"), "False Waiting");
    bench.ready();
    assert_eq!(bench.look(1).await, ["apply a"]);
    bench.ready();
    assert!(bench.look(1).await.is_empty());
    assert_eq!(bench.reason("a"), "True Made");
    // A controller that starts anew finds everything as it is.
    bench.provisioning =
        Provisioning::new(bench.memory.clone(), Arc::clone(&bench.objects), Default::default());
    bench.memory.0.lock().unwrap().conditions.clear();
    assert!(bench.look(1).await.is_empty());
    assert!(bench.memory.0.lock().unwrap().conditions.is_empty(), "what is said is not said again");
    bench.policy("a", |spec| spec["sharing"]["replicas"] = 8.into());
    assert_eq!(bench.look(1).await, ["apply a.t4.x1", "apply a"]);
}

#[tokio::test]
async fn overlays_that_nobody_looks_at_are_told_with_the_gate() {
    let mut bench = Bench::new();
    bench.policy("a", |_| {});
    bench.look(0).await;
    assert!(bench.look(59).await.is_empty());
    assert_eq!(bench.reason("a"), "False Waiting");
    assert!(bench.look(1).await.is_empty(), "a pool alone would bring too many machines");
    let (_, reason, message) = bench.said("a", "Provisioned").expect("a condition");
    assert_eq!(reason, "OverlaysIgnored");
    assert!(message.contains("NodeOverlay=true"), "{message}");
}

#[tokio::test]
async fn where_karpenter_is_not_there_it_is_said_and_nothing_is_tried() {
    let mut bench = Bench::new();
    for kind in [Watched::NodePools, Watched::NodeOverlays] {
        bench.objects.lock().unwrap().absent(kind, "their kind is not defined".to_owned());
    }
    bench.policy("a", |_| {});
    assert!(bench.look(0).await.is_empty());
    assert_eq!(bench.reason("a"), "False KarpenterMissing");
    // An older Karpenter: a pool alone would bring too many machines.
    bench.objects.lock().unwrap().listed(Watched::NodePools, &BTreeSet::new());
    assert!(bench.look(1).await.is_empty());
    assert_eq!(bench.reason("a"), "False OverlaysMissing");
    bench.objects.lock().unwrap().listed(Watched::NodeOverlays, &BTreeSet::new());
    assert_eq!(bench.look(1).await, ["apply a.t4.x1"]);
}

#[tokio::test]
async fn what_can_not_be_written_is_said_and_tried_again_after_a_while() {
    let mut bench = Bench::new();
    bench.policy("a", |_| {});
    bench.memory.0.lock().unwrap().refused = Some("a.t4.x1");
    assert_eq!(bench.look(0).await, ["apply a.t4.x1"], "no pool without its overlay");
    assert_eq!(bench.reason("a"), "False NotWritten");
    assert!(bench.look(1).await.is_empty(), "not every second");
    bench.memory.0.lock().unwrap().refused = None;
    assert_eq!(bench.look(30).await, ["apply a.t4.x1"]);
}

#[tokio::test]
async fn policies_that_can_not_be_served_say_why_and_touch_nothing() {
    let mut bench = Bench::new();
    bench.made("a").await;
    bench.policy("b", |_| {});
    assert!(bench.look(1).await.is_empty());
    assert_eq!((bench.reason("a").as_str(), bench.reason("b").as_str()), ("True Made", "False WeightsTaken"));
    bench.policy("b", |spec| spec["mig"] = json!({"mode": "Automatic"}));
    bench.policy("c", |spec| spec["provision"]["models"] = json!(["t5"]));
    bench.policy("d", |spec| spec["provision"]["mode"] = "TagsOnly".into());
    assert!(bench.look(1).await.is_empty());
    for (policy, words) in [("b", ["mig.mode", "provision.mig"]), ("c", ["provision.models", "t4"])] {
        let (status, reason, message) = bench.said(policy, "Provisioned").expect("a condition");
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Refused"));
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
    assert_eq!(bench.reason("d"), "True TagsOnly");
    // What was made of a policy stays while it can not be understood.
    bench.policy("a", |spec| spec["provision"]["models"] = json!(["t5"]));
    assert!(bench.look(1).await.is_empty());
    bench.see(Watched::Policies, json!({"metadata": {"name": "a"}, "spec": {"provision": 7}}));
    assert!(bench.look(1).await.is_empty());
    // Somebody else's overlay in the band is told.
    bench.policy("a", |_| {});
    bench.see(Watched::NodeOverlays, json!({"metadata": {"name": "foreign"}, "spec": {"weight": 5007}}));
    assert!(bench.look(1).await.is_empty());
    let (_, reason, message) = bench.said("a", "Provisioned").expect("a condition");
    assert!(reason == "WeightsTaken" && message.contains("foreign"), "{message}");
}

#[tokio::test]
async fn a_policy_that_goes_leaves_its_pool_unless_it_said_otherwise() {
    let mut bench = Bench::new();
    bench.made("a").await;
    bench.policy("a", |spec| drop(spec.as_object_mut().and_then(|spec| spec.remove("provision"))));
    assert!(bench.look(1).await.is_empty());
    assert_eq!(bench.reason("a"), "False PoolLeft");
    bench.objects.lock().unwrap().gone(Watched::Policies, "a");
    assert!(bench.look(1).await.is_empty());
    let told = bench.memory.0.lock().unwrap().told.clone();
    assert_eq!(told.iter().map(|(about, _)| about.as_str()).collect::<Vec<_>>(), ["a PoolLeft"]);
    bench.policy("a", |spec| spec["provision"]["remove"] = true.into());
    assert_eq!(bench.look(1).await, ["apply a"]);
    bench.objects.lock().unwrap().gone(Watched::Policies, "a");
    assert_eq!(bench.look(1).await, ["delete pool a"]);
    bench.objects.lock().unwrap().gone(Watched::NodePools, "a");
    assert_eq!(bench.look(1).await, ["delete overlay a.t4.x1"]);
}

#[tokio::test]
async fn nodes_are_let_in_or_told_of() {
    let mut bench = Bench::new();
    bench.made("a").await;
    bench.node("good", 4, true);
    bench.node("short", 1, true);
    bench.node("quiet", 0, true);
    let log = bench.look(10).await;
    assert_eq!(log, ["taints of good@7: nvidia.com/gpu", "hardware of good: true"]);
    let (status, _, message) = bench.said("a", "PromiseKept").expect("a condition");
    assert_eq!(status, "False");
    assert!(message.contains("short (nvidia.com/gpu: 4 promised, 1 advertised)"), "{message}");
    assert!(bench.look(1).await.is_empty());
    assert_eq!(bench.memory.0.lock().unwrap().told.len(), 1, "once");
    bench.node("short", 2, true);
    bench.look(1).await;
    assert_eq!(bench.memory.0.lock().unwrap().told.len(), 2, "another mismatch");
    assert_eq!(bench.look(900).await, ["hardware of quiet: false", "hardware of short: false"]);
    bench.node("quiet", 4, true);
    bench.node("short", 4, true);
    bench.node("good", 3, false);
    let log = bench.look(1).await;
    assert_eq!(log.iter().filter(|line| line.starts_with("taints")).count(), 2, "{log:?}");
    assert!(bench.look(59).await.is_empty());
    assert_eq!(bench.look(1).await, ["hardware of good: false"], "it keeps no taint");
    // Nodes of other pools are none of ours.
    bench.objects.lock().unwrap().gone(Watched::Policies, "a");
    bench.node("late", 4, true);
    assert!(!bench.look(1).await.iter().any(|line| line.contains("late")));
}
