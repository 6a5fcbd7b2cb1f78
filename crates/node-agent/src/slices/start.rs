//! Before a container starts: finds whose tokens kubelet names, and writes what that container gets.

use super::store::{NodeParts, Store};
use super::token_holders;
use carve_bookings::{
    ContainerSlices, Offer, Slices, StartRefusal, Started, Starting, TokenHolder, Whose, may_start, pods_with,
};
use carve_cluster_api::{NodeApi, PodView, names};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, watch};

/// What the node has, as far as starting needs it.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeFacts {
    pub(crate) offer: Offer,
    pub(crate) parts: NodeParts,
}

/// Where pods are looked up.
#[tonic::async_trait]
pub(crate) trait Pods: Send + Sync {
    /// A pod, where there is one of that name.
    async fn pod(&self, namespace: &str, name: &str) -> Result<Option<PodView>, String>;
    /// This node's name.
    fn node(&self) -> &str;
}

#[tonic::async_trait]
impl Pods for NodeApi {
    async fn pod(&self, namespace: &str, name: &str) -> Result<Option<PodView>, String> {
        match tokio::time::timeout(PATIENCE, NodeApi::pod(self, namespace, name)).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer in {} s", PATIENCE.as_secs())),
        }
    }

    fn node(&self) -> &str {
        NodeApi::node(self)
    }
}

/// Kubelet gives up after 30 s, and the words should reach it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kubelet tells the API server how a container ended while it starts the next, at times a second later.
const HEARING: Duration = Duration::from_secs(5);

/// The door.
pub(crate) struct Starter {
    pub(crate) pod_resources: PathBuf,
    pub(crate) pods: Box<dyn Pods>,
    pub(crate) facts: watch::Receiver<NodeFacts>,
    pub(crate) store: Store,
    /// One container at a time is held against the others.
    pub(crate) turn: Mutex<()>,
}

/// A container that is about to start.
#[derive(Clone)]
struct Start {
    pod: String,
    uid: String,
    slices: Slices,
    container: ContainerSlices,
    tokens: BTreeSet<String>,
}

impl Start {
    fn make(
        self,
        store: &Store,
        facts: &NodeFacts,
        holders: &[TokenHolder],
        ended: &BTreeSet<String>,
    ) -> Result<Result<(), StartRefusal>, String> {
        let Start { pod, uid, slices, container, tokens } = self;
        let _lock = store.lock()?;
        let mut records = store.records()?;
        let own = records.remove(&uid);
        // Kubelet gives a token to nobody else before its pod has ended.
        let (stale, others): (Vec<Started>, Vec<Started>) =
            records.into_values().partition(|record| !record.all_tokens().is_disjoint(&tokens));
        let count = others.iter().filter(|one| one.is_held(holders) && !ended.contains(&one.pod));
        if let Err(refusal) = may_start(&pod, &container, &slices, &facts.offer, count) {
            return Ok(Err(refusal));
        }
        let before = own.map(|own| own.tokens).unwrap_or_default();
        let mut record = Started { pod, uid, slices: slices.containers, tokens: before };
        record.tokens.insert(container.name.clone(), tokens.clone());
        store.put(&record)?;
        store.write(&record.uid, &container, &tokens, &facts.parts)?;
        let mut named: BTreeSet<String> = others.iter().flat_map(Started::all_tokens).collect();
        named.extend(record.all_tokens());
        for old in &stale {
            store.forget(old, &named)?;
        }
        tracing::info!(pod = record.pod, container = container.name, ?tokens, "ready to start");
        Ok(Ok(()))
    }
}

impl Starter {
    /// Makes everything ready for the container that has exactly these tokens.
    pub(crate) async fn start(&self, tokens: &[String]) -> Result<(), String> {
        let tokens: BTreeSet<String> = tokens.iter().cloned().collect();
        let start = self.whose(tokens).await?;
        let _turn = self.turn.lock().await;
        // Asked again: a pod that came and started in between would not be counted.
        let holders = token_holders(&self.pod_resources).await?;
        let nobody = BTreeSet::new();
        match self.make(&start, &holders, nobody).await? {
            Err(StartRefusal::NoRoom { .. }) => {
                // Kubelet may still list pods that have ended, and what they had is given away again.
                let ended = self.ended(&start.pod, &holders).await;
                self.make(&start, &holders, ended).await?.map_err(|refusal| refusal.to_string())
            }
            made => made.map_err(|refusal| refusal.to_string()),
        }
    }

