//! The door for claims: devices of every GPU in every mode, published for the scheduler and made ready when kubelet asks.
//!
//! ```text
//!   agent ──news: GPUs, health──▶ publish ──▶ ResourceSlices, health stream
//!                                    └─ the driver's files ─┐
//!   kubelet ──prepare, unprepare──▶ driver ──▶ preparer (records, GPUs, CDI) ──▶ MPS daemons
//!   API server ──claims──▶ sweep ──▶ what vanished claims have left
//!   contexts ──what a process takes of a GPU──▶ preparer (limits of fractions)
//!   containers ──what they use──▶ shares (whose turn it is), oversight (series, and who escapes)
//! ```

mod attribution;
pub(crate) mod contexts;
mod daemons;
mod driver;
mod facts;
pub(crate) mod on_record;
pub(crate) mod oversight;
mod publish;
pub(crate) mod shares;
mod sweep;

use crate::cdi::Cdi;
use crate::holders::ClaimHeld;
use crate::machine::Machine;
use crate::metrics::Metrics;
use crate::options::AgentOptions;
use crate::tell::Reporter;
use crate::usage::Known;
use attribution::Attribution;
use carve_cluster_api::{NodeApi, Tone};
use carve_dra_driver::{
    ContextMemory, NodeFiles, Places, Preparer, PreparerSettings, RecordStore, Registered, SmiTurns,
    SocketPlaces, Steps, serve,
};
use carve_mig_manager::StateDir;
use carve_slicing::{NodeGpus, PartId, Settings};
use daemons::{Daemons, smi};
use driver::ClaimDriver;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::watch;

/// What the agent tells the door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeNews {
    pub(crate) node: NodeGpus,
    /// GPUs and MIG devices that are not well, and why.
    pub(crate) sick: BTreeMap<PartId, String>,
    /// What the node's status calls its container runtime.
    pub(crate) runtime: Option<String>,
}

/// The door, seen from the agent.
#[derive(Debug)]
pub(crate) struct DraDoor {
    news: watch::Sender<NodeNews>,
    published: watch::Receiver<Result<(), String>>,
    registered: watch::Receiver<Registered>,
    attribution: Attribution,
    held: watch::Sender<Vec<ClaimHeld>>,
    stop: watch::Sender<bool>,
    serving: Option<tokio::task::JoinHandle<()>>,
}

/// What the door is made of.
pub(crate) struct DraBeginning {
    pub(crate) options: AgentOptions,
    pub(crate) settings: Arc<Settings>,
    pub(crate) machine: Machine,
    pub(crate) api: NodeApi,
    pub(crate) reporter: Reporter,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) usage: Arc<Known>,
    pub(crate) boot: String,
    pub(crate) news: NodeNews,
}

/// How long until a door that can not be opened is tried again.
const AGAIN: Duration = Duration::from_secs(2);

