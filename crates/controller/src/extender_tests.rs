//! Binding, over a store that fails in every way, with watches that come late and controllers that die.

use super::Extender;
use crate::cluster::Cluster;
use crate::metrics::Metrics;
use crate::routes::routes;
use crate::store::{Store, StoreError};
use carve_bookings::{PodUid, Slices};
use carve_extender::wire::{Args, BindingArgs};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use tower::ServiceExt;

const GPU_MEMORY: u64 = 16_000;
const NODES: [&str; 2] = ["a", "b"];

/// How the next binding goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Well,
    Refused,
    LostOnTheWay,
    AnswerLost,
    /// Nobody answers in time, and it is done afterwards.
    Late,
}

#[derive(Debug, Default)]
struct Objects {
    pods: BTreeMap<String, Value>,
    version: u64,
    fates: VecDeque<Fate>,
    /// How often a pod was asked for.
    reads: usize,
    /// What watches have not shown yet.
    unseen: VecDeque<(bool, Value)>,
    /// Bindings that are on their way.
    late: Vec<Value>,
}

/// An API server that keeps pods in memory.
#[derive(Debug, Default)]
struct FakeStore(Mutex<Objects>);

impl FakeStore {
    fn create(&self, name: &str, memory: u64, percent: u64) {
        // One that is made again is another one.
        let uid = format!("uid-{name}-{}", self.0.lock().unwrap().version);
        let manifest = json!({
            "metadata": {"name": name, "namespace": "team", "uid": uid},
            "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {
                "nvidia.com/gpu": "1", "nvidia.com/gpumem": memory.to_string(), "nvidia.com/gpucores": percent.to_string(),
            }}}]},
        });
        let policy = carve_admission::Policy::default();
        let road = carve_admission::Road::Scheduler;
        let outcome = carve_admission::admit(&manifest, "team", &policy, road, &Default::default());
        let carve_admission::Outcome::Admitted(admission) = outcome else { panic!("{outcome:?}") };
        let mut pod = manifest;
        pod["metadata"]["annotations"] = json!({"carve.dev/claim": admission.claims.to_annotation()});
        self.put(name, pod);
    }

    fn put(&self, name: &str, mut pod: Value) {
        let mut objects = self.0.lock().unwrap();
        objects.version += 1;
        pod["metadata"]["resourceVersion"] = json!(objects.version.to_string());
        objects.unseen.push_back((true, pod.clone()));
        objects.pods.insert(name.to_owned(), pod);
    }

    fn uid(&self, name: &str) -> String {
        self.0.lock().unwrap().pods[name]["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    fn delete(&self, name: &str) {
        let mut objects = self.0.lock().unwrap();
        if let Some(pod) = objects.pods.remove(name) {
            objects.unseen.push_back((false, pod));
        }
    }

    fn take(&self, binding: &Value) -> Result<(), StoreError> {
        let metadata = &binding["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let refused = |why: &str| Err(StoreError::Refused(why.to_owned()));
        let Some(mut pod) = self.0.lock().unwrap().pods.get(name).cloned() else {
            return refused("not found");
        };
        let same = |field: &str| pod["metadata"][field] == metadata[field];
        if !same("uid") || !same("resourceVersion") || pod["spec"]["nodeName"].is_string() {
            return refused("conflict");
        }
        pod["spec"]["nodeName"] = binding["target"]["name"].clone();
        pod["metadata"]["annotations"]["carve.dev/slices"] =
            metadata["annotations"]["carve.dev/slices"].clone();
        self.put(name, pod);
        Ok(())
    }

    /// What was on its way arrives.
    fn arrive(&self) {
        let late = std::mem::take(&mut self.0.lock().unwrap().late);
        for binding in late {
            let _ = self.take(&binding);
        }
    }

    /// Memory that bound pods hold of each GPU, from the objects alone.
    fn held(&self) -> BTreeMap<String, u64> {
        let mut held = BTreeMap::new();
        for pod in self.0.lock().unwrap().pods.values().filter(|pod| pod["spec"]["nodeName"].is_string()) {
            let text =
                pod["metadata"]["annotations"]["carve.dev/slices"].as_str().expect("bound with slices");
            for (gpu, part) in Slices::from_annotation(text).unwrap().held() {
                *held.entry(gpu.0).or_insert(0) += part.memory.0;
            }
        }
        held
    }
}

impl Store for FakeStore {
    fn pod<'a>(&'a self, _: &'a str, name: &'a str) -> BoxFuture<'a, Result<Option<Value>, StoreError>> {
        let mut objects = self.0.lock().unwrap();
        objects.reads += 1;
        let found = objects.pods.get(name).cloned();
        async move { Ok(found) }.boxed()
    }

    fn bind<'a>(&'a self, binding: &'a Value) -> BoxFuture<'a, Result<(), StoreError>> {
        let fate = self.0.lock().unwrap().fates.pop_front().unwrap_or(Fate::Well);
        let lost = || Err(StoreError::NoAnswer("it timed out".to_owned()));
        let answer = match fate {
            Fate::Well => self.take(binding),
            Fate::Refused => Err(StoreError::Refused("no".to_owned())),
            Fate::LostOnTheWay => lost(),
            Fate::AnswerLost => self.take(binding).and_then(|()| lost()),
            Fate::Late => {
                self.0.lock().unwrap().late.push(binding.clone());
                lost()
            }
        };
        async move { answer }.boxed()
    }
}

