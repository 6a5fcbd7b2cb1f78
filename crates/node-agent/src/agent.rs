//! The one task that owns everything the agent knows, and the loop in which it learns and acts.
//!
//! ```text
//!   node read ─┐
//!   config ────┤                         ┌─▶ CDI file
//!   labels ────┼─▶ facts ─▶ reconcile ───┼─▶ MPS daemons
//!   XIDs ──────┤     (offer, health,     ├─▶ kubelet's list
//!   MPS ───────┤      who holds what)    ├─▶ labels, conditions, metrics
//!   MIG ───────┘                         └─▶ checkpoint
//! ```
//! Whatever happens, the same function computes from all facts what should be offered, and the doors make it so. The CDI
//! file and the MPS daemon of a device are there before kubelet may give the device away.

mod act;
mod doors;
mod wish;

use crate::cdi::Cdi;
use crate::checkpoint::Checkpoint;
use crate::configuration::{self, Found, Named};
use crate::dra::{DraDoor, NodeNews};
use crate::driver_links::DriverLinks;
use crate::easel::Easel;
use crate::holders::holders;
use crate::labels::{Publisher, read_fabric};
use crate::ledger::Desk;
use crate::machine::{Machine, OpenHost};
use crate::metrics::Metrics;
use crate::mig::{MigNews, MigReport, MigState, Wish};
use crate::mps::MpsDoor;
use crate::options::{AgentOptions, ConfigSource, Job};
use crate::plugins::Plugins;
use crate::rivals::{Rival, all_parts, rivals};
use crate::slices::SlicesDoor;
use crate::tell::Reporter;
use crate::usage::{Known, MachineFacts};
use crate::validation::Basis;
use carve_cluster_api::{NodeApi, NodeView, Tone, names};
use carve_formats::DevicePluginConfig;
use carve_gpu_host::{Fabric, GpuEvent, RecoveryAction};
use carve_gpu_model::{GpuIndex, GpuUuid, Xid};
use carve_placement::preferred::Topology;
use carve_slicing::health::{Health, HealthBook, HealthNews, HealthSettings, Probe, Seconds};
use carve_slicing::{Held, MigMinors, NodeGpus, Offer, PartId, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// Everything that can be read of the GPUs in one go.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) node: NodeGpus,
    pub(crate) topology: Arc<Topology>,
    pub(crate) fabric: BTreeMap<GpuIndex, Fabric>,
    /// What the driver wants done about each GPU, where it can tell.
    pub(crate) recovery: BTreeMap<GpuUuid, RecoveryAction>,
}

/// The agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) options: AgentOptions,
    pub(crate) metrics: Arc<Metrics>,
    /// What whoever divides the time of GPUs is to know.
    pub(crate) usage: Arc<Known>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) easel: Arc<Easel>,
    pub(crate) reporter: Reporter,
    pub(crate) api: Option<NodeApi>,
    pub(crate) machine: Machine,
    pub(crate) plugins: Plugins,
    pub(crate) readiness: watch::Sender<Result<(), String>>,
    pub(crate) wishes: watch::Sender<Wish>,
    /// What is sick, for the MIG manager.
    pub(crate) sick: watch::Sender<BTreeSet<PartId>>,
    pub(crate) dra: Option<DraDoor>,
    pub(crate) slices: Option<SlicesDoor>,

    node: NodeGpus,
    topology: Arc<Topology>,
    fabric: BTreeMap<GpuIndex, Fabric>,
    view: Option<NodeView>,
    named: Named,
    settings: Arc<Settings>,
    config: DevicePluginConfig,
    tried: Option<Found>,
    config_trouble: Option<String>,
    /// Whether any configuration was good so far; without one nothing is offered.
    configured: bool,
    offer: Offer,
    offer_trouble: Option<String>,
    health: HealthBook,
    held: Vec<Held>,
    /// Whether kubelet has ever said who holds what; until then `held` proves nothing.
    holders_known: bool,
    holding_back: BTreeSet<PartId>,
    rivals: Vec<Rival>,
    aside: bool,
    cdi: Cdi,
    pub(crate) mps: MpsDoor,
    publisher: Publisher,
    labelled_at: u64,
    checkpoint: Checkpoint,
    boot: String,
    mig: Option<MigReport>,
    remarks: BTreeSet<String>,
    /// What hinders now, by the reason under which it was told.
    troubles: BTreeMap<&'static str, String>,
    driver_answers: bool,
}