    /// Finds the container, and gives the API server time to hear how the one before it ended where that must be known.
    async fn whose(&self, tokens: BTreeSet<String>) -> Result<Start, String> {
        let asked = Instant::now();
        loop {
            let holders = token_holders(&self.pod_resources).await?;
            let view = self.pod_of(&tokens, &holders).await?;
            let pod = format!("{}/{}", view.namespace, view.name);
            let slices = self.slices_of(&pod, &view)?;
            let store = self.store.clone();
            let records = tokio::task::spawn_blocking(move || store.records()).await;
            let records = records.map_err(|error| error.to_string())??;
            let before = records.get(&view.uid);
            let (tokens_asked, holders, decided) = (&tokens, &holders, &slices);
            let starting = Starting {
                pod: &pod,
                tokens: tokens_asked,
                holders,
                slices: decided,
                before,
                init: &view.init,
            };
            let container = match starting.whose().map_err(|refusal| refusal.to_string())? {
                Whose::This(container) => container,
                Whose::Unsure { .. } if asked.elapsed() < HEARING => {
                    tokio::time::sleep(HEARING / 20).await;
                    continue;
                }
                Whose::Unsure { again: Some(again), .. } => again,
                Whose::Unsure { again: None, refusal } => return Err(refusal.to_string()),
            };
            return Ok(Start { pod, uid: view.uid, slices, container, tokens });
        }
    }

    async fn make(
        &self,
        start: &Start,
        holders: &[TokenHolder],
        ended: BTreeSet<String>,
    ) -> Result<Result<(), StartRefusal>, String> {
        let (facts, store) = (self.facts.borrow().clone(), self.store.clone());
        let (start, holders) = (start.clone(), holders.to_vec());
        let work = move || start.make(&store, &facts, &holders, &ended);
        tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
    }

    /// The one pod that has these tokens and has not ended.
    async fn pod_of(&self, tokens: &BTreeSet<String>, holders: &[TokenHolder]) -> Result<PodView, String> {
        let words = tokens.iter().cloned().collect::<Vec<_>>().join(", ");
        let named = pods_with(tokens, holders);
        let mut found = Vec::new();
        for pod in &named {
            let (namespace, name) = pod.split_once('/').unwrap_or_default();
            let view = self.pods.pod(namespace, name).await.map_err(|why| {
                format!(
                    "pod {pod} can not be read from the API server, and only it knows which part of which GPU the pod has: {why}; \
                     kubelet tries again"
                )
            })?;
            found.extend(view.filter(|view| !view.ended));
        }
        match (found.pop(), found.is_empty()) {
            (Some(view), true) => Ok(view),
            (Some(_), false) => {
                let pods: Vec<String> = named.into_iter().collect();
                Err(format!("tokens {words} are held by several pods: {}; delete one", pods.join(", ")))
            }
            (None, _) if named.is_empty() => Err(format!(
                "kubelet does not say which pod has {words}; an init container that runs to its end may have parts of GPUs only \
                 where another container of its pod has, too"
            )),
            (None, _) => {
                let pods: Vec<String> = named.into_iter().collect();
                Err(format!(
                    "pod {} has {words}, and the API server has no such pod that runs",
                    pods.join(", ")
                ))
            }
        }
    }

    fn slices_of(&self, pod: &str, view: &PodView) -> Result<Slices, String> {
        let here = self.pods.node();
        if let Some(node) = view.node.as_deref().filter(|node| *node != here) {
            return Err(format!(
                "pod {pod} belongs to node {node}, and this is {here}; the old one of that name must end first"
            ));
        }
        let text = view.annotations.get(names::SLICES).ok_or_else(|| {
            format!(
                "pod {pod} asks for {} and has no annotation {}, which carve's scheduler writes when it binds a pod: it was placed by \
                 another one. Set its schedulerName to carve-scheduler and delete it, so that it is made anew",
                names::SLICE,
                names::SLICES
            )
        })?;
        Slices::from_annotation(text).map_err(|error| {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            format!("pod {pod}, annotation {}: {error}{}", names::SLICES, source.unwrap_or_default())
        })
    }

    /// Other pods with records that have ended, although kubelet may still list them. One that can not be asked about has not.
    async fn ended(&self, own: &str, holders: &[TokenHolder]) -> BTreeSet<String> {
        let mut ended = BTreeSet::new();
        let records = self.store.records().unwrap_or_default();
        for record in records.values().filter(|record| record.pod != own && record.is_held(holders)) {
            let (namespace, name) = record.pod.split_once('/').unwrap_or_default();
            // Others wait for their turn, so nobody is asked again who does not answer.
            let Ok(view) = self.pods.pod(namespace, name).await else { break };
            if let Some(view) = view
                && view.uid == record.uid
                && view.ended
            {
                ended.insert(record.pod.clone());
            }
        }
        ended
    }
}