fn node(name: &str) -> Value {
    let gpu =
        |number: u32| json!({"uuid": format!("GPU-{name}-{number}"), "product": "T4", "memory": GPU_MEMORY});
    let gpus = json!({"v": 1, "gpus": [gpu(0), gpu(1)]}).to_string();
    json!({"metadata": {"name": name, "annotations": {"carve.dev/gpus": gpus}}})
}

/// A controller that has just read everything, as one does after its start.
fn controller(store: &Arc<FakeStore>) -> (Extender, Arc<Mutex<Cluster>>) {
    let mut cluster = Cluster::default();
    NODES.iter().for_each(|name| cluster.node_seen(&node(name)));
    cluster.nodes_listed(&NODES.map(str::to_owned).into());
    let mut objects = store.0.lock().unwrap();
    objects.unseen.clear();
    let mut uids = BTreeSet::new();
    for pod in objects.pods.values() {
        cluster.pod_seen(pod);
        uids.insert(PodUid(pod["metadata"]["uid"].as_str().unwrap().to_owned()));
    }
    cluster.pods_listed(&uids);
    drop(objects);
    let cluster = Arc::new(Mutex::new(cluster));
    (Extender::new(Arc::clone(&cluster), Arc::clone(store) as Arc<dyn Store>), cluster)
}

fn bind(extender: &Extender, (name, uid): (&str, &str), node: &str) -> String {
    let args = BindingArgs {
        pod_name: name.to_owned(),
        pod_namespace: "team".to_owned(),
        pod_uid: uid.to_owned(),
        node: node.to_owned(),
    };
    extender.bind(&args).now_or_never().expect("the store answers at once").error
}

fn fate(store: &FakeStore, fate: Fate) {
    store.0.lock().unwrap().fates.push_back(fate);
}

#[test]
fn what_was_bound_is_not_given_away_before_anybody_saw_it() {
    let store = Arc::new(FakeStore::default());
    let (extender, _) = controller(&store);
    for name in ["one", "two", "three"] {
        store.create(name, 10_000, 60);
    }
    let bind = |name: &str| bind(&extender, (name, &store.uid(name)), "a");
    assert_eq!(bind("one"), "");
    assert_eq!(bind("two"), "");
    assert_eq!(bind("three"), "container main wants 1 × 10000 MiB and 60 %; most left is 6000 MiB and 40 %");
    assert_eq!(store.held().values().copied().collect::<Vec<_>>(), [10_000, 10_000]);
}

#[test]
fn whatever_becomes_of_a_binding_the_book_follows_the_pod() {
    let store = Arc::new(FakeStore::default());
    let (extender, cluster) = controller(&store);
    let try_it = |name: &str, next: Fate, node: &str| {
        fate(&store, next);
        let error = bind(&extender, (name, &store.uid(name)), node);
        let uid = PodUid(store.uid(name));
        (error, cluster.lock().unwrap().book().bookings(&uid).last().map(|booking| booking.seen))
    };
    store.create("refused", 1_000, 10);
    let (error, booked) = try_it("refused", Fate::Refused, "a");
    assert!(error.contains("refuses") && booked.is_none(), "{error}");
    store.create("unheard", 1_000, 10);
    // The pod itself says that it was bound.
    assert_eq!(try_it("unheard", Fate::AnswerLost, "a"), (String::new(), Some(true)));
    store.create("lost", 1_000, 10);
    let (error, booked) = try_it("lost", Fate::LostOnTheWay, "a");
    assert!(error.contains("not known") && booked == Some(false), "it may be on its way: {error}");
    assert_eq!(try_it("lost", Fate::Well, "b"), (String::new(), Some(false)), "the scheduler tries again");
    assert_eq!(try_it("lost", Fate::Well, "a").0, "the pod is bound already");
    store.create("gone", 1_000, 10);
    let uid = store.uid("gone");
    store.delete("gone");
    assert_eq!(bind(&extender, ("gone", &uid), "a"), "the pod is gone");
    assert_eq!(cluster.lock().unwrap().book().bookings(&PodUid(uid)).count(), 0);
}

