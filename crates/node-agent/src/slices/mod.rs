//! The door for pods that carve's scheduler has placed: tokens for kubelet, and the decided part of a GPU when a container starts.
//!
//! ```text
//!   agent ──news: GPUs, health──▶ offer ──▶ the Node's annotation and sums
//!   kubelet ──which tokens──▶ tokens
//!   kubelet ──this container starts──▶ start ──whose tokens──▶ kubelet, ──what was decided──▶ API server
//!                                        └─▶ store: record, limits, CDI file of each token
//!   kubelet ──who still holds tokens──▶ sweep ──▶ store
//!   store ──overseen: in the words of claims──▶ oversight (series, escapes), contexts
//! ```

mod offer;
mod overseen;
mod serving;
mod start;
mod store;
mod sweep;
#[cfg(test)]
mod tests;
mod tokens;

use crate::cdi::Cdi;
use crate::dra::NodeNews;
use crate::dra::{contexts, oversight, shares};
use crate::holders::holders;
use crate::machine::Machine;
use crate::metrics::Metrics;
use crate::options::AgentOptions;
use crate::tell::Reporter;
use crate::usage::Known;
use carve_bookings::TokenHolder;
use carve_cluster_api::{NodeApi, Tone, names};
use carve_dra_driver::{ContextMemory, Places};
use carve_slicing::Settings;
use serving::Serving;
use start::{NodeFacts, Starter};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use store::{NodeParts, Store};
use sweep::Sweep;
use tokio::sync::watch;

/// How long until files of the driver that were not found are looked for again.
const SOON: Duration = Duration::from_secs(5);

/// The door, seen from the agent.
pub(crate) struct SlicesDoor {
    news: watch::Sender<NodeNews>,
    serving: Serving,
}

impl std::fmt::Debug for SlicesDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SlicesDoor")
    }
}

/// What the door is made of.
pub(crate) struct SlicesBeginning<'a> {
    pub(crate) options: &'a AgentOptions,
    pub(crate) settings: Arc<Settings>,
    pub(crate) machine: Machine,
    pub(crate) api: NodeApi,
    pub(crate) reporter: &'a Reporter,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) usage: Arc<Known>,
    pub(crate) news: NodeNews,
}

impl SlicesDoor {
    /// Opens the door.
    pub(crate) fn open(beginning: SlicesBeginning<'_>) -> Self {
        let SlicesBeginning { options, settings, machine, api, reporter, metrics, usage, news } = beginning;
        let limiter = options.dra.limiter.clone();
        if limiter.is_none() {
            let message = "no --limiter is given, and none came with this program: containers can use more of a GPU than their part";
            reporter.event(Tone::Warning, "SlicesNotHeld", message);
        }
        let version = news.node.driver.version.clone();
        let measured = contexts::measured(options, &version);
        let context = match options.dra.limiter_context {
            Some(bytes) => ContextMemory::Told(bytes),
            None => ContextMemory::Measured(measured.clone()),
        };
        let store = Store {
            folder: options.state_dir.join("slices"),
            cdi_folder: options.cdi_folder.clone(),
            places: Places {
                mps_root: settings.mps_root.clone(),
                limits: options.dra.limits.clone(),
                limiter,
            },
            context,
        };
        let (facts, known) = watch::channel(NodeFacts::default());
        let (news, heard) = watch::channel(news);
        let pod_resources = options.pod_resources_socket.clone();
        let starter = Arc::new(Starter {
            pod_resources: pod_resources.clone(),
            pods: Box::new(api.clone()),
            facts: known,
            store: store.clone(),
            turn: Default::default(),
        });
        tokio::spawn(offer::run(api, reporter.clone(), heard.clone()));
        if store.places.limiter.is_some() {
            let (root, turns) = (store.places.limits.clone(), store.clone());
            let in_charge = Arc::new(AtomicBool::new(false));
            tokio::spawn(shares::run(Box::new(move || turns.shares()), root.clone(), Arc::clone(&in_charge)));
            let on_record = overseen::look_up(store.clone());
            if options.dra.limiter_context.is_none() {
                let measuring = contexts::Measuring {
                    machine: machine.clone(),
                    on_record: Arc::clone(&on_record),
                    contexts: measured,
                    within: contexts::by_probe(options, &settings.driver_root, &version),
                    news: heard.clone(),
                };
                tokio::spawn(measuring.run());
            }
            let beginning = oversight::Beginning {
                machine,
                metrics,
                known: usage,
                on_record,
                driver: overseen::DRIVER.to_owned(),
                root,
                proc: PathBuf::from("/proc"),
                own_pod: options.dra.instance.clone(),
                charges: options.dra.limiter_context != Some(0),
                news: heard.clone(),
            };
            tokio::spawn(oversight::run(beginning, in_charge, reporter.clone()));
        }
        tokio::spawn(find_files(Cdi::new(options), settings, reporter.clone(), heard, facts));
        tokio::spawn(sweep::run(store, pod_resources));
        SlicesDoor { news, serving: Serving::new(options.kubelet_socket.clone(), starter) }
    }