/// How long the driver may take to tell about all GPUs before it counts as hanging.
const READING: Duration = Duration::from_secs(30);

pub(crate) fn now() -> Seconds {
    Seconds(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()))
}

/// Which boot of the machine this is.
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Reads everything about the GPUs. How they are connected is asked anew only if they are others than before: that is
/// hundreds of questions, and the answer does not change while the machine runs.
pub(crate) async fn read(
    machine: &Machine,
    before: Option<(NodeGpus, Arc<Topology>)>,
) -> Result<Reading, String> {
    let minors = std::fs::read_to_string("/proc/driver/nvidia-caps/mig-minors").unwrap_or_default();
    let minors = MigMinors::parse(&minors);
    let job = move |host: &mut dyn carve_gpu_host::GpuHost| {
        let node = NodeGpus::read(host, &minors).map_err(|error| error.to_string())?;
        let there = |node: &NodeGpus| -> Vec<GpuUuid> {
            node.gpus.iter().filter(|gpu| !gpu.lost).map(|gpu| gpu.gpu.uuid.clone()).collect()
        };
        let topology = match before {
            Some((before, topology)) if there(&before) == there(&node) => topology,
            _ => {
                let indices = node.gpus.iter().filter(|gpu| !gpu.lost).map(|gpu| gpu.gpu.index);
                Arc::new(Topology::new(indices, |from, to| host.link(from, to).ok()))
            }
        };
        let fabric = read_fabric(host, &node);
        let there = node.gpus.iter().filter(|gpu| !gpu.lost).map(|gpu| &gpu.gpu);
        let action = |gpu: &carve_gpu_host::Gpu| {
            Some((gpu.uuid.clone(), host.recovery_action(gpu.index).ok().flatten()?))
        };
        let recovery = there.filter_map(action).collect();
        Ok::<_, String>(Reading { node, topology, fabric, recovery })
    };
    match tokio::time::timeout(READING, machine.ask(job)).await {
        Ok(Ok(reading)) => reading,
        Ok(Err(gone)) => Err(gone.to_string()),
        Err(_) => Err(format!("the driver does not answer for {} s", READING.as_secs())),
    }
}

/// What the agent is made of at the start.
pub(crate) struct Beginning {
    pub(crate) options: AgentOptions,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) easel: Arc<Easel>,
    pub(crate) reporter: Reporter,
    pub(crate) api: Option<NodeApi>,
    pub(crate) machine: Machine,
    pub(crate) reading: Reading,
    pub(crate) readiness: watch::Sender<Result<(), String>>,
    pub(crate) wishes: watch::Sender<Wish>,
    pub(crate) sick: watch::Sender<BTreeSet<PartId>>,
}

impl Agent {
    /// An agent that knows the GPUs and nothing else.
    pub(crate) fn new(beginning: Beginning) -> Self {
        let Beginning {
            options,
            metrics,
            desk,
            easel,
            reporter,
            api,
            machine,
            reading,
            readiness,
            wishes,
            sick,
        } = beginning;
        let Reading { node, topology, fabric, recovery } = reading;
        let mut remarks = Vec::new();
        let (disable, enable) = (&options.disable_health, &options.enable_health);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let mut health_settings = HealthSettings::parse(&text(disable), &text(enable), &mut remarks);
        if recovery.is_empty() {
            // A driver that can not say whether a GPU needs a reset proves nothing by answering.
            health_settings.good_probes = 0;
        }
        for remark in remarks {
            reporter.event(Tone::Warning, "HealthSettings", remark);
        }
        let checkpoint = Checkpoint::new(&options.state_dir);
        let restored = checkpoint.restore();
        if let Some(trouble) = restored.trouble {
            reporter.event(Tone::Warning, "CheckpointCorrupt", trouble);
        }
        let boot = boot();
        let health = match restored.records {
            None => HealthBook::new(health_settings, &node),
            Some(records) => {
                let mut book = HealthBook::from_records(health_settings, &node, &records, now());
                if restored.boot.as_deref() != Some(&boot) {
                    book.driver_reloaded();
                }
                book
            }
        };
        let config = DevicePluginConfig::default();
        let mut with_flags = config.clone();
        options.overlay(&mut with_flags);
        // Flags alone may be wrong; then nothing is offered until a configuration sets them right.
        let settings = Settings::new(&with_flags, options.honour_choices)
            .or_else(|_| Settings::new(&config, options.honour_choices))
            .unwrap_or_else(|_| unreachable_defaults());
        // A reset may be needed before anything else of the driver is.
        DriverLinks::new(&options).make(&settings.driver_root, &node.driver.version);
        let plugins = Plugins::new(options.kubelet_socket.clone(), Arc::clone(&metrics));
        let named = match &options.config {
            ConfigSource::Folder(folder) => configuration::read_folder(folder),
            ConfigSource::ConfigMap { namespace, name } => {
                Err(format!("ConfigMap {namespace}/{name} was not read yet"))
            }
            ConfigSource::Flags | ConfigSource::File(_) => Ok(BTreeMap::new()),
        };
        let cdi = Cdi::new(&options);
        let mps = MpsDoor::new(&options);
        Agent {
            cdi,
            mps,
            options,
            metrics,
            usage: Arc::default(),
            desk,
            easel,
            reporter,
            api,
            machine,
            plugins,
            readiness,
            wishes,
            sick,
            dra: None,
            slices: None,
            node,
            topology,
            fabric,
            view: None,
            named,
            settings: Arc::new(settings),
            config,
            tried: None,
            config_trouble: Some("no configuration was read yet".to_owned()),
            configured: false,
            offer: Offer::default(),
            offer_trouble: None,
            health,
            held: Vec::new(),
            holders_known: false,
            holding_back: BTreeSet::new(),
            rivals: Vec::new(),
            aside: false,
            publisher: Publisher::default(),
            labelled_at: now().0,
            checkpoint,
            boot,
            mig: None,
            remarks: BTreeSet::new(),
            troubles: BTreeMap::new(),
            driver_answers: true,
        }
    }

