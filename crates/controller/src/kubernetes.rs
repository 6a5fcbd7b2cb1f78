//! The API server behind the controller: pods that are read and bound, and watches that keep the cluster known.

use crate::cluster::Cluster;
use crate::store::{Store, StoreError};
use carve_admission::{Road, keys};
use carve_bookings::PodUid;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long the API server may take for an answer. Kube-scheduler waits longer for ours.
const PATIENCE: Duration = Duration::from_secs(10);

/// An API server.
#[derive(Clone)]
pub struct Kubernetes {
    client: Client,
}

impl Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kubernetes")
    }
}

impl From<kube::Error> for StoreError {
    fn from(error: kube::Error) -> Self {
        match &error {
            // What it says about the request is final; what it says about itself is not.
            kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
                StoreError::Refused(status.message.clone())
            }
            _ => StoreError::NoAnswer(error.to_string()),
        }
    }
}

/// In time, or not known.
pub(crate) async fn within<T>(
    patience: Duration,
    asked: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(patience, asked).await {
        Ok(answer) => answer.map_err(StoreError::from),
        Err(_) => Err(StoreError::NoAnswer(format!("nothing came in {} s", patience.as_secs()))),
    }
}

impl Store for Kubernetes {
    fn pod<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, StoreError>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        async move { Ok(within(PATIENCE, api.get_opt(name)).await?.as_ref().map(as_value)) }.boxed()
    }

    fn bind<'a>(&'a self, binding: &'a Value) -> BoxFuture<'a, Result<(), StoreError>> {
        let metadata = &binding["metadata"];
        let word = |field: &str| metadata[field].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/pods/{}/binding", word("namespace"), word("name"));
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(binding.to_string().into_bytes());
        async move {
            let request = request.map_err(|error| StoreError::Refused(error.to_string()))?;
            within(PATIENCE, self.client.request::<Value>(request)).await.map(|_| ())
        }
        .boxed()
    }
}

/// An object as it would be written. What the API server has sent can be written again.
fn as_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or(Value::Null)
}

impl Kubernetes {
    /// Over a client.
    pub fn new(client: Client) -> Self {
        Kubernetes { client }
    }

    /// Keeps the cluster known for as long as this runs: nodes, and pods that were admitted on the scheduler road. Lost watches are made anew.
    pub async fn follow(&self, cluster: Arc<Mutex<Cluster>>) {
        let admitted = format!("{}={}", keys::ADMITTED, Road::Scheduler.word());
        let nodes: Api<Node> = Api::all(self.client.clone());
        let pods: Api<Pod> = Api::all(self.client.clone());
        let pods_config = watcher::Config::default().labels(&admitted);
        tokio::join!(
            follow(nodes, watcher::Config::default(), &cluster, NODES),
            follow(pods, pods_config, &cluster, PODS),
        );
    }
}

/// What is done with what a watch shows.
pub(crate) struct Told<S> {
    /// Before a list is asked for.
    pub(crate) asked: fn(&mut S),
    pub(crate) seen: fn(&mut S, &Value),
    pub(crate) gone: fn(&mut S, &Value),
    pub(crate) listed: fn(&mut S, &[Value]),
}

const NODES: Told<Cluster> = Told {
    asked: |_| {},
    seen: Cluster::node_seen,
    gone: |cluster, node| cluster.node_gone(node["metadata"]["name"].as_str().unwrap_or_default()),
    listed: |cluster, nodes| {
        let names = nodes.iter().filter_map(|node| node["metadata"]["name"].as_str());
        cluster.nodes_listed(&names.map(str::to_owned).collect());
    },
};

const PODS: Told<Cluster> = Told {
    asked: Cluster::pods_asked,
    seen: Cluster::pod_seen,
    gone: Cluster::pod_gone,
    listed: |cluster, pods| {
        let uids = pods.iter().filter_map(|pod| pod["metadata"]["uid"].as_str());
        let uids: BTreeSet<PodUid> = uids.map(|uid| PodUid(uid.to_owned())).collect();
        cluster.pods_listed(&uids);
    },
};

/// Keeps something known by a watch, for as long as this runs.
pub(crate) async fn follow<K, S>(api: Api<K>, config: watcher::Config, state: &Mutex<S>, told: Told<S>)
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
    K::DynamicType: Default,
{
    let with = |act: &dyn Fn(&mut S)| act(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
    let mut events = Box::pin(watcher::watcher(api, config));
    let mut list = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                list.clear();
                with(&|state| (told.asked)(state));
            }
            Ok(Event::InitApply(object)) => {
                let object = as_value(&object);
                with(&|state| (told.seen)(state, &object));
                // Only who it is matters when all are there.
                list.push(serde_json::json!({"metadata": object["metadata"]}));
            }
            Ok(Event::InitDone) => with(&|state| (told.listed)(state, &list)),
            Ok(Event::Apply(object)) => with(&|state| (told.seen)(state, &as_value(&object))),
            Ok(Event::Delete(object)) => {
                tracing::debug!(name = object.name_any(), "gone");
                with(&|state| (told.gone)(state, &as_value(&object)));
            }
            Err(error) => {
                tracing::debug!(%error, "a watch was interrupted");
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    }
}

#[cfg(test)]
#[path = "kubernetes_tests.rs"]
mod tests;