    /// The GPUs, or how they are, may have changed.
    pub(crate) fn learn(&self, news: NodeNews) {
        self.news.send_if_modified(|known| {
            let changed = *known != news;
            *known = news;
            changed
        });
    }

    /// Binds and registers what is not yet. Called a few times a second.
    pub(crate) async fn look_after(&mut self) {
        self.serving.look_after().await;
    }

    /// Whether kubelet knows the tokens.
    pub(crate) fn state(&self) -> Result<(), String> {
        if self.serving.is_registered() {
            Ok(())
        } else {
            Err(format!("kubelet has not registered {}", names::SLICE))
        }
    }

    /// Takes the socket away. Pods keep what they have.
    pub(crate) async fn close(&mut self) {
        self.serving.withdraw().await;
    }
}

/// Removes what pods had that kubelet no longer has, at once, and says whose is left, by uid.
pub(crate) fn leave(
    state: &Path,
    cdi_folder: &Path,
    limits: &Path,
    holders: &[TokenHolder],
) -> Result<BTreeSet<String>, String> {
    let store = Store {
        folder: state.join("slices"),
        cdi_folder: cdi_folder.to_owned(),
        places: Places { mps_root: String::new(), limits: limits.to_owned(), limiter: None },
        context: ContextMemory::Told(0),
    };
    if !store.folder.exists() {
        return Ok(BTreeSet::new());
    }
    let mut sweep = Sweep::new(store.clone(), Duration::ZERO);
    let now = Instant::now();
    // Only what was missing at a look before goes, and nobody starts a container any more.
    sweep.look(holders, now)?;
    sweep.look(holders, now)?;
    Ok(store.records()?.into_keys().collect())
}

/// Keeps known what containers need of the node.
async fn find_files(
    mut cdi: Cdi,
    settings: Arc<Settings>,
    reporter: Reporter,
    mut heard: watch::Receiver<NodeNews>,
    facts: watch::Sender<NodeFacts>,
) {
    let mut told = String::new();
    loop {
        let news = heard.borrow_and_update().clone();
        let found = cdi.node_files(&news.node, &settings, news.runtime.clone());
        let missing = found.is_err();
        let files = found.unwrap_or_else(|why| {
            let message = format!("containers can not be given GPUs: {why}");
            if message != told {
                reporter.event(Tone::Warning, "CdiFailed", message.clone());
                told = message;
            }
            facts.borrow().parts.files.clone()
        });
        let minors = news.node.gpus.iter().map(|node| (node.gpu.uuid.clone(), node.gpu.minor)).collect();
        facts.send_replace(NodeFacts { offer: offer::offer(&news), parts: NodeParts { files, minors } });
        tokio::select! {
            changed = heard.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(SOON), if missing => {}
        }
    }
}

/// Which containers hold tokens.
async fn token_holders(pod_resources: &Path) -> Result<Vec<TokenHolder>, String> {
    let held = holders(pod_resources).await.map_err(|why| {
        format!(
            "kubelet does not say on {} who holds which token: {why}; it tries again",
            pod_resources.display()
        )
    })?;
    let mut found: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for one in held.devices.into_iter().filter(|one| one.resource == names::SLICE) {
        found.entry((one.holder.to_string(), one.holder.container)).or_default().insert(one.device);
    }
    let holder = |((pod, container), tokens)| TokenHolder { pod, container, tokens };
    Ok(found.into_iter().map(holder).collect())
}