impl DraDoor {
    /// Opens the door: from now on claims are served.
    pub(crate) fn open(beginning: DraBeginning) -> Self {
        let DraBeginning { options, settings, machine, api, reporter, metrics, usage, boot, news } =
            beginning;
        let dra = options.dra.clone();
        let version = news.node.driver.version.clone();
        let (news, heard) = watch::channel(news);
        let (files, found) = watch::channel(NodeFiles::default());
        let (state, published) = watch::channel(Err("slices are not published yet".to_owned()));
        let (healthy, health) = watch::channel(Vec::new());
        let (registration, registered) = watch::channel(Registered::No);
        let (held, holders) = watch::channel(Vec::new());
        let (stop, stopped) = watch::channel(false);

        let folder = options.state_dir.join("dra");
        let attribution = Attribution::new(&options.state_dir, &dra.driver_name, &boot, Arc::clone(&metrics));
        let beginning = oversight::Beginning {
            machine: machine.clone(),
            metrics: Arc::clone(&metrics),
            known: usage,
            on_record: on_record::of_claims(RecordStore::of_agent(&options.state_dir), boot.clone(), holders),
            driver: dra.driver_name.clone(),
            root: dra.limits.clone(),
            proc: PathBuf::from("/proc"),
            own_pod: dra.instance.clone(),
            // Zero says that contexts are beside shares, and nobody can tell code from them.
            charges: dra.limiter_context != Some(0),
            news: heard.clone(),
        };
        let on_record = Arc::clone(&beginning.on_record);
        // Without a limiter nobody counts, and what is not known is not waited for.
        let measured = contexts::measured(&options, &version);
        let context = match dra.limiter_context {
            _ if dra.limiter.is_none() => ContextMemory::Told(0),
            Some(bytes) => ContextMemory::Told(bytes),
            None => ContextMemory::Measured(measured.clone()),
        };
        let preparer = Arc::new(Preparer::new(PreparerSettings {
            driver: dra.driver_name.clone(),
            pool: api.node().to_owned(),
            boot,
            cdi_folder: options.cdi_folder.clone(),
            mig: StateDir::new(options.state_dir.clone()),
            places: Places {
                mps_root: settings.mps_root.clone(),
                limits: dra.limits.clone(),
                limiter: dra.limiter.clone(),
            },
            limits_here: dra.limits.clone(),
            context,
            turns: smi(&options, &settings, &version).map(|(program, environment)| {
                Arc::new(SmiTurns { program, environment }) as Arc<dyn carve_dra_driver::SetTurns>
            }),
            steps: Steps::default(),
            folder,
        }));
        let within = contexts::by_probe(&options, &settings.driver_root, &version);
        let daemons = Arc::new(Daemons::new(&options, &settings, version, Arc::clone(&preparer)));
        let claims = Arc::new(ClaimDriver {
            preparer: Arc::clone(&preparer),
            machine: machine.clone(),
            api: api.clone(),
            daemons,
            files: found,
            metrics,
            driver: dra.driver_name.clone(),
            enforced: dra.limiter.is_some(),
        });
        let measuring = contexts::Measuring {
            machine: machine.clone(),
            on_record,
            contexts: measured,
            within,
            news: heard.clone(),
        };
        let publisher = publish::Publish {
            cdi: Cdi::new(&options),
            settings,
            mode: dra.mode,
            driver: dra.driver_name.clone(),
            machine: machine.clone(),
            api: api.clone(),
            reporter: reporter.clone(),
            preparer: Arc::clone(&preparer),
            files,
            healthy,
            state,
            only_whole: false,
            told: Default::default(),
            tables: BTreeMap::new(),
        };
        tokio::spawn(daemons::run(Arc::clone(&claims.daemons), Arc::clone(&claims.metrics)));
        tokio::spawn(publisher.run(heard));
        tokio::spawn(sweep::run(Arc::clone(&claims), reporter.clone()));
        if dra.limiter.is_some() {
            let in_charge = Arc::new(AtomicBool::new(false));
            tokio::spawn(shares::run(
                shares::of_claims(Arc::clone(&preparer)),
                dra.limits.clone(),
                Arc::clone(&in_charge),
            ));
            tokio::spawn(oversight::run(beginning, in_charge, reporter.clone()));
            if dra.limiter_context.is_none() {
                tokio::spawn(measuring.run());
            }
        }
        let places = SocketPlaces {
            plugins: dra.plugins,
            registry: dra.registry,
            driver: dra.driver_name,
            instance: dra.instance,
        };
        let serving = tokio::spawn(async move {
            let end = |mut stopped: watch::Receiver<bool>| async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            while !*stopped.borrow() {
                let (health, registration) = (health.clone(), registration.clone());
                let served =
                    serve(places.clone(), Arc::clone(&claims), health, registration, end(stopped.clone()))
                        .await;
                match served {
                    Ok(()) => return,
                    Err(error) => {
                        reporter.event(Tone::Warning, "ClaimsNotServed", error.to_string());
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            }
        });
        DraDoor { news, published, registered, attribution, held, stop, serving: Some(serving) }
    }

    /// The GPUs, or how they are, may have changed.
    pub(crate) fn learn(&self, news: NodeNews) {
        self.news.send_if_modified(|known| {
            let changed = *known != news;
            *known = news;
            changed
        });
    }

    /// Tells in metrics which containers have which devices of claims.
    pub(crate) async fn attribute(&self, held: Vec<ClaimHeld>) {
        self.held.send_replace(held.clone());
        self.attribution.learn(held).await;
    }

    /// Whether claims can be served.
    pub(crate) fn state(&self) -> Result<(), String> {
        self.published.borrow().clone()?;
        match &*self.registered.borrow() {
            Registered::Yes => Ok(()),
            Registered::No => Err("kubelet has not registered the driver for claims".to_owned()),
            Registered::Refused(why) => Err(format!("kubelet does not take the driver for claims: {why}")),
        }
    }

    /// Takes the sockets away. Pods keep what they have, and slices stay for the next agent.
    pub(crate) async fn close(&mut self) {
        self.stop.send_replace(true);
        if let Some(serving) = self.serving.take() {
            let _ = serving.await;
        }
    }
}

/// How claims are served.
#[derive(Debug, Clone)]
pub struct DraOptions {
    /// Name of the driver.
    pub driver_name: String,
    /// In which ways GPUs are offered.
    pub mode: carve_dra::Mode,
    /// kubelet's folder for sockets of plugins.
    pub plugins: PathBuf,
    /// kubelet's folder in which plugins show up.
    pub registry: PathBuf,
    /// What tells this agent from another on the same node, such as the uid of its pod.
    pub instance: Option<String>,
    /// The limiter's library on the host.
    pub limiter: Option<PathBuf>,
    /// The library that this program came with, to be put on the host where none is named.
    pub shipped_limiter: Option<PathBuf>,
    /// Bytes that a process's context takes of a GPU, which shares contain; measured where it is not said.
    pub limiter_context: Option<u64>,
    /// Where limits of shares are, here and on the host alike.
    pub limits: PathBuf,
}