    /// What a validation is held against: the configuration in force, and what it is called.
    pub(crate) fn basis(&self) -> Basis {
        let title = match (&self.tried, &self.config_trouble) {
            (Some(found), None) => format!("configuration {}", found.title),
            (_, Some(why)) if self.configured => {
                format!("the configuration before the newest, because {why}")
            }
            _ => "flags alone, because no configuration is in force".to_owned(),
        };
        Basis { settings: (*self.settings).clone(), title }
    }

    /// What the doors for claims and for tokens are to know.
    fn news_for_dra(&self) -> NodeNews {
        let sick = self.health.all().into_iter().filter_map(|(part, health)| match health {
            Health::Healthy => None,
            Health::Unhealthy { reason, .. } => Some((part, reason.to_string())),
        });
        let runtime = self.view.as_ref().and_then(|view| view.runtime.clone());
        NodeNews { node: self.node.clone(), sick: sick.collect(), runtime }
    }

    fn does(&self, job: Job) -> bool {
        self.options.jobs.contains(&job)
    }

    // ── what the agent learns ──

    /// The Node as the API server has it.
    pub(crate) fn learn_view(&mut self, view: NodeView) {
        if self.cdi.learn_runtime(view.runtime.clone()) {
            // How containers learn their devices may depend on it.
            self.tried = None;
        }
        let node = self.options.node_name.as_deref().unwrap_or_default();
        self.usage.learn_machine(MachineFacts::of(node, &view.labels));
        self.view = Some(view);
        self.learn_wish();
    }

    /// Named configurations from the API server.
    pub(crate) fn learn_named(&mut self, named: Named) {
        self.named = named;
    }

    /// Files may have changed.
    pub(crate) fn look_at_files(&mut self) {
        if let ConfigSource::Folder(folder) = &self.options.config {
            self.named = configuration::read_folder(folder);
        }
        if self.does(Job::Mig) {
            self.learn_wish();
        }
    }

    /// An error that the driver reported.
    pub(crate) fn learn_event(&mut self, event: &GpuEvent) {
        let xid = Xid(event.xid);
        let gpu =
            self.node.gpu(event.gpu).map_or_else(|| event.gpu.to_string(), |gpu| gpu.gpu.uuid.to_string());
        self.metrics.xid(gpu, event.xid, format!("{:?}", xid.class()).to_lowercase());
        let news = self.health.xid(event, now());
        self.tell_health(news);
    }

