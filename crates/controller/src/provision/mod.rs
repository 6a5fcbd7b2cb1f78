//! Machines for policies: Karpenter's NodePools and NodeOverlays are kept as policies say, and pods are let onto new nodes that offer what was
//! promised of them. Where Karpenter can not be told of slices, pods stand in for those that wait.
//!
//! ```text
//!   policies, NodePools, NodeOverlays, nodes of pools ──watch──▶ Objects ──▶ decide ──▶ ProvisionStore
//!                                                                              │
//!                  carve_karpenter: compile, keep, changes, judge ◀───────────┘
//! ```
//! Everything that is decided depends on objects alone, so that a controller that starts anew goes on as the one before; what it remembers
//! is since when a node is not what it was. Only the replica that leads acts.

mod act;
mod bring;
mod conditions;
mod decide;
mod kubernetes;
mod objects;
mod pods;
mod stand_ins;
#[cfg(test)]
mod stand_ins_tests;
mod store;
#[cfg(test)]
mod tests;

use crate::metrics::Metrics;
use act::Provisioning;
use kube::Client;
use objects::Objects;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

pub(crate) use kubernetes::MANAGER;
pub(crate) use pods::STAND_IN;
pub(crate) use stand_ins::CLASS as STAND_IN_CLASS;
pub use store::{About, ProvisionStore};

/// How long news are collected before they are acted upon.
const TOGETHER: Duration = Duration::from_millis(200);
/// How often time alone is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps machines coming for as long as this runs, whenever this replica leads.
/// Pods that stand in for others are made in `namespace`.
pub async fn run(client: Client, namespace: &str, metrics: Metrics, leads: impl Fn() -> bool + Send) {
    let objects = Arc::new(Mutex::new(Objects::of(namespace)));
    let news = Arc::new(Notify::new());
    let watching = kubernetes::follow_all(client.clone(), namespace, Arc::clone(&objects), Arc::clone(&news));
    let mut provisioning =
        Provisioning::new(kubernetes::Kubernetes::new(client, namespace), objects, metrics);
    let working = async {
        loop {
            tokio::select! {
                () = news.notified() => tokio::time::sleep(TOGETHER).await,
                () = tokio::time::sleep(LOOK) => {}
            }
            if leads() {
                provisioning.look(crate::repartition::now()).await;
            }
        }
    };
    tokio::join!(watching, working);
}
