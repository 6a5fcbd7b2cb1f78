//! Other programs of the node that keep GPUs open, paused while a GPU is reset.
//!
//! NVIDIA's operator runs its own GPU clients where labels say so; a label with another value takes the client away from
//! the node. Only a reset needs that, and only clients that run here are touched.

use carve_cluster_api::NodeApi;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Labels that keep a client on the node, and what its pods are called by.
const CLIENTS: [(&str, &str); 3] = [
    ("nvidia.com/gpu.deploy.dcgm", "nvidia-dcgm"),
    ("nvidia.com/gpu.deploy.dcgm-exporter", "nvidia-dcgm-exporter"),
    ("nvidia.com/gpu.deploy.nvsm", "nvidia-nvsm"),
];
/// NVIDIA's own word for it.
const PAUSED: &str = "paused-for-mig-change";
/// How long a client may take to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes the clients away from the node and waits for them to go. Tells which labels were changed.
pub(super) async fn pause(api: &NodeApi) -> Vec<&'static str> {
    let view = api.view().await.unwrap_or_default();
    let running = |(label, _): &&(&str, &str)| view.labels.get(*label).is_some_and(|value| value == "true");
    let paused: Vec<&(&'static str, &str)> = CLIENTS.iter().filter(running).collect();
    if paused.is_empty() {
        return Vec::new();
    }
    set(api, paused.iter().map(|(label, _)| *label), PAUSED).await;
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        let pods = api.pods().await.unwrap_or_default();
        let still_there = pods.iter().any(|pod| {
            let app = pod.labels.get("app").map_or("", String::as_str);
            paused.iter().any(|(_, name)| app == *name)
        });
        if !still_there {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    paused.into_iter().map(|(label, _)| *label).collect()
}

/// Lets clients come back. At the start also those that an agent paused which did not live to see the end.
pub(super) async fn resume(api: &NodeApi, labels: &[&'static str]) {
    set(api, labels.iter().copied(), "true").await;
}

/// Labels that an interrupted change left paused.
pub(super) async fn left_paused(api: &NodeApi) -> Vec<&'static str> {
    let view = api.view().await.unwrap_or_default();
    let paused = |(label, _): &&(&str, &str)| view.labels.get(*label).is_some_and(|value| value == PAUSED);
    CLIENTS.iter().filter(paused).map(|(label, _)| *label).collect()
}

async fn set(api: &NodeApi, labels: impl Iterator<Item = &'static str>, value: &str) {
    let labels: BTreeMap<String, Option<String>> =
        labels.map(|label| (label.to_owned(), Some(value.to_owned()))).collect();
    if labels.is_empty() {
        return;
    }
    if let Err(error) = api.merge_labels(&labels).await {
        tracing::warn!(%error, value, "labels of other GPU clients can not be set");
    }
}