#[test]
fn what_a_watch_has_shown_is_not_asked_for_again_unless_it_is_old() {
    let store = Arc::new(FakeStore::default());
    let (extender, cluster) = controller(&store);
    store.create("one", 1_000, 10);
    store.create("two", 1_000, 10);
    show(&store, &cluster, 2);
    assert_eq!(bind(&extender, ("one", &store.uid("one")), "a"), "");
    assert_eq!(store.0.lock().unwrap().reads, 0);
    // Somebody writes to the pod, and no watch has shown that yet.
    let two = store.0.lock().unwrap().pods["two"].clone();
    store.put("two", two);
    assert_eq!(bind(&extender, ("two", &store.uid("two")), "a"), "");
    assert_eq!(store.held().values().sum::<u64>(), 2_000);
    show(&store, &cluster, 9);
    let cluster = cluster.lock().unwrap();
    let uid = |name| PodUid(store.uid(name));
    assert!(cluster.waiting(&uid("one")).is_none() && cluster.waiting(&uid("two")).is_none());
    assert_eq!(cluster.book().pods().count(), 2);
}

#[test]
fn a_pod_on_its_way_to_one_node_that_is_sent_to_another_keeps_both_until_it_is_known() {
    let store = Arc::new(FakeStore::default());
    let (extender, cluster) = controller(&store);
    store.create("one", 10_000, 60);
    fate(&store, Fate::Late);
    assert!(bind(&extender, ("one", &store.uid("one")), "a").contains("not known"));
    // The scheduler gives up on that and tries elsewhere, which comes too late or too early.
    fate(&store, Fate::Refused);
    assert!(bind(&extender, ("one", &store.uid("one")), "b").contains("refuses"));
    for (name, node) in [("two", "a"), ("three", "a"), ("four", "b"), ("five", "b")] {
        store.create(name, 10_000, 60);
        let error = bind(&extender, (name, &store.uid(name)), node);
        assert_eq!(error.is_empty(), name != "three", "{name}: {error}");
    }
    store.arrive();
    assert!(store.held().values().all(|memory| *memory <= GPU_MEMORY), "{:?}", store.held());
    show(&store, &cluster, 9);
    assert_eq!(cluster.lock().unwrap().book().pods().filter(|(_, booking)| booking.seen).count(), 4);
}

#[test]
fn only_one_replica_decides() {
    let store = Arc::new(FakeStore::default());
    let (extender, cluster) = controller(&store);
    let follower = extender.clone().while_leading(|| false);
    store.create("one", 1_000, 10);
    assert!(extender.is_ready() && !follower.is_ready());
    assert!(bind(&follower, ("one", &store.uid("one")), "a").contains("another replica"));
    assert_eq!(cluster.lock().unwrap().book().pods().count(), 0);
    assert_eq!(bind(&extender, ("one", &store.uid("one")), "a"), "");
}

