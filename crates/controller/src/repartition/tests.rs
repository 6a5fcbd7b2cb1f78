//! What is decided and written, over a store in memory, with agents that answer as the test says.

use super::act::Repartition;
use super::objects::Objects;
use super::store::{About, PlanStore, Tone};
use super::told::ToldNode;
use super::written;
use crate::store::StoreError;
use carve_gpu_model::{GpuUuid, Product};
use carve_repartition::{
    GpuReport, InstanceReport, NodeReport, Order, OrderReport, OrderState, SETTLING, Seconds,
};
use carve_slice_policy::{Phase, SlicePlanSpec, SlicePlanStatus, SlicePolicyStatus};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What was written.
#[derive(Default)]
struct Written {
    plans: BTreeMap<String, SlicePlanSpec>,
    statuses: BTreeMap<String, SlicePlanStatus>,
    orders: BTreeMap<String, Order>,
    configs: BTreeMap<String, ToldNode>,
    policies: BTreeMap<String, SlicePolicyStatus>,
    told: Vec<(String, Tone, String, String)>,
    /// Writes in all, events not counted.
    writes: usize,
    /// Whether orders are refused.
    deaf: bool,
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Written>>);

impl Memory {
    fn write(&self, act: impl FnOnce(&mut Written)) -> BoxFuture<'static, Result<(), StoreError>> {
        let mut written = self.0.lock().unwrap();
        written.writes += 1;
        act(&mut written);
        async { Ok(()) }.boxed()
    }
}

impl PlanStore for Memory {
    fn put_plan<'a>(&'a self, plan: &'a SlicePlanSpec) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(|written| drop(written.plans.insert(plan.node.clone(), plan.clone())))
    }

    fn put_plan_status<'a>(
        &'a self,
        node: &'a str,
        status: &'a SlicePlanStatus,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(|written| drop(written.statuses.insert(node.to_owned(), status.clone())))
    }

    fn put_order<'a>(&'a self, node: &'a str, order: &'a Order) -> BoxFuture<'a, Result<(), StoreError>> {
        if self.0.lock().unwrap().deaf {
            return async { Err(StoreError::NoAnswer("away".to_owned())) }.boxed();
        }
        self.write(|written| drop(written.orders.insert(node.to_owned(), order.clone())))
    }

    fn put_config<'a>(&'a self, node: &'a str, told: &'a ToldNode) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(|written| drop(written.configs.insert(node.to_owned(), told.clone())))
    }

    fn put_policy_status<'a>(
        &'a self,
        policy: &'a str,
        status: &'a SlicePolicyStatus,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(|written| drop(written.policies.insert(policy.to_owned(), status.clone())))
    }

    fn tell<'a>(
        &'a self,
        about: &'a About,
        tone: Tone,
        reason: &'a str,
        message: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let name = match about {
            About::Pod { namespace, name, .. } => format!("pod {namespace}/{name}"),
            About::Plan { node } => format!("plan {node}"),
        };
        self.0.lock().unwrap().told.push((name, tone, reason.to_owned(), message.to_owned()));
        async { Ok(()) }.boxed()
    }
}

const START: u64 = 1_700_000_000;

