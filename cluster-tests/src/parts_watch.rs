//! Watches the whole cluster while a suite runs: every state of every pod goes through the ledger, and when each was bound is noted.

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
    ledger: PartsLedger,
    complaints: Vec<Complaint>,
    /// When each pod was first seen on a node, by namespace and uid.
    bound: BTreeMap<String, BTreeMap<String, Instant>>,
    pods_listed: bool,
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
        let complaints = lock(&self.seen).complaints.clone();
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
        lock(&self.seen).ledger.holders()
    }

    /// Of the GPUs of a suite's nodes: those in use, full ones, and all.
    pub fn gpus(&self, suite: &str) -> (usize, usize, usize) {
        lock(&self.seen).ledger.gpus(suite)
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
            Ok(Event::InitApply(node) | Event::Apply(node)) => lock(seen).ledger.node_seen(&as_value(&node)),
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
            Ok(Event::InitApply(pod)) => list.push(as_value(&pod)),
            Ok(Event::InitDone) => lock(seen).listed(&std::mem::take(&mut list)),
            Ok(Event::Apply(pod)) => lock(seen).pod(&as_value(&pod)),
            Ok(Event::Delete(pod)) => lock(seen).ledger.pod_gone(&as_value(&pod)),
            // The API server is away; the watch is made anew.
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

impl Seen {
    fn pod(&mut self, pod: &Value) {
        let complaints = self.ledger.pod_seen(pod);
        self.complaints.extend(complaints);
        let metadata = &pod["metadata"];
        if let (true, Some(namespace), Some(uid)) =
            (pod["spec"]["nodeName"].is_string(), metadata["namespace"].as_str(), metadata["uid"].as_str())
        {
            self.bound
                .entry(namespace.to_owned())
                .or_default()
                .entry(uid.to_owned())
                .or_insert_with(Instant::now);
        }
    }

    /// Those that are gone first: what they held may be somebody else's by now.
    fn listed(&mut self, pods: &[Value]) {
        let uids = pods.iter().filter_map(|pod| pod["metadata"]["uid"].as_str()).map(str::to_owned);
        self.ledger.pods_listed(&uids.collect());
        for pod in pods {
            self.pod(pod);
        }
        self.pods_listed = true;
    }
}
