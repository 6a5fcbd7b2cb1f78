//! Reads what containers with shares use, tells it as series, and looks for processes that escape the limiter.
//!
//! ```text
//!   records, holders ─┐
//!   usage files ──────┼─▶ accounts ──▶ series, events
//!   driver, /proc ────┘      └─ metered.json: counters outlive the agent
//! ```

mod accounts;
mod escapes;
mod meter;
mod processes;
mod series;
mod words;

use super::NodeNews;
use super::on_record::{LookUp, OnRecord};
use crate::machine::{Machine, OwnerGone};
use crate::metrics::Metrics;
use crate::tell::Reporter;
use crate::usage::Known;
use accounts::{Accounts, Told};
use carve_cluster_api::Tone;
use carve_dra_driver::ClaimRecord;
use carve_gpu_host::{GpuHost, GpuProcess, HostResult};
use carve_gpu_model::GpuIndex;
use carve_limiter_host::monotonic;
pub(crate) use processes::Processes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often to look. A process that escapes is told of after two looks.
const LOOK: Duration = Duration::from_secs(2);
/// How long the driver may take. What shares use is told without it, and its answer counts at the next look.
const PATIENCE: Duration = Duration::from_secs(1);

/// What it is made of.
pub(crate) struct Beginning {
    pub(crate) machine: Machine,
    pub(crate) metrics: Arc<Metrics>,
    /// Whoever divides the time of GPUs wants to know what shares counted.
    pub(crate) known: Arc<Known>,
    /// Shares and who holds them.
    pub(crate) on_record: LookUp,
    pub(crate) driver: String,
    /// Where limits of shares are.
    pub(crate) root: PathBuf,
    /// The kernel's folder about processes.
    pub(crate) proc: PathBuf,
    pub(crate) own_pod: Option<String>,
    /// Whether shares are charged what their processes have beyond what they count.
    pub(crate) charges: bool,
    pub(crate) news: watch::Receiver<NodeNews>,
}

/// Looks again and again, once this agent is the one that gives turns: of two in a rolling update one tells.
pub(crate) async fn run(beginning: Beginning, in_charge: Arc<AtomicBool>, reporter: Reporter) {
    let mut oversight = Oversight::new(beginning);
    loop {
        tokio::time::sleep(LOOK).await;
        if !in_charge.load(Ordering::Relaxed) {
            continue;
        }
        for (reason, message) in oversight.look().await {
            reporter.event(Tone::Warning, reason, message);
        }
    }
}

/// What the driver shows on parts.
type Shown = BTreeMap<String, Vec<GpuProcess>>;

struct Oversight {
    beginning: Beginning,
    /// None while it is away to look.
    accounts: Option<Accounts>,
    /// A question that the driver has not answered yet.
    asked: Option<JoinHandle<Result<Shown, OwnerGone>>>,
}

impl Oversight {
    fn new(beginning: Beginning) -> Self {
        let Beginning { driver, root, proc, own_pod, .. } = &beginning;
        let mut accounts = Accounts::new(driver.clone(), root.clone(), proc.clone(), own_pod.clone());
        accounts.charges = beginning.charges;
        Oversight { beginning, accounts: Some(accounts), asked: None }
    }

    /// Looks once and sets the series. Answers what there is to warn of.
    async fn look(&mut self) -> Vec<(&'static str, String)> {
        let look_up = Arc::clone(&self.beginning.on_record);
        let (records, held) = match tokio::task::spawn_blocking(move || look_up()).await {
            Ok(Ok(OnRecord { claims, held })) => (claims, held),
            Ok(Err(error)) => {
                tracing::debug!(error, "the series about shares stay as they are");
                return Vec::new();
            }
            Err(_) => return Vec::new(),
        };
        let shown = self.ask(&records).await;
        let Some(mut accounts) = self.accounts.take() else { return Vec::new() };
        let looked = tokio::task::spawn_blocking(move || {
            let told = accounts.look(monotonic(), &records, &held, &shown);
            (accounts, told)
        });
        let Ok((accounts, told)) = looked.await else { return Vec::new() };
        self.accounts = Some(accounts);
        let Told { shares, escaped, warnings } = told;
        self.beginning.known.learn_shares(&self.beginning.driver, &shares);
        self.beginning.metrics.shares(&self.beginning.driver, shares, escaped);
        warnings
    }

    /// Which processes are on the parts of shares; of those that the driver does not tell of in time, nothing.
    async fn ask(&mut self, records: &BTreeMap<String, ClaimRecord>) -> Shown {
        let asked = match self.asked.take() {
            Some(asked) => asked,
            None => {
                let wanted = self.wanted(records);
                if wanted.is_empty() {
                    return Shown::new();
                }
                let machine = self.beginning.machine.clone();
                tokio::spawn(async move { machine.ask(move |host| shown(host, &wanted)).await })
            }
        };
        let mut asked = asked;
        match tokio::time::timeout(PATIENCE, &mut asked).await {
            Ok(Ok(Ok(shown))) => shown,
            Ok(_) => Shown::new(),
            Err(_) => {
                self.asked = Some(asked);
                Shown::new()
            }
        }
    }

    /// GPUs with the parts of shares on them.
    fn wanted(&self, records: &BTreeMap<String, ClaimRecord>) -> BTreeMap<GpuIndex, BTreeSet<String>> {
        let news = self.beginning.news.borrow();
        let mut wanted: BTreeMap<GpuIndex, BTreeSet<String>> = BTreeMap::new();
        for device in records.values().flat_map(|record| &record.devices) {
            let Some(part) = device.part.as_ref().filter(|_| device.usage.has_share()) else { continue };
            let on = news.node.gpus.iter().find(|on| on.gpu.uuid.0 == device.gpu && !on.lost);
            if let Some(on) = on {
                wanted.entry(on.gpu.index).or_default().insert(part.clone());
            }
        }
        wanted
    }
}

/// Asks the driver.
fn shown(host: &mut dyn GpuHost, wanted: &BTreeMap<GpuIndex, BTreeSet<String>>) -> Shown {
    let mut all = Shown::new();
    for (gpu, parts) in wanted {
        match shown_on(host, *gpu, parts) {
            Ok(shown) => all.extend(shown),
            Err(error) => tracing::debug!(%error, "processes on a GPU with shares are not known now"),
        }
    }
    all
}

fn shown_on(host: &dyn GpuHost, gpu: GpuIndex, parts: &BTreeSet<String>) -> HostResult<Shown> {
    let processes = host.processes(gpu)?;
    let cut = parts.iter().any(|part| part.starts_with("MIG-"));
    let migs = if cut { host.mig_devices(gpu)? } else { Vec::new() };
    let of = |part: &String| -> Option<Vec<GpuProcess>> {
        if !part.starts_with("MIG-") {
            return Some(processes.iter().filter(|one| one.gpu_instance.is_none()).copied().collect());
        }
        let mig = migs.iter().find(|mig| mig.uuid.0 == *part)?;
        let inside = |one: &&GpuProcess| {
            one.gpu_instance == Some(mig.gpu_instance)
                && one.compute_instance.is_none_or(|compute| compute == mig.compute_instance)
        };
        Some(processes.iter().filter(inside).copied().collect())
    };
    Ok(parts.iter().filter_map(|part| Some((part.clone(), of(part)?))).collect())
}

#[cfg(test)]
mod tests;
