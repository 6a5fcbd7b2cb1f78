//! Watches the whole cluster while a suite runs: every state of every pod goes through the ledger, and when each was bound is noted.
//!
//! What is watched goes through the ledger when somebody asks, in the order in which it came: what is measured meanwhile shares its processors.

use crate::parts_ledger::{Complaint, PartsLedger};
use crate::{Cluster, PATIENCE};
use futures_util::StreamExt;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long after a failure until the API server is asked again.
const AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct Seen {
    /// What came since somebody asked.
    unread: Vec<Told>,
    ledger: PartsLedger,
    complaints: Vec<Complaint>,
    /// When each pod was first seen on a node, by namespace and uid.
    bound: BTreeMap<String, BTreeMap<String, Instant>>,
    pods_listed: bool,
}

/// What the API server told.
#[derive(Debug)]
enum Told {
    Node(DynamicObject),
    Pod(DynamicObject),
    PodGone(DynamicObject),
    /// These pods, and no others.
    Pods(Vec<DynamicObject>),
}

/// A watch that ends when it is dropped.
#[derive(Debug)]
pub struct PartsWatch {
    seen: Arc<Mutex<Seen>>,
    _stop: oneshot::Sender<()>,
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same with everything read that came.
fn read(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    let mut seen = lock(seen);
    seen.read();
    seen
}

impl PartsWatch {
    /// Begins to watch, and returns when everything was seen once.
    pub fn start(cluster: &Cluster) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, stopped) = oneshot::channel();
        let state = Arc::clone(&seen);
        cluster.inside().spawn(move |client| async move {
            let (told, nodes_listed) = oneshot::channel();
            let watching = async {
                tokio::join!(nodes(client.clone(), &state, told), pods(client, &state, nodes_listed))
            };
            tokio::select! { _ = watching => {}, _ = stopped => {} }
        });
        cluster.until("all pods were listed", PATIENCE, || lock(&seen).pods_listed);
        PartsWatch { seen, _stop: stop }
    }

    /// Fails where anything was ever given out twice.
    pub fn check(&self) {
        let complaints = read(&self.seen).complaints.clone();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    /// When the pods of a namespace were bound, in that order.
    pub fn bound(&self, namespace: &str) -> Vec<Instant> {
        let mut times: Vec<Instant> = lock(&self.seen)
            .bound
            .get(namespace)
            .map(|pods| pods.values().copied().collect())
            .unwrap_or_default();
        times.sort();
        times
    }

    /// How many pods hold parts now.
    pub fn holders(&self) -> usize {
        read(&self.seen).ledger.holders()
    }

    /// Of the GPUs of a suite's nodes: those in use, full ones, and all.
    pub fn gpus(&self, suite: &str) -> (usize, usize, usize) {
        read(&self.seen).ledger.gpus(suite)
    }
}

fn as_value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or(Value::Null)
}

fn api<K: kube::Resource<DynamicType = ()>>(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::erase::<K>(&()))
}

async fn nodes(client: Client, seen: &Mutex<Seen>, listed: oneshot::Sender<()>) {
    let mut events = Box::pin(watcher(api::<k8s_openapi::api::core::v1::Node>(client), Config::default()));
    let mut listed = Some(listed);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::InitApply(node) | Event::Apply(node)) => lock(seen).unread.push(Told::Node(node)),
            Ok(Event::InitDone) => drop(listed.take().map(|listed| listed.send(()))),
            Ok(_) => {}
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

async fn pods(client: Client, seen: &Mutex<Seen>, nodes_listed: oneshot::Receiver<()>) {
    // What a pod holds is compared with what its node has.
    let _ = nodes_listed.await;
    let mut events = Box::pin(watcher(api::<k8s_openapi::api::core::v1::Pod>(client), Config::default()));
    let mut list = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => list.clear(),
            Ok(Event::InitApply(pod)) => list.push(pod),
            Ok(Event::InitDone) => lock(seen).listed(std::mem::take(&mut list)),
            Ok(Event::Apply(pod)) => lock(seen).came(pod),
            Ok(Event::Delete(pod)) => lock(seen).unread.push(Told::PodGone(pod)),
            // The API server is away; the watch is made anew.
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

impl Seen {
    /// A pod is there, or has changed.
    fn came(&mut self, pod: DynamicObject) {
        self.note(&pod);
        self.unread.push(Told::Pod(pod));
    }

    fn listed(&mut self, pods: Vec<DynamicObject>) {
        pods.iter().for_each(|pod| self.note(pod));
        self.unread.push(Told::Pods(pods));
        self.pods_listed = true;
    }

    /// Notes when a pod is on a node for the first time.
    fn note(&mut self, pod: &DynamicObject) {
        let metadata = &pod.metadata;
        let on_a_node = pod.data["spec"]["nodeName"].is_string();
        if let (true, Some(namespace), Some(uid)) = (on_a_node, &metadata.namespace, &metadata.uid) {
            let pods = self.bound.entry(namespace.clone()).or_default();
            pods.entry(uid.clone()).or_insert_with(Instant::now);
        }
    }

    fn read(&mut self) {
        for told in std::mem::take(&mut self.unread) {
            match told {
                Told::Node(node) => self.ledger.node_seen(&as_value(&node)),
                Told::Pod(pod) => self.pod(&as_value(&pod)),
                Told::PodGone(pod) => self.ledger.pod_gone(&as_value(&pod)),
                // Those that are gone first: what they held may be somebody else's by now.
                Told::Pods(pods) => {
                    let uids = pods.iter().filter_map(|pod| pod.metadata.uid.clone());
                    self.ledger.pods_listed(&uids.collect());
                    pods.iter().for_each(|pod| self.pod(&as_value(pod)));
                }
            }
        }
    }

    fn pod(&mut self, pod: &Value) {
        let complaints = self.ledger.pod_seen(pod);
        self.complaints.extend(complaints);
    }
}
