//! Answers a kube-scheduler, and binds: the only moment at which something is written.

use crate::cluster::Cluster;
use crate::store::{Store, StoreError};
use carve_bookings::{Booking, PodUid, Slices};
use carve_extender::wire::{
    Args, BindingArgs, BindingResult, FilterResult, HostPriority, Pod, PreemptionArgs, PreemptionResult,
};
use carve_extender::{Asked, binding, decide, preempt, prioritize, shortlist};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Said while lists are still being read.
const NOT_YET: &str = "carve's controller does not know the cluster yet; the scheduler tries again";
/// Said while another replica leads.
const NOT_HERE: &str = "another replica of carve's controller leads; the scheduler tries again";

/// The extender.
#[derive(Clone)]
pub struct Extender {
    cluster: Arc<Mutex<Cluster>>,
    store: Arc<dyn Store>,
    leads: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for Extender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extender").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl Extender {
    /// Over what is known and what can be written.
    pub fn new(cluster: Arc<Mutex<Cluster>>, store: Arc<dyn Store>) -> Self {
        Extender { cluster, store, leads: Arc::new(|| true) }
    }

    /// The same, which answers only while a replica leads.
    #[must_use]
    pub fn while_leading(self, leads: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Extender { leads: Arc::new(leads), ..self }
    }

    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        // Whoever panicked with it changed the book by whole steps only.
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether answers mean something: the cluster is known, and nobody else decides.
    pub fn is_ready(&self) -> bool {
        self.why_not(&self.cluster()).is_none()
    }