#[tokio::test]
async fn the_scheduler_is_answered_over_http() {
    let store = Arc::new(FakeStore::default());
    let unknown = Extender::new(Arc::default(), Arc::clone(&store) as Arc<dyn Store>);
    let (extender, _) = controller(&store);
    store.create("one", 10_000, 60);
    let pod = store.0.lock().unwrap().pods["one"].clone();
    let sent = json!({"Pod": pod, "NodeNames": ["a", "cpu"]});
    let post =
        |path: &str, body: Value| Request::post(path).body(axum::body::Body::from(body.to_string())).unwrap();
    let answer = async |extender: &Extender, request| {
        let response: axum::response::Response =
            routes(extender.clone(), Metrics::default()).oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice::<Value>(&bytes).unwrap_or(Value::Null))
    };
    let (_, filtered) = answer(&extender, post("/filter", sent.clone())).await;
    assert_eq!((&filtered["NodeNames"], &filtered["Error"]), (&json!(["a"]), &json!("")));
    let (_, scores) = answer(&extender, post("/prioritize", sent.clone())).await;
    assert_eq!(scores[0]["Host"], "a");
    let (_, early) = answer(&unknown, post("/filter", sent)).await;
    assert!(early["Error"].as_str().unwrap().contains("does not know the cluster yet"), "{early}");
    let (status, _) =
        answer(&unknown, Request::get("/readyz").body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let closed = async |extender: &Extender| {
        let asked = routes(extender.clone(), Metrics::default()).oneshot(post("/filter", json!({}))).await;
        asked.unwrap().headers().get("connection").is_some_and(|value| value == "close")
    };
    // A scheduler that stays connected to a replica that does not lead would never come to the one that does.
    assert!(closed(&unknown).await && closed(&extender.clone().while_leading(|| false)).await);
    assert!(!closed(&extender).await);
    let (status, _) = answer(&extender, post("/filter", json!({"Pod": 1}))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let bound = json!({"PodName": "one", "PodNamespace": "team", "PodUID": store.uid("one"), "Node": "a"});
    assert_eq!(answer(&extender, post("/bind", bound)).await, (StatusCode::OK, json!({"Error": ""})));
}

/// Watches show the next few things that happened.
fn show(store: &FakeStore, cluster: &Mutex<Cluster>, count: usize) {
    let mut objects = store.0.lock().unwrap();
    let count = count.min(objects.unseen.len());
    for (there, pod) in objects.unseen.drain(..count) {
        let mut cluster = cluster.lock().unwrap();
        if there { cluster.pod_seen(&pod) } else { cluster.pod_gone(&pod) }
    }
}

/// What may happen next.
#[derive(Debug, Clone)]
enum Step {
    Create(usize, u64, u64),
    Delete(usize),
    /// A scheduler tries to bind a pod to the first node that filter leaves, or the last.
    Schedule(usize, Fate, bool),
    /// Watches show so many things.
    Watch(usize),
    /// What was sent and not answered is done now.
    Arrive,
    /// The controller dies, and another one begins.
    Restart,
}

fn any_step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        1 => Just(Fate::Well),
        1 => Just(Fate::Refused),
        1 => Just(Fate::LostOnTheWay),
        1 => Just(Fate::AnswerLost),
        2 => Just(Fate::Late)
    ];
    prop_oneof![
        3 => (0usize..8, 5u64..16, 1u64..10).prop_map(|(pod, memory, tenths)| Step::Create(pod, memory, tenths)),
        1 => (0usize..8).prop_map(Step::Delete),
        5 => (0usize..8, fate, any::<bool>()).prop_map(|(pod, fate, last)| Step::Schedule(pod, fate, last)),
        2 => (0usize..6).prop_map(Step::Watch),
        1 => Just(Step::Arrive),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_is_ever_given_away_twice(steps in prop::collection::vec(any_step(), 1..80)) {
        let store = Arc::new(FakeStore::default());
        let (mut extender, mut cluster) = controller(&store);
        let nodes = NODES.map(str::to_owned).to_vec();
        for step in steps {
            match step {
                Step::Create(pod, memory, tenths) => {
                    let name = format!("pod-{pod}");
                    if !store.0.lock().unwrap().pods.contains_key(&name) {
                        store.create(&name, memory * 1_000, tenths * 10);
                    }
                }
                Step::Delete(pod) => store.delete(&format!("pod-{pod}")),
                Step::Schedule(pod, next, last) => {
                    let name = format!("pod-{pod}");
                    let Some(object) = store.0.lock().unwrap().pods.get(&name).cloned() else { continue };
                    if object["spec"]["nodeName"].is_string() {
                        continue;
                    }
                    let sent = json!({"Pod": object, "NodeNames": nodes});
                    let asked: Args = serde_json::from_value(sent).unwrap();
                    let fitting = extender.filter(&asked).node_names;
                    if let Some(node) = if last { fitting.last() } else { fitting.first() } {
                        fate(&store, next);
                        bind(&extender, (&name, &store.uid(&name)), node);
                        store.0.lock().unwrap().fates.clear();
                    }
                }
                Step::Watch(count) => show(&store, &cluster, count),
                Step::Arrive => store.arrive(),
                // What the dead one had sent ends with its connection.
                Step::Restart => {
                    store.0.lock().unwrap().late.clear();
                    (extender, cluster) = controller(&store);
                }
            }
            for (gpu, memory) in store.held() {
                prop_assert!(memory <= GPU_MEMORY, "{gpu} is given away {memory} MiB");
            }
        }
        // When everything was shown, the book is what the objects say, and what nobody knew of is on no node.
        store.arrive();
        show(&store, &cluster, usize::MAX);
        let mut booked = BTreeMap::new();
        for (_, booking) in cluster.lock().unwrap().book().pods().filter(|(_, booking)| booking.seen) {
            for (gpu, held) in &booking.held {
                *booked.entry(gpu.0.clone()).or_insert(0) += held.memory.0;
            }
        }
        prop_assert_eq!(booked, store.held());
    }
}
