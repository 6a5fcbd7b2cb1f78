//! From the first breath to the last: start in the right order, learn, act, and end without disturbing anybody.

use crate::agent::{Agent, Beginning, boot, now, read, wait_for_machine};
use crate::easel::Easel;
use crate::http;
use crate::last_end::RunningMark;
use crate::leave::{LastKnown, leave_if_over};
use crate::ledger::Desk;
use crate::limiter_file;
use crate::machine::OpenHost;
use crate::metrics::Metrics;
use crate::mig::{MigManager, Wish, restore_after_reboot};
use crate::options::{AgentOptions, ConfigSource, Job};
use crate::plugins::LOOK;
use crate::tell::Reporter;
use crate::validation::{Report, leave_files, prove};
use carve_cluster_api::{NodeApi, Tone, names};
use carve_mig_manager::StateDir;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// Why the agent ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No driver, and the operator wants to know at once.
    #[error("no GPUs: {0}")]
    NoGpus(String),
    /// Signals can not be heard.
    #[error("can not listen for signals: {0}")]
    Signals(#[source] std::io::Error),
    /// The operator named a node, but the cluster can not be reached.
    #[error("{0}; give --kubeconfig, or run as a pod with an account, or leave --node-name away")]
    Cluster(String),
}

/// How often files are looked at.
const FILES: Duration = Duration::from_secs(1);

/// An agent that was told to end, and what it knows of its node.
#[derive(Debug)]
pub struct Ended {
    options: AgentOptions,
    known: Option<LastKnown>,
}

impl Ended {
    /// Clears the node, if the DaemonSet that the agent is of is gone. Nothing of the agent may run any more, or it would write again what is
    /// removed: end the runtime that it ran on first.
    pub async fn leave_if_over(self) {
        leave_if_over(&self.options, self.known.as_ref()).await;
    }
}

/// Runs the agent until it is told to end.
pub async fn run(options: AgentOptions, open: OpenHost) -> Result<Ended, AgentError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(AgentError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(AgentError::Signals)?;
    let (stop, stopped) = watch::channel(false);
    let (working, known) = (AtomicBool::new(false), OnceLock::new());
    let kept = options.clone();
    let told = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("told to end");
        stop.send_replace(true);
        // Whoever still waits for a driver or an API server has nothing to put away.
        if working.load(Ordering::Relaxed) {
            tokio::time::sleep(ENDING).await;
        }
    };
    let (mark, before) = RunningMark::begin(&options.state_dir, &boot());
    let outcome = tokio::select! {
        outcome = live(options, open, stopped, Noted { working: &working, known: &known }, before) => outcome,
        () = told => Ok(()),
    };
    // An agent that ends by itself says why.
    mark.end();
    outcome.map(|()| Ended { options: kept, known: known.into_inner() })
}

/// What is noted while the agent lives, for its end.
struct Noted<'a> {
    /// Whether there is anything to put away.
    working: &'a AtomicBool,
    /// What leaving the node would need to know.
    known: &'a OnceLock<LastKnown>,
}

/// How long putting things away may take.
const ENDING: Duration = Duration::from_secs(5);

/// A receiver that never changes, for what does not exist here.
fn never<T: Clone>(value: T) -> (watch::Sender<T>, watch::Receiver<T>) {
    watch::channel(value)
}

