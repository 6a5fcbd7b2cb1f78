//! The door for use: looks every second at what GPUs did, divides it among the containers that have parts of them, and tells it as series.
//!
//! ```text
//!   agent ──GPUs, what is offered─▶ known ┐
//!   limiter ──what shares counted─▶ known ┤
//!   kubelet, records ──who has what───────┤
//!   driver ──busy, memory, processes──────┼─▶ divide ──▶ meters ──▶ rows ──▶ /metrics, easel ──▶ /api/v1/picture
//!   kernel, cluster ──whose processes─────┘
//! ```

mod ask;
mod divide;
mod held;
mod known;
mod row;
mod tenant;
mod who;

pub(crate) use known::{Known, MachineFacts};
pub(crate) use row::{ContainerRow, DeviceRow, UnitRow, UsageRows};

use crate::dra::oversight::Processes;
use crate::easel::{Cuts, Easel, Painter, Scene, read_cuts};
use crate::holders::holders;
use crate::ledger::Accountant;
use crate::machine::{Machine, OwnerGone};
use crate::metrics::Metrics;
use ask::{Said, ask};
use carve_cluster_api::NodeApi;
use carve_dra_driver::RecordStore;
use carve_slicing::{Holder, NodeGpus};
use divide::Divider;
use held::{OurClaims, by_kubelet};
use known::Facts;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenant::{Tenant, Unit};
use tokio::task::JoinHandle;
use who::Who;

/// How often to look where nobody counts.
const LOOK: Duration = Duration::from_secs(1);
/// How long the driver may take; its answer counts at the next look otherwise.
const PATIENCE: Duration = Duration::from_secs(2);
/// After so long without an answer of the driver, whoever looks is told.
const SILENT: Duration = Duration::from_secs(15);

/// What the door is made of.
pub(crate) struct UsageBeginning {
    pub(crate) machine: Machine,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) known: Arc<Known>,
    pub(crate) easel: Arc<Easel>,
    pub(crate) api: Option<NodeApi>,
    /// UID of the pod that the agent runs in.
    pub(crate) own_pod: Option<String>,
    /// Where kubelet says who has what.
    pub(crate) pod_resources: PathBuf,
    /// Claims that were made ready since the machine was started.
    pub(crate) claims: RecordStore,
    pub(crate) driver: String,
    pub(crate) boot: String,
    /// Keeps the books of what the machine costs.
    pub(crate) accountant: Accountant,
}

/// Looks again and again.
pub(crate) async fn run(beginning: UsageBeginning) {
    let own_pod = beginning.own_pod.clone();
    let who = Who::new(beginning.api.clone(), Processes::new(PathBuf::from("/proc"), own_pod));
    let known = Arc::clone(&beginning.known);
    let mut door = Door {
        beginning,
        who,
        divider: Divider::default(),
        held: Vec::new(),
        asked: None,
        answered: Instant::now(),
        cuts: None,
        painter: Painter::default(),
    };
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = known.counted() => {}
        }
        door.look().await;
    }
}

struct Door {
    beginning: UsageBeginning,
    who: Who,
    divider: Divider,
    /// Who has what by devices and claims, as kubelet said last.
    held: Vec<Tenant>,
    /// A question that the driver has not answered yet.
    asked: Option<JoinHandle<Result<Said, OwnerGone>>>,
    /// When the driver last answered, or had nothing to answer.
    answered: Instant,
    /// Where instances sit, and on which GPUs that was read.
    cuts: Option<(Arc<NodeGpus>, Cuts)>,
    painter: Painter,
}

impl Door {
    /// Looks once.
    async fn look(&mut self) {
        let facts = self.beginning.known.now();
        let Some(node) = &facts.node else { return };
        self.measure(&facts, node).await;
        self.paint(&facts, node).await;
    }

    /// What was used since the last look, for those who scrape and those who pay.
    async fn measure(&mut self, facts: &Facts, node: &NodeGpus) {
        let due = self.divider.due(facts, node, Instant::now());
        if due.is_empty() && self.asked.is_none() {
            self.answered = Instant::now();
        }
        let Some(said) = self.ask(due).await else { return };
        self.answered = Instant::now();
        self.learn_held(facts).await;
        let mut pids: Vec<u32> =
            said.gpus.values().flat_map(|gpu| &gpu.processes).map(|process| process.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let whose = self.who.of(&pids).await;
        let whose = pids.into_iter().zip(whose).collect();
        self.divider.divide(facts, &self.held, &said, &whose);
        let rows = self.divider.rows(node);
        let who = &mut self.who;
        who.learn_workloads(rows.containers.iter().map(|row| &row.holder)).await;
        let workload = |holder: &Holder| who.workload(holder);
        let sick = facts.sick.keys().cloned().collect();
        self.beginning.accountant.look(&rows, node, &sick, &facts.machine, workload).await;
        self.beginning.metrics.usage(rows);
    }

    /// The same for those who look.
    async fn paint(&mut self, facts: &Facts, node: &Arc<NodeGpus>) {
        if self.asked.is_none() && !self.cuts.as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, node)) {
            let gpus: Vec<_> = node
                .gpus
                .iter()
                .filter(|gpu| gpu.mig_enabled && !gpu.lost)
                .map(|gpu| gpu.gpu.index)
                .collect();
            let reading = self.beginning.machine.ask(move |host| read_cuts(host, &gpus));
            if let Ok(Ok(cuts)) = tokio::time::timeout(PATIENCE, reading).await {
                self.cuts = Some((Arc::clone(node), cuts));
            }
        }
        let none = Cuts::new();
        let rows = self.divider.rows(node);
        let who = &self.who;
        let scene = Scene {
            node,
            rows: &rows,
            cuts: self.cuts.as_ref().map_or(&none, |(_, cuts)| cuts),
            sick: &facts.sick,
            cutting: &facts.cutting,
            kind: &facts.machine.instance_type,
            price: self.beginning.accountant.dollars_per_hour(&facts.machine),
            silent: self.answered.elapsed() >= SILENT,
        };
        let (workload, since) = (|holder: &Holder| who.workload(holder), |holder: &Holder| who.since(holder));
        let picture = self.painter.paint(&scene, workload, since, Instant::now());
        self.beginning.easel.show(picture);
    }

    /// Who has what now. While kubelet does not say, its last answer counts.
    async fn learn_held(&mut self, facts: &Facts) {
        let holdings = match holders(&self.beginning.pod_resources).await {
            Ok(holdings) => holdings,
            Err(why) => return tracing::debug!(why, "who used GPUs is told by kubelet's last answer"),
        };
        let mut records = BTreeMap::new();
        if holdings.claims.iter().any(|held| held.driver == self.beginning.driver) {
            let store = self.beginning.claims.clone();
            if let Ok(Ok(found)) = tokio::task::spawn_blocking(move || store.look()).await {
                records = found.claims;
                records.retain(|_, record| record.boot == self.beginning.boot);
            }
        }
        let claims = OurClaims { driver: &self.beginning.driver, records: &records };
        self.held = by_kubelet(&holdings, &facts.offer, claims);
    }

    async fn ask(&mut self, due: Vec<Unit>) -> Option<Said> {
        let mut asked = match self.asked.take() {
            Some(asked) => asked,
            None if due.is_empty() => return None,
            None => {
                let machine = self.beginning.machine.clone();
                tokio::spawn(async move { machine.ask(move |host| ask(host, &due)).await })
            }
        };
        match tokio::time::timeout(PATIENCE, &mut asked).await {
            Ok(answer) => answer.ok()?.ok(),
            Err(_) => {
                self.asked = Some(asked);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