    /// A new reading of the GPUs, or that there is none.
    pub(crate) fn learn_reading(&mut self, reading: Result<Reading, String>) {
        match reading {
            Err(why) => {
                if self.driver_answers {
                    self.reporter.event(
                        Tone::Warning,
                        "DriverSilent",
                        format!("the GPUs can not be read: {why}"),
                    );
                }
                self.driver_answers = false;
                let gpus: Vec<GpuUuid> = self.node.gpus.iter().map(|gpu| gpu.gpu.uuid.clone()).collect();
                for gpu in gpus {
                    let news = self.health.probe(&gpu, Probe::Bad(why.clone()), now());
                    self.tell_health(news);
                }
            }
            Ok(Reading { node, topology, fabric, recovery }) => {
                self.driver_answers = true;
                let before = std::mem::replace(&mut self.node, node);
                self.node = self.node.clone().remembering(&before);
                self.topology = topology;
                self.fabric = fabric;
                let lost = |node: &NodeGpus| node.gpus.iter().filter(|gpu| gpu.lost).count();
                if lost(&self.node) < lost(&before) {
                    // One that comes back comes back uncut.
                    self.wishes.send_modify(|wish| wish.again += 1);
                }
                let news = self.health.node_changed(&self.node, now());
                self.tell_health(news);
                let gpus: Vec<(GpuUuid, bool)> =
                    self.node.gpus.iter().map(|gpu| (gpu.gpu.uuid.clone(), gpu.lost)).collect();
                for (gpu, lost) in gpus {
                    // One that is lost was told of by the reading itself.
                    if lost {
                        continue;
                    }
                    let probe = match recovery.get(&gpu).filter(|action| action.stops_new_work()) {
                        None => Probe::Good,
                        Some(action) => Probe::Bad(format!("the driver says that it {action}")),
                    };
                    let news = self.health.probe(&gpu, probe, now());
                    self.tell_health(news);
                }
            }
        }
    }

    /// Reads the GPUs anew.
    pub(crate) async fn read_again(&mut self) {
        let before = (self.node.clone(), Arc::clone(&self.topology));
        let reading = read(&self.machine, Some(before)).await;
        self.learn_reading(reading);
    }

    /// Who holds what now.
    pub(crate) async fn learn_holders(&mut self) {
        match holders(&self.options.pod_resources_socket).await {
            Ok(held) => {
                self.held = held.devices;
                self.holders_known = true;
                if let Some(dra) = &self.dra {
                    dra.attribute(held.claims).await;
                }
            }
            Err(why) => tracing::debug!(why, "kubelet does not say who holds what; the last answer counts"),
        }
    }

    /// Who else offers our GPUs.
    pub(crate) async fn learn_rivals(&mut self) {
        let found = rivals(self.plugins.folder(), &self.plugins.own_sockets(), &all_parts(&self.node)).await;
        if found != self.rivals {
            for rival in &found {
                let socket = rival.socket.display();
                let what =
                    if self.options.take_over { "it is taken over" } else { "this agent stands aside" };
                let message =
                    format!("another device plugin on {socket} already offers {}; {what}", rival.device);
                self.reporter.event(Tone::Warning, "AnotherPlugin", message);
            }
            self.rivals = found;
        }
    }

    /// How MPS daemons are.
    pub(crate) fn learn_mps(&mut self) {
        self.metrics.mps("devices", self.mps.daemons());
        for (part, state) in self.mps.states() {
            let news = self.health.mps(&part, state);
            self.tell_health(news);
        }
        for remark in self.mps.remarks() {
            self.remark("Mps", remark);
        }
    }

    /// What the MIG manager wants or has done.
    pub(crate) async fn learn_mig(&mut self, news: MigNews) {
        match news {
            MigNews::Hold { parts, done } => {
                self.holding_back = parts;
                self.reconcile().await;
                self.plugins.look_after().await;
                let _ = done.send(());
            }
            MigNews::Over { reset, done } => {
                self.holding_back.clear();
                for gpu in reset {
                    let news = self.health.reset(&gpu);
                    self.tell_health(news);
                }
                self.read_again().await;
                self.reconcile().await;
                let _ = done.send(());
            }
            MigNews::Aside(rival) => {
                let message =
                    format!("{rival} manages MIG on this node; this agent leaves the GPUs as they are");
                self.reporter.event(Tone::Warning, "AnotherMigManager", message);
            }
            MigNews::Report(report) => {
                self.tell_mig(&report).await;
                self.mig = Some(report);
            }
        }
    }

