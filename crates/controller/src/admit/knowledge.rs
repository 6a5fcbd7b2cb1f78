//! What is known when a pod is admitted: the road of the cluster, its GPUs, and the policies of its namespaces.

use super::fleet::{Slices, fleet};
use super::policies::{Namespaces, Policies};
use crate::cluster::Cluster;
use crate::kubernetes::{Told, follow, within};
use crate::store::StoreError;
use carve_admission::{Fleet, Policy, Road};
use carve_slice_policy::SlicePolicy;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceSlice};
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, Client};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether the cluster has become one with claims.
const LOOK: Duration = Duration::from_secs(30);

/// Everything, shared by those who learn and those who answer.
#[derive(Debug, Clone)]
pub(crate) struct Knowledge {
    cluster: Arc<Mutex<Cluster>>,
    slices: Arc<Mutex<Slices>>,
    road: Arc<Mutex<Option<Road>>>,
    policies: Arc<Mutex<Policies>>,
    namespaces: Arc<Mutex<Namespaces>>,
    /// Whether the API server has been told to ask.
    asked: Arc<AtomicBool>,
    driver: String,
}

/// A value behind a lock; whoever panicked with it changed it by whole steps only.
fn locked<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Knowledge {
    /// Of a cluster with GPUs of a driver; the road, where it is not to be found out.
    pub(crate) fn new(cluster: Arc<Mutex<Cluster>>, driver: &str, road: Option<Road>) -> Self {
        Knowledge {
            cluster,
            slices: Arc::default(),
            road: Arc::new(Mutex::new(road)),
            policies: Arc::default(),
            namespaces: Arc::default(),
            asked: Arc::default(),
            driver: driver.to_owned(),
        }
    }

    fn road(&self) -> Option<Road> {
        *locked(&self.road)
    }

    /// The road, once everything is known that answers depend on: two replicas must answer alike.
    pub(crate) fn settled_road(&self) -> Option<Road> {
        let road = self.road()?;
        let known = match road {
            Road::Claims => locked(&self.slices).is_known(),
            Road::Scheduler => locked(&self.cluster).is_known(),
        };
        let rules_known = locked(&self.policies).is_known() && locked(&self.namespaces).is_known();
        (known && rules_known).then_some(road)
    }

    /// Whether the API server asks about pods: whoever is ready before that lets them pass.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// What is still waited for before pods may come.
    pub(crate) fn waits_for(&self) -> Option<&'static str> {
        if self.settled_road().is_none() {
            return Some("the cluster is not known yet");
        }
        (!self.is_asked())
            .then_some("the API server does not ask yet: there are no webhook configurations 'carve'")
    }

    /// From now on the API server asks.
    pub(crate) fn will_be_asked(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// The policy of a namespace, or why it can not be known.
    pub(crate) fn policy(&self, namespace: &str) -> Result<Policy, String> {
        locked(&self.policies).of(namespace, &locked(&self.namespaces))
    }

    /// The GPUs, as one road has them.
    pub(crate) fn fleet(&self, road: Road) -> Fleet {
        fleet(road, &self.driver, &locked(&self.cluster), &locked(&self.slices))
    }

    /// The driver's name.
    pub(crate) fn driver(&self) -> &str {
        &self.driver
    }

    /// Learns for as long as this runs.
    pub(crate) async fn learn(&self, client: Client) {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        tokio::join!(
            self.learn_road(client.clone()),
            self.learn_policies(client),
            follow(namespaces, watcher::Config::default(), &self.namespaces, NAMESPACES),
        );
    }

    /// A cluster that does not know SlicePolicies has none.
    async fn learn_policies(&self, client: Client) {
        let api: Api<SlicePolicy> = Api::all(client);
        loop {
            match within(PATIENCE, api.list(&ListParams::default().limit(1))).await {
                Ok(_) => follow(api.clone(), watcher::Config::default(), &self.policies, POLICIES).await,
                Err(StoreError::Refused(_)) => locked(&self.policies).listed(&[]),
                Err(error) => tracing::warn!(%error, "SlicePolicies can not be read yet"),
            }
            tokio::time::sleep(if locked(&self.policies).is_known() { LOOK } else { LOOK / 15 }).await;
        }
    }

    async fn learn_road(&self, client: Client) {
        let find = self.road().is_none();
        loop {
            if find {
                match self.find_road(&client).await {
                    Ok(found) => {
                        let before = locked(&self.road).replace(found);
                        if before != Some(found) {
                            tracing::info!("pods with parts of GPUs go by the {} road", found.word());
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "it is not known yet whether the cluster has claims")
                    }
                }
            }
            if self.road() == Some(Road::Claims) {
                // From here on there is a class, and so the kind of objects.
                let api: Api<ResourceSlice> = Api::all(client.clone());
                let config = watcher::Config::default().fields(&format!("spec.driver={}", self.driver));
                follow(api, config, &self.slices, SLICES).await;
            }
            tokio::time::sleep(if self.road().is_none() { LOOK / 15 } else { LOOK }).await;
        }
    }

    /// Claims, where the API server has them and somebody installed our classes.
    async fn find_road(&self, client: &Client) -> Result<Road, StoreError> {
        let domain = self.driver.strip_prefix("gpu.").unwrap_or(&self.driver);
        let classes: Api<DeviceClass> = Api::all(client.clone());
        let found = within(PATIENCE, classes.get_opt(&format!("fraction.{domain}"))).await?;
        Ok(if found.is_some() { Road::Claims } else { Road::Scheduler })
    }
}

const POLICIES: Told<Policies> =
    Told { asked: |_| {}, seen: Policies::seen, gone: Policies::gone, listed: Policies::listed };
const NAMESPACES: Told<Namespaces> =
    Told { asked: |_| {}, seen: Namespaces::seen, gone: Namespaces::gone, listed: Namespaces::listed };
const SLICES: Told<Slices> =
    Told { asked: |_| {}, seen: Slices::seen, gone: Slices::gone, listed: Slices::listed };

#[cfg(test)]
mod tests {
    use super::{Knowledge, locked};
    use carve_admission::Road;

    #[test]
    fn a_replica_is_ready_when_it_knows_the_cluster_and_is_asked() {
        let knowledge = Knowledge::new(std::sync::Arc::default(), "gpu.carve.dev", Some(Road::Claims));
        let waits = |words: &str| knowledge.waits_for().is_some_and(|why| why.contains(words));
        assert!(waits("not known yet"));
        locked(&knowledge.slices).listed(&[]);
        locked(&knowledge.policies).listed(&[]);
        assert!(waits("not known yet"));
        locked(&knowledge.namespaces).listed(&[]);
        assert!(waits("does not ask yet"));
        // Whoever answers and whoever registers share it.
        knowledge.clone().will_be_asked();
        assert_eq!(knowledge.waits_for(), None);
    }
}
