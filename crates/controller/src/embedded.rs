//! The controller without its doors, for a process that keeps the objects itself.

use crate::admit::{Knowledge, routes};
use crate::cluster::Cluster;
use crate::kubernetes::Kubernetes;
use crate::metrics::Metrics;
use crate::repartition;
use axum::Router;
use carve_admission::Road;
use kube::Client;
use std::sync::{Arc, Mutex};

/// Admission and MIG on demand; whoever embeds it places the pods.
#[derive(Clone)]
pub struct Embedded {
    client: Client,
    cluster: Arc<Mutex<Cluster>>,
    knowledge: Knowledge,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Embedded")
    }
}

impl Embedded {
    /// Over whatever answers like an API server. Parts of GPUs go by the scheduler road.
    pub fn new(client: Client) -> Self {
        let cluster = Arc::new(Mutex::new(Cluster::default()));
        let knowledge = Knowledge::new(Arc::clone(&cluster), "gpu.carve.dev", Some(Road::Scheduler));
        // By whoever holds it; there is nobody to tell.
        knowledge.will_be_asked();
        Embedded { client, cluster, knowledge }
    }

    /// Answers AdmissionReviews under `/admit` and `/validate`; `/readyz` says whether it can.
    pub fn admission(&self) -> Router {
        routes(self.knowledge.clone(), self.client.clone())
    }

    /// Follows the objects, and cuts MIG on demand, for as long as this runs.
    pub async fn run(&self) {
        let kubernetes = Kubernetes::new(self.client.clone());
        tokio::join!(
            kubernetes.follow(Arc::clone(&self.cluster)),
            self.knowledge.learn(self.client.clone()),
            repartition::run(self.client.clone(), Metrics::default(), || true),
        );
    }
}