async fn live(
    mut options: AgentOptions,
    open: OpenHost,
    mut stopped: watch::Receiver<bool>,
    noted: Noted<'_>,
    before: Option<String>,
) -> Result<(), AgentError> {
    // From the start: a hangup that nobody listens for ends the process.
    let mut hangup = signal(SignalKind::hangup()).map_err(AgentError::Signals)?;
    let metrics = Arc::new(Metrics::new());
    let desk = Arc::new(Desk::new(&options.state_dir));
    let easel = Arc::new(Easel::default());
    let (readiness, ready) = watch::channel(Err("starting".to_owned()));
    let (http_news, mut http_told) = mpsc::unbounded_channel();
    if let Some(address) = options.listen {
        let shown =
            http::Shown { metrics: Arc::clone(&metrics), readiness: ready, easel: Arc::clone(&easel) };
        tokio::spawn(http::serve(address, shown, Arc::clone(&desk), http_news));
    }
    let api = connect(&options).await?;
    let reporter = Reporter::start(api.clone());
    if let Some(message) = before {
        reporter.event(Tone::Warning, "EndedUnexpectedly", message);
    }
    bring_limiter(&mut options, &reporter);
    let teller = reporter.clone();
    tokio::spawn(async move {
        while let Some(http::News { tone, reason, message }) = http_told.recv().await {
            teller.event(tone, reason, message);
        }
    });
    let fail_at_once = options.flags.fail_on_init_error == Some(true);
    let (machine, reading) =
        wait_for_machine(&open, &reporter, &readiness, fail_at_once).await.map_err(AgentError::NoGpus)?;
    let state_dir = StateDir::new(options.state_dir.clone());
    let mut reading = reading;
    if options.jobs.contains(&Job::Mig) {
        // What a reboot has erased is made again before anything is offered.
        let said = restore_after_reboot(&machine, &state_dir).await;
        for message in &said {
            reporter.event(Tone::Warning, "MigRestored", message.clone());
        }
        if !said.is_empty() {
            reading = read(&machine, None).await.map_err(AgentError::NoGpus)?;
        }
    }
    let (events_in, mut events) = mpsc::channel(64);
    if let Err(error) = machine.watch_events(events_in) {
        reporter.event(Tone::Warning, "NoEvents", format!("errors of GPUs can not be watched: {error}"));
    }
    let (wishes, wished) = watch::channel(Wish::default());
    let (sick, sick_now) = watch::channel(Default::default());
    let (mig_in, mut mig) = mpsc::channel(8);
    if options.jobs.contains(&Job::Mig) {
        let manager = MigManager {
            machine: machine.clone(),
            state_dir,
            options: options.mig.clone(),
            api: api.clone(),
            pod_resources: options.pod_resources_socket.clone(),
            take_over: options.take_over,
            news: mig_in.clone(),
            sick: sick_now,
        };
        tokio::spawn(manager.run(wished));
    }
    let (_no_view, no_view) = never(None);
    let mut views = api.as_ref().map_or(no_view, NodeApi::follow_node);
    let (_no_map, no_map) = never(None);
    let mut maps = match (&options.config, &api) {
        (ConfigSource::ConfigMap { namespace, name }, Some(api)) => api.follow_config_map(namespace, name),
        _ => no_map,
    };
    let beginning =
        Beginning { options, metrics, desk, easel, reporter, api, machine, reading, readiness, wishes, sick };
    let mut agent = Agent::new(beginning);
    let _ = noted.known.set(agent.last_known());
    let mut mps = agent.mps.status();
    wait_for_first_words(&mut agent, &mut views, &mut maps).await;
    agent.learn_wish();
    // The GPUs were read a moment ago.
    agent.look_around().await;
    if agent.options.jobs.contains(&Job::Claims) {
        let api = agent.api.clone().ok_or_else(|| {
            AgentError::Cluster("claims are served for a cluster, and no node name is given".to_owned())
        })?;
        agent.open_dra(api);
    }
    if agent.options.jobs.contains(&Job::Slices) {
        let api = agent.api.clone().ok_or_else(|| {
            AgentError::Cluster(
                "parts of GPUs are decided in a cluster, and no node name is given".to_owned(),
            )
        })?;
        agent.open_slices(api);
    }

    agent.open_usage();
    if agent.options.jobs.contains(&Job::Validation) {
        prove_in_the_background(&agent);
    }
    agent.look_after_plugins().await;
    let mut look = ticks(LOOK);
    let mut files = ticks(FILES);
    let mut probe = ticks(agent.options.probe);
    noted.working.store(true, Ordering::Relaxed);
    tracing::info!(at = now().0, "the agent works");
    loop {
        tokio::select! {
            () = async { stopped.wait_for(|stop| *stop).await.map(drop).unwrap_or_default() } => {
                agent.end().await;
                return Ok(());
            }
            Some(event) = events.recv() => {
                agent.learn_event(&event);
                agent.reconcile().await;
            }
            Some(news) = mig.recv() => agent.learn_mig(news).await,
            Ok(()) = views.changed() => {
                let view = views.borrow_and_update().clone();
                if let Some(view) = view {
                    agent.learn_view(view);
                    agent.reconcile().await;
                }
            }
            Ok(()) = maps.changed() => {
                let named = maps.borrow_and_update().clone();
                if let Some(named) = named {
                    agent.learn_named(named);
                    agent.reconcile().await;
                }
            }
            Ok(()) = mps.changed() => {
                mps.borrow_and_update();
                agent.reconcile().await;
            }
            _ = hangup.recv() => {
                agent.look_at_files();
                agent.look_at_gpus().await;
            }
            _ = look.tick() => agent.look_after_plugins().await,
            _ = files.tick() => {
                agent.look_at_files();
                agent.reconcile_if_new().await;
            }
            _ = probe.tick() => agent.look_at_gpus().await,
        }
    }
}

