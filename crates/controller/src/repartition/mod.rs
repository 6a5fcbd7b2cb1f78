//! MIG cut on demand: what watches show becomes facts, `carve_repartition` decides, and what it decides is written down and ordered.
//!
//! ```text
//!   nodes, pods, policies, plans ──watch──▶ Objects ──▶ progress: what agents have answered ──┐
//!                                              │                                              ├──▶ PlanStore
//!                                              └──▶ facts ──▶ carve_repartition::decide ──────┘
//! ```
//! A SlicePlan is written before its node is ordered anything, so that a controller that dies in between is followed by one that goes on.
//! Only the replica that leads acts. What is stored is behind [`PlanStore`], so that the same code can run over something else.

mod act;
mod facts;
mod kubernetes;
mod objects;
mod policies;
mod progress;
mod store;
#[cfg(test)]
mod tests;
mod told;

use crate::metrics::Metrics;
use act::Repartition;
use kube::Client;
use objects::Objects;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

pub use store::{About, PlanStore, Tone};

/// How long news are collected before they are acted upon: pods come in groups.
const TOGETHER: Duration = Duration::from_millis(200);
/// How often time alone is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Cuts MIG on demand for as long as this runs, whenever this replica leads.
pub async fn run(client: Client, metrics: Metrics, leads: impl Fn() -> bool + Send) {
    let objects = Arc::new(Mutex::new(Objects::default()));
    let news = Arc::new(Notify::new());
    let watching = kubernetes::follow_all(client.clone(), Arc::clone(&objects), Arc::clone(&news));
    let mut repartition = Repartition::new(kubernetes::Kubernetes::new(client), objects, metrics);
    let working = async {
        loop {
            tokio::select! {
                () = news.notified() => tokio::time::sleep(TOGETHER).await,
                () = tokio::time::sleep(LOOK) => {}
            }
            if leads() {
                repartition.look(now()).await;
            } else {
                repartition.forget_what_was_told();
            }
        }
    };
    tokio::join!(watching, working);
}

/// Seconds since 1970.
pub(crate) fn now() -> carve_repartition::Seconds {
    let now = k8s_openapi::jiff::Timestamp::now().as_second();
    carve_repartition::Seconds(u64::try_from(now).unwrap_or(0))
}

/// A time as Kubernetes writes it.
pub(crate) fn written(at: carve_repartition::Seconds) -> String {
    let second = i64::try_from(at.0).unwrap_or(i64::MAX);
    k8s_openapi::jiff::Timestamp::from_second(second).unwrap_or_default().to_string()
}

/// A time as Kubernetes writes it, read.
pub(crate) fn read(text: &str) -> Option<carve_repartition::Seconds> {
    let at: k8s_openapi::jiff::Timestamp = text.parse().ok()?;
    u64::try_from(at.as_second()).ok().map(carve_repartition::Seconds)
}