    async fn tell_mig(&mut self, report: &MigReport) {
        let MigReport { config, order, state, message } = report;
        let (tone, reason) = match (state, order) {
            (MigState::Pending, None) => (Tone::Normal, "MigConfigPending"),
            (MigState::Pending, Some(_)) => (Tone::Normal, "MigPlanPending"),
            (MigState::Rebooting, _) => (Tone::Warning, "MigConfigRebooting"),
            (MigState::Success, None) => (Tone::Normal, "MigConfigApplied"),
            (MigState::Success, Some(_)) => (Tone::Normal, "MigPlanApplied"),
            (MigState::Failed, None) => (Tone::Warning, "MigConfigFailed"),
            (MigState::Failed, Some(_)) => (Tone::Warning, "MigPlanFailed"),
        };
        if *state != MigState::Pending {
            self.metrics.mig_apply(&state.to_string());
        }
        let what = if order.is_some() { config.clone() } else { format!("config '{config}'") };
        self.reporter.event(tone, reason, format!("MIG {what}: {message}"));
        // The label's state is about what a person asked for; the controller is answered where its order came from.
        let Some(api) = self.api.clone().filter(|_| order.is_none()) else { return };
        let (labels, annotations) = (report.labels(), report.annotations());
        // The state must reach the cluster, or people wait for ever; short absences of the API server are waited out.
        tokio::spawn(async move {
            for _ in 0..30 {
                match api.apply_labels(names::MIG_MANAGER, &labels, &annotations, true).await {
                    Ok(()) => return,
                    Err(error) => tracing::warn!(%error, "the MIG state can not be told; trying again"),
                }
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
    }

    fn tell_health(&mut self, news: HealthNews) {
        for change in news.changes.iter().filter(|change| change.flips()) {
            let tone = if change.to.is_healthy() { Tone::Normal } else { Tone::Warning };
            let reason = match &change.to {
                Health::Healthy => "GpuHealthy",
                Health::Unhealthy { reason, .. } => reason.label(),
            };
            self.reporter.event(tone, reason, change.to_string());
        }
        for remark in news.remarks {
            tracing::warn!("{remark}");
        }
        let saved = self.checkpoint.save(&self.health.to_records(), &self.boot);
        let trouble = saved.err().map(|error| {
            let path = self.checkpoint.path().display();
            format!(
                "{path} can not be written: {error}; a restart would forget which GPUs are sick. \
                 Make room or make the folder writable; it is tried again at every look at the GPUs"
            )
        });
        self.trouble("Checkpoint", trouble, "the health of GPUs is written down again");
    }

    /// Something that hinders, or does no longer: told when it begins, when it changes and when it is over.
    fn trouble(&mut self, reason: &'static str, trouble: Option<String>, over: &str) {
        if self.troubles.get(reason) == trouble.as_ref() {
            return;
        }
        match trouble {
            Some(why) => {
                self.reporter.event(Tone::Warning, reason, why.clone());
                self.troubles.insert(reason, why);
            }
            None => {
                self.troubles.remove(reason);
                self.reporter.event(Tone::Normal, reason, over);
            }
        }
    }

    /// Something that is told once.
    fn remark(&mut self, reason: &str, text: String) {
        if self.remarks.insert(text.clone()) {
            self.reporter.event(Tone::Warning, reason, text);
        }
    }
}

/// Defaults are valid; this names the impossible rather than hiding it.
fn unreachable_defaults() -> Settings {
    #[allow(clippy::panic, reason = "the defaults of a configuration are valid by its own tests")]
    {
        panic!("the default configuration is not valid")
    }
}

/// Opens the GPUs, waiting for a driver as long as it takes.
pub(crate) async fn wait_for_machine(
    open: &OpenHost,
    reporter: &Reporter,
    readiness: &watch::Sender<Result<(), String>>,
    fail_at_once: bool,
) -> Result<(Machine, Reading), String> {
    let mut said = String::new();
    loop {
        let opened = match Machine::open(open).await {
            Ok(machine) => read(&machine, None).await.map(|reading| (machine, reading)),
            Err(why) => Err(why),
        };
        let why = match opened {
            Ok((machine, reading)) if !reading.node.gpus.is_empty() => return Ok((machine, reading)),
            Ok(_) => "the driver runs, but there is no GPU".to_owned(),
            Err(why) => why,
        };
        if fail_at_once {
            return Err(why);
        }
        if why != said {
            reporter.event(Tone::Warning, "WaitingForDriver", format!("waiting for GPUs: {why}"));
            reporter.condition(names::GPUS_HEALTHY, false, "WaitingForDriver", why.clone());
            let _ = readiness.send_replace(Err(format!("waiting for GPUs: {why}")));
            said = why;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}