/// Puts the limiter that this program came with on the host, where parts are given out and no other is named.
fn bring_limiter(options: &mut AgentOptions, reporter: &Reporter) {
    let parts = options.jobs.contains(&Job::Claims) || options.jobs.contains(&Job::Slices);
    let shipped: Option<PathBuf> = options.dra.shipped_limiter.clone().filter(|path| path.exists());
    let Some(shipped) = shipped.filter(|_| parts && options.dra.limiter.is_none()) else { return };
    match limiter_file::install(options, &shipped) {
        Ok(path) => options.dra.limiter = Some(path),
        Err(error) => {
            let folder = options.hook_program_here.parent().map(|folder| folder.display().to_string());
            let message = format!(
                "the limiter can not be put into {}: {error}; nothing holds containers to their parts until that folder can be written \
                 and the agent starts again",
                folder.unwrap_or_default()
            );
            reporter.event(Tone::Warning, "LimiterNotInstalled", message);
        }
    }
}

/// Proves in the background that the node works, and tells what came of it.
fn prove_in_the_background(agent: &Agent) {
    let (options, machine, reporter) = (agent.options.clone(), agent.machine.clone(), agent.reporter.clone());
    let basis = agent.basis();
    tokio::spawn(async move {
        let report = prove(&options, Ok(machine), &basis).await;
        let (tone, reason) =
            if report.passed() { (Tone::Normal, "Validated") } else { (Tone::Warning, "ValidationFailed") };
        reporter.event(tone, reason, report.summary());
        reporter.condition(names::VALIDATED, report.passed(), reason, report.summary());
        leave_files_in_time(&options, &report, &reporter).await;
    });
}

/// Others wait for the files, so they are written as soon as that is possible.
async fn leave_files_in_time(options: &AgentOptions, report: &Report, reporter: &Reporter) {
    let folder = options.validations.display();
    let mut told = false;
    while let Err(error) = leave_files(&options.validations, report) {
        if !told {
            let message = format!(
                "results of validation can not be written to {folder}: {error}. Make room or make the folder \
                 writable; it is tried again every {} s",
                options.probe.as_secs()
            );
            reporter.event(Tone::Warning, "ValidationFiles", message);
            told = true;
        }
        tokio::time::sleep(options.probe).await;
    }
    if told {
        reporter.event(Tone::Normal, "ValidationFiles", format!("results of validation are in {folder}"));
    }
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    // After a long task one look is enough.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks
}

async fn connect(options: &AgentOptions) -> Result<Option<NodeApi>, AgentError> {
    let Some(node) = &options.node_name else {
        tracing::info!("no node name is given: nothing is read from or told to the cluster");
        return Ok(None);
    };
    let api = NodeApi::connect(options.kubeconfig.as_deref(), node).await;
    api.map(Some).map_err(|error| AgentError::Cluster(error.to_string()))
}

/// Gives the API server a moment to tell the node's labels, so that the first offer is the right one; an agent whose API
/// server is away offers by its defaults.
async fn wait_for_first_words(
    agent: &mut Agent,
    views: &mut watch::Receiver<Option<carve_cluster_api::NodeView>>,
    maps: &mut watch::Receiver<Option<crate::configuration::Named>>,
) {
    const PATIENCE: Duration = Duration::from_secs(5);
    if agent.api.is_none() {
        return;
    }
    // Only the wait is bounded here; what was seen is taken afterwards.
    let _ = tokio::time::timeout(PATIENCE, async { views.wait_for(Option::is_some).await.map(drop) }).await;
    let view = views.borrow_and_update().clone();
    if let Some(view) = view {
        agent.learn_view(view);
    }
    if matches!(agent.options.config, ConfigSource::ConfigMap { .. }) {
        let _ =
            tokio::time::timeout(PATIENCE, async { maps.wait_for(Option::is_some).await.map(drop) }).await;
        let named = maps.borrow_and_update().clone();
        if let Some(named) = named {
            agent.learn_named(named);
        }
    }
}