    fn why_not(&self, cluster: &Cluster) -> Option<&'static str> {
        match (cluster.is_known(), (self.leads)()) {
            (false, _) => Some(NOT_YET),
            (true, false) => Some(NOT_HERE),
            (true, true) => None,
        }
    }

    /// Which nodes will do.
    pub fn filter(&self, args: &Args) -> FilterResult {
        let wrong = |error: String| FilterResult { error, ..FilterResult::default() };
        let cluster = self.cluster();
        if let Some(why) = self.why_not(&cluster) {
            return wrong(why.to_owned());
        }
        let Some(nodes) = &args.node_names else {
            return wrong("nodes came as objects; set nodeCacheCapable: true for this extender".to_owned());
        };
        match Asked::of(&args.pod) {
            Ok(asked) => shortlist(cluster.book(), nodes, &asked),
            // No node can change that, and it should stand in the pod's events.
            Err(error) => {
                let all = nodes.iter().map(|node| (node.clone(), error.to_string())).collect();
                FilterResult { failed_and_unresolvable_nodes: all, ..FilterResult::default() }
            }
        }
    }

    /// How good nodes are.
    pub fn prioritize(&self, args: &Args) -> Vec<HostPriority> {
        let nodes = args.node_names.as_deref().unwrap_or_default();
        match Asked::of(&args.pod) {
            Ok(asked) => prioritize(self.cluster().book(), nodes, &asked),
            Err(_) => nodes.iter().map(|node| HostPriority { host: node.clone(), score: 0 }).collect(),
        }
    }

    /// Who would have to go.
    pub fn preempt(&self, args: &PreemptionArgs) -> PreemptionResult {
        let cluster = self.cluster();
        match Asked::of(&args.pod) {
            Ok(asked) if self.why_not(&cluster).is_none() => {
                preempt(cluster.book(), &args.node_name_to_meta_victims, &asked)
            }
            _ => PreemptionResult::default(),
        }
    }

    /// Binds a pod to a node, with the parts that it gets there.
    pub async fn bind(&self, args: &BindingArgs) -> BindingResult {
        match self.try_bind(args).await {
            Ok(()) => BindingResult::default(),
            Err(error) => {
                tracing::info!(
                    pod = format!("{}/{}", args.pod_namespace, args.pod_name),
                    node = args.node,
                    error,
                    "not bound"
                );
                BindingResult { error }
            }
        }
    }

    /// Tries with what a watch has shown, which saves a question to the API server. Where that is out of date the API server refuses it, because
    /// the version is not that of the pod; then the pod itself is read.
    async fn try_bind(&self, args: &BindingArgs) -> Result<(), String> {
        let shown = self.cluster().waiting(&PodUid(args.pod_uid.clone())).cloned();
        if let Some(pod) = shown {
            match self.bind_as(args, pod).await {
                Err(NotBound::Refused(_)) => {}
                done => return done.map_err(NotBound::words),
            }
        }
        let pod = self.pod(args).await.map_err(|error| error.to_string())?.ok_or("the pod is gone")?;
        if is_bound(&pod) {
            self.cluster().pod_seen(&pod);
            return Err("the pod is bound already".to_owned());
        }
        self.bind_as(args, pod).await.map_err(NotBound::words)
    }

    /// Binds a pod that was read so.
    async fn bind_as(&self, args: &BindingArgs, pod: Value) -> Result<(), NotBound> {
        let (asked, version) = read(pod)?;
        let (slices, tried) = self.book(&asked, &args.node)?;
        match self.store.bind(&binding(args, &version, &slices)).await {
            Ok(()) => Ok(()),
            Err(error) => self.settle(args, &asked.uid, &tried, error).await,
        }
    }

    /// The pod as the API server has it: what it asks for is taken from nowhere else.
    async fn pod(&self, args: &BindingArgs) -> Result<Option<Value>, StoreError> {
        let found = self.store.pod(&args.pod_namespace, &args.pod_name).await?;
        Ok(found.filter(|pod| pod["metadata"]["uid"] == args.pod_uid.as_str()))
    }

    /// Decides and books in one step, so that nobody else is given the same before the API server shows it. If the pod is on its way
    /// to another node, because a scheduler gave up on that or there are two, both are held until it is known which counts.
    fn book(&self, asked: &Asked, node: &str) -> Result<(Slices, Booking), String> {
        let mut cluster = self.cluster();
        if let Some(why) = self.why_not(&cluster) {
            return Err(why.to_owned());
        }
        let slices = decide(cluster.book(), node, asked).map_err(|misfit| misfit.to_string())?;
        let booking = Booking::new(&asked.pod, node, &slices, asked.priority, false);
        cluster.book_mut().hold(asked.uid.clone(), booking.clone());
        Ok((slices, booking))
    }

    /// It was not bound, or nobody knows: the pod itself is asked. While that can not be known, it stays booked, and the scheduler tries again.
    async fn settle(
        &self,
        args: &BindingArgs,
        uid: &PodUid,
        tried: &Booking,
        error: StoreError,
    ) -> Result<(), NotBound> {
        match (self.pod(args).await, &error) {
            (Ok(Some(pod)), _) if is_bound(&pod) => {
                self.cluster().pod_seen(&pod);
                let here = pod["spec"]["nodeName"] == args.node.as_str();
                if here { Ok(()) } else { Err("the pod was bound to another node".to_owned().into()) }
            }
            (Ok(None), _) => {
                self.cluster().book_mut().release(uid);
                Err("the pod is gone".to_owned().into())
            }
            (_, StoreError::Refused(_)) => {
                self.cluster().book_mut().take_back(uid, tried);
                Err(NotBound::Refused(error.to_string()))
            }
            (_, StoreError::NoAnswer(_)) => {
                Err(format!("it is not known yet whether the pod was bound: {error}").into())
            }
        }
    }
}

/// Why a pod was not bound.
enum NotBound {
    /// The API server refused it and has the pod on no node: it may take it with another version.
    Refused(String),
    /// Trying again at once would not help.
    Else(String),
}

impl NotBound {
    fn words(self) -> String {
        match self {
            NotBound::Refused(words) | NotBound::Else(words) => words,
        }
    }
}

impl From<String> for NotBound {
    fn from(words: String) -> Self {
        NotBound::Else(words)
    }
}

/// What a pod asks for, and its version.
fn read(pod: Value) -> Result<(Asked, String), String> {
    let version = pod["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let pod: Pod = serde_json::from_value(pod).map_err(|error| format!("the pod does not read: {error}"))?;
    Ok((Asked::of(&pod).map_err(|error| error.to_string())?, version))
}

fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty())
}

#[cfg(test)]
#[path = "extender_tests.rs"]
mod tests;