/// A controller, and a cluster of one node with one A100.
struct Bench {
    memory: Memory,
    objects: Arc<Mutex<Objects>>,
    repartition: Repartition<Memory>,
    report: NodeReport,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        let memory = Memory::default();
        let objects = Arc::new(Mutex::new(Objects::default()));
        let table = Product::by_key("a100-40gb").and_then(Product::profile_table).expect("an A100");
        let gpu = GpuReport {
            uuid: GpuUuid("GPU-1".to_owned()),
            index: 0,
            product: "A100".to_owned(),
            mig: true,
            held: false,
            instances: Vec::new(),
        };
        let tables = BTreeMap::from([("A100".to_owned(), table)]);
        let report = NodeReport { gpus: vec![gpu], tables, manual: None, order: None };
        let repartition = Repartition::new(memory.clone(), Arc::clone(&objects), Default::default());
        let bench = Bench { memory, objects, repartition, report, now: START };
        bench.node();
        bench.policy("all", json!({"mig": {"mode": "Automatic"}}));
        for kind in ["nodes", "pods", "policies", "plans"] {
            let names = ["node0".to_owned(), "all".to_owned()].into_iter().collect();
            bench.objects.lock().unwrap().listed(kind, &names);
        }
        bench
    }

    fn node(&self) {
        let mut annotations = json!({NodeReport::ANNOTATION: self.report.to_text()});
        if let Some(order) = self.memory.0.lock().unwrap().orders.get("node0") {
            annotations[Order::ANNOTATION] = order.to_text().into();
        }
        self.objects.lock().unwrap().node_seen(&json!({
            "metadata": {"name": "node0", "annotations": annotations},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4", "pods": "110"}},
        }));
    }

    fn policy(&self, name: &str, spec: Value) {
        let policy = json!({"metadata": {"name": name, "generation": 1}, "spec": spec});
        self.objects.lock().unwrap().policy_seen(&policy);
    }

    fn pod(&self, name: &str, profile: &str) {
        let limits = json!({format!("nvidia.com/mig-{profile}"): "1"});
        let since = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "lastTransitionTime": written(Seconds(self.now))});
        self.objects.lock().unwrap().pod_seen(&json!({
            "metadata": {"namespace": "team", "name": name, "uid": name},
            "spec": {"containers": [{"resources": {"limits": limits, "requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending", "conditions": [since]},
        }));
    }

    async fn look(&mut self, later: u64) {
        self.now += later;
        self.repartition.look(Seconds(self.now)).await;
    }

    /// The agent does what it was ordered, or says why not.
    fn answer(&mut self, state: OrderState) {
        let order = self.memory.0.lock().unwrap().orders["node0"].clone();
        if state == OrderState::Done {
            let layout = order.gpus.get(&GpuUuid("GPU-1".to_owned())).cloned().unwrap_or_default();
            let free = |instance| InstanceReport { instance, held: false, pods: Vec::new() };
            self.report.gpus[0].instances = layout.into_iter().map(free).collect();
        }
        let message = "as it was".to_owned();
        self.report.order = Some(OrderReport { generation: order.generation, state, message });
        self.node();
    }

    fn phase(&self) -> Option<Phase> {
        self.memory.0.lock().unwrap().statuses.get("node0").map(|status| status.phase)
    }

    fn order(&self) -> Option<u64> {
        self.memory.0.lock().unwrap().orders.get("node0").map(|order| order.generation)
    }

    fn told(&self, reason: &str) -> Vec<String> {
        let written = self.memory.0.lock().unwrap();
        let of = written.told.iter().filter(|(_, _, known, _)| known == reason);
        of.map(|(about, _, _, message)| format!("{about}: {message}")).collect()
    }
}

#[tokio::test]
async fn a_plan_is_written_ordered_followed_and_ended() {
    let mut bench = Bench::new();
    bench.pod("one", "3g.20gb");
    bench.look(0).await;
    assert_eq!(bench.phase(), None, "it settles first");
    bench.look(SETTLING).await;
    assert_eq!((bench.phase(), bench.order()), (Some(Phase::Cutting), Some(1)));
    let spec = bench.memory.0.lock().unwrap().plans["node0"].clone();
    assert_eq!((spec.serves, spec.serves_count, spec.destroys_count), (vec!["team/one".to_owned()], 1, 0));
    assert_eq!(bench.told("Cutting").len(), 2, "of the plan and of its pod");
    let writes = bench.memory.0.lock().unwrap().writes;
    bench.look(1).await;
    assert_eq!(bench.memory.0.lock().unwrap().writes, writes, "it is waited for");
    bench.answer(OrderState::Done);
    bench.look(1).await;
    assert_eq!(bench.phase(), Some(Phase::Done));
    let status = bench.memory.0.lock().unwrap().statuses["node0"].clone();
    assert_eq!(status.recuts[0].at, written(Seconds(bench.now)));
    assert_eq!(status.finished, Some(written(Seconds(bench.now))));
    let policy = bench.memory.0.lock().unwrap().policies["all"].clone();
    assert_eq!((policy.nodes, policy.cutting, policy.conditions[0].reason.as_str()), (1, 0, "InForce"));
    let writes = bench.memory.0.lock().unwrap().writes;
    bench.look(60).await;
    assert_eq!(bench.memory.0.lock().unwrap().writes, writes, "there is nothing more to do");
}

#[tokio::test]
async fn nothing_is_cut_where_pods_of_any_kind_leave_no_processors() {
    let mut bench = Bench::new();
    let busy = json!({
        "metadata": {"namespace": "web", "name": "busy", "uid": "busy"},
        "spec": {"nodeName": "node0", "containers": [{"resources": {"requests": {"cpu": "3500m"}}}]},
        "status": {"phase": "Running"},
    });
    bench.objects.lock().unwrap().pod_seen(&busy);
    bench.pod("one", "3g.20gb");
    let uids = ["busy", "one"].map(str::to_owned).into_iter().collect();
    bench.objects.lock().unwrap().listed("pods", &uids);
    bench.look(SETTLING).await;
    assert_eq!(bench.phase(), None);
    assert!(bench.told("NotCut")[0].contains("not enough cpu left"), "{:?}", bench.told("NotCut"));
    bench.objects.lock().unwrap().gone("pods", &busy);
    bench.look(1).await;
    assert_eq!(bench.phase(), Some(Phase::Cutting));
}

#[tokio::test]
async fn a_controller_that_dies_before_the_order_is_followed_by_one_that_sends_it() {
    let mut bench = Bench::new();
    bench.pod("one", "3g.20gb");
    bench.memory.0.lock().unwrap().deaf = true;
    bench.look(SETTLING).await;
    assert_eq!((bench.phase(), bench.order()), (Some(Phase::Cutting), None));
    bench.memory.0.lock().unwrap().deaf = false;
    bench.repartition =
        Repartition::new(bench.memory.clone(), Arc::clone(&bench.objects), Default::default());
    bench.look(1).await;
    assert_eq!(bench.order(), Some(1));
}

#[tokio::test]
async fn failures_and_silence_end_a_plan_and_the_next_has_another_number() {
    let mut bench = Bench::new();
    bench.pod("one", "3g.20gb");
    bench.look(SETTLING).await;
    bench.answer(OrderState::Failed);
    bench.look(1).await;
    assert_eq!(bench.phase(), Some(Phase::Failed));
    assert_eq!(bench.told("CutFailed"), ["plan node0: plan 1 failed: as it was"]);
    bench.look(1).await;
    assert_eq!(bench.told("NotCut").len(), 1, "{:?}", bench.told("NotCut"));
    bench.look(14).await;
    assert_eq!((bench.phase(), bench.order()), (Some(Phase::Cutting), Some(2)));
    // Nobody answers this one: it is called off.
    bench.look(421).await;
    assert_eq!((bench.phase(), bench.order()), (Some(Phase::Failed), Some(3)));
    let orders = bench.memory.0.lock().unwrap().orders.clone();
    assert!(orders["node0"].gpus.is_empty(), "the agent may forget it");
    bench.look(30).await;
    assert_eq!((bench.phase(), bench.order()), (Some(Phase::Cutting), Some(4)));
}

#[tokio::test]
async fn a_dry_run_is_shown_once_and_taken_back() {
    let mut bench = Bench::new();
    bench.policy("all", json!({"mig": {"mode": "DryRun"}}));
    bench.pod("one", "3g.20gb");
    bench.look(SETTLING).await;
    assert_eq!((bench.phase(), bench.order()), (Some(Phase::Proposed), None));
    let writes = bench.memory.0.lock().unwrap().writes;
    bench.look(1).await;
    bench.look(1).await;
    assert_eq!(bench.memory.0.lock().unwrap().writes, writes);
    bench.objects.lock().unwrap().gone("pods", &json!({"metadata": {"uid": "one"}}));
    bench.look(1).await;
    assert_eq!(bench.phase(), Some(Phase::Withdrawn));
}

#[tokio::test]
async fn policies_that_contradict_each_other_say_so() {
    let mut bench = Bench::new();
    bench.policy("other", json!({"mig": {"mode": "Automatic"}, "nodeSelector": {}}));
    bench.pod("one", "3g.20gb");
    bench.look(SETTLING).await;
    assert_eq!(bench.phase(), None);
    let policies = bench.memory.0.lock().unwrap().policies.clone();
    for (name, other) in [("all", "other"), ("other", "all")] {
        let conditions = &policies[name].conditions;
        assert_eq!((conditions[0].status.as_str(), conditions[1].status.as_str()), ("False", "True"));
        assert!(conditions[1].message.contains(other) && conditions[1].message.contains("node0"));
    }
    bench.policy(
        "other",
        json!({"priority": 1, "namespaces": [
        {"names": ["team"], "limits": {"mechanisms": ["magic"]}}]}),
    );
    bench.look(1).await;
    let policies = bench.memory.0.lock().unwrap().policies.clone();
    assert_eq!(policies["other"].conditions[0].reason, "Invalid");
}

#[tokio::test]
async fn a_person_s_label_ends_what_is_going_on() {
    let mut bench = Bench::new();
    bench.pod("one", "3g.20gb");
    bench.look(SETTLING).await;
    bench.report.manual = Some("all-1g.5gb".to_owned());
    bench.node();
    bench.look(1).await;
    assert_eq!((bench.phase(), bench.order()), (Some(Phase::Failed), Some(2)), "and is called off");
    bench.look(1000).await;
    assert_eq!(bench.order(), Some(2), "nothing is ordered there any more");
}

#[test]
fn a_watch_that_is_behind_undoes_nothing() {
    let mut objects = Objects::default();
    let plan = |generation: u64, phase: &str| {
        json!({"metadata": {"name": "node0"},
            "spec": {"node": "node0", "generation": generation, "policy": "all"},
            "status": {"phase": phase, "observedGeneration": generation}})
    };
    objects.plan_seen(&plan(2, "Cutting"));
    objects.plan_seen(&plan(1, "Done"));
    assert_eq!(objects.plans["node0"].spec.generation, 2);
    objects.plan_seen(&plan(2, "Done"));
    objects.plan_seen(&plan(2, "Cutting"));
    assert_eq!(objects.plans["node0"].status.phase, Phase::Done);
    // Listed without it: somebody has deleted it.
    objects.listed("plans", &Default::default());
    assert!(objects.plans.is_empty());
}

#[tokio::test]
async fn sharing_of_a_policy_reaches_its_nodes_and_is_taken_back() {
    let mut bench = Bench::new();
    let config = |bench: &Bench| bench.memory.0.lock().unwrap().configs.get("node0").cloned();
    bench.look(1).await;
    assert_eq!(config(&bench), None, "nothing is written where nothing is wanted");
    bench.policy("all", json!({"sharing": {"mechanism": "TimeSlicing", "replicas": 4}}));
    bench.look(1).await;
    let text = config(&bench).and_then(|told| told.sharing).expect("a configuration");
    assert!(text.contains("timeSlicing") && text.contains("\"replicas\":4"), "{text}");
    let layout = json!({"mode": "Fixed", "layout": [{"instances": {"1g.5gb": 7}}]});
    bench.policy("all", json!({"mig": layout}));
    bench.look(1).await;
    let told = config(&bench).expect("something is told");
    assert_eq!(told.sharing, None);
    let text = told.mig.expect("a layout");
    let parsed = carve_formats::MigPartedConfig::parse(&text);
    assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
    assert!(parsed.value.is_some_and(|config| config.configs.contains_key("all")), "{text}");
    bench.policy("all", json!({}));
    bench.look(1).await;
    assert_eq!(config(&bench), Some(ToldNode::default()));
}

#[tokio::test]
async fn a_node_that_is_to_have_whole_gpus_yet_is_not_told_to_share_them() {
    let mut bench = Bench::new();
    let config = |bench: &Bench| bench.memory.0.lock().unwrap().configs.get("node0").cloned();
    let at = |bench: &Bench, stage: &str| {
        let taint = json!({"key": "carve.dev/not-ready", "value": stage, "effect": "NoSchedule"});
        let node = json!({"metadata": {"name": "node0"}, "spec": {"taints": [taint]}});
        bench.objects.lock().unwrap().node_seen(&node);
    };
    bench.policy("all", json!({"sharing": {"mechanism": "TimeSlicing", "replicas": 4, "renamed": true}}));
    for stage in ["whole", "emptying"] {
        at(&bench, stage);
        bench.look(1).await;
        assert_eq!(config(&bench), None, "{stage}");
    }
    at(&bench, "cutting");
    bench.look(1).await;
    assert!(config(&bench).is_some_and(|told| told.sharing.is_some()));
}
