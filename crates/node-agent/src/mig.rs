//! Cuts the node's GPUs as its label `nvidia.com/mig.config` says, or, where nobody has set that, as the controller orders.
//!
//! ```text
//!  label ─▶ wish ─▶ plan ─▶ hold back what goes ─▶ holders gone? ─▶ change ─▶ read anew ─▶ success
//!             │       │            │                    │              │
//!           failed  failed      kubelet is told      evict or      old layout
//!                               not to give it away  try later     is back: failed
//! ```
//! Only MIG devices that must go, and GPUs whose mode changes, are held back; everything else stays on offer. A GPU that
//! is in use does not keep the others from being cut. What failed is tried again, at first soon, then less often.

mod attempt;
mod clients;
mod goal;
mod publish;
mod reboot;
mod state;

use crate::machine::Machine;
use crate::options::MigOptions;
use carve_cluster_api::NodeApi;
use carve_mig_manager::StateDir;
use carve_repartition::{NodeReport, Order, OrderReport, OrderState};
use carve_slicing::PartId;
use goal::Goal;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

use attempt::Tried;
pub(crate) use attempt::restore_after_reboot;
use publish::Published;
pub(crate) use state::{MigReport, MigState};

/// What is wanted of the GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Wish {
    /// Name of the config; without one, and without an order, nothing is touched.
    pub(crate) name: Option<String>,
    /// The config that a person asks for by label; no orders are taken then.
    pub(crate) manual: Option<String>,
    /// What the controller orders.
    pub(crate) order: Option<Order>,
    /// Text of the config file, or why it can not be read.
    pub(crate) file: Option<Result<String, String>>,
    /// Text of a file with one config, which a SlicePolicy gives.
    pub(crate) policy: Option<String>,
    /// Goes up when somebody asks to try again.
    pub(crate) again: u64,
}

/// What the agent must do for the manager.
#[derive(Debug)]
pub(crate) enum MigNews {
    /// Tell kubelet not to give these parts away, then say so.
    Hold { parts: BTreeSet<PartId>, done: oneshot::Sender<()> },
    /// The change is over: read the GPUs anew and offer everything that is there.
    Over { reset: BTreeSet<carve_gpu_model::GpuUuid>, done: oneshot::Sender<()> },
    /// How far it is.
    Report(MigReport),
    /// Another manager does this job here; nothing is touched.
    Aside(String),
}

/// Everything the manager works with.
#[derive(Debug)]
pub(crate) struct MigManager {
    pub(crate) machine: Machine,
    pub(crate) state_dir: StateDir,
    pub(crate) options: MigOptions,
    pub(crate) api: Option<NodeApi>,
    pub(crate) pod_resources: PathBuf,
    /// Whether to work although another manager does.
    pub(crate) take_over: bool,
    pub(crate) news: mpsc::Sender<MigNews>,
    /// Parts that are not given away because they are sick; nothing new is planned on them.
    pub(crate) sick: watch::Receiver<BTreeSet<PartId>>,
}

/// First and last pause between two tries of the same wish.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(120));

/// How often it is looked who holds what, for the controller to know.
const LOOK: Duration = Duration::from_secs(2);

impl MigManager {
    /// Works until nobody wishes anything any more.
    pub(crate) async fn run(self, mut wishes: watch::Receiver<Wish>) {
        if let Some(api) = &self.api {
            let labels = clients::left_paused(api).await;
            clients::resume(api, &labels).await;
        }
        let mut pause = PAUSES.0;
        let mut reported: Option<MigReport> = None;
        let mut published = Published { order: self.answered().await, text: None };
        loop {
            let wish = wishes.borrow_and_update().clone();
            let retry = match self.next_goal(&wish, published.order.as_ref()).await {
                None => false,
                Some(goal) => {
                    if let Some(rival) = self.rival().await {
                        self.tell(MigNews::Aside(rival)).await;
                        tokio::time::sleep(PAUSES.0).await;
                        continue;
                    }
                    let outcome = match goal {
                        Ok(goal) => self.attempt(&goal).await,
                        Err(refused) => refused,
                    };
                    if let Some(generation) = outcome.report.order {
                        let done = outcome.report.state == MigState::Success;
                        let state = if done { OrderState::Done } else { OrderState::Failed };
                        let message = outcome.report.message.clone();
                        published.order = Some(OrderReport { generation, state, message });
                    }
                    if reported.as_ref() != Some(&outcome.report) {
                        reported = Some(outcome.report.clone());
                        if !outcome.told {
                            self.tell(MigNews::Report(outcome.report.clone())).await;
                        }
                    }
                    // Whether a failed order is tried again is the controller's choice.
                    outcome.retry && outcome.report.order.is_none()
                }
            };
            self.publish(&wish, &mut published).await;
            let until = tokio::time::Instant::now() + pause;
            loop {
                let wait = async {
                    if retry { tokio::time::sleep_until(until).await } else { std::future::pending().await }
                };
                tokio::select! {
                    changed = wishes.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        pause = PAUSES.0;
                        reported = None;
                        break;
                    }
                    () = wait => {
                        pause = (pause * 2).min(PAUSES.1);
                        break;
                    }
                    () = tokio::time::sleep(LOOK) => self.publish(&wish, &mut published).await,
                }
            }
        }
    }

    /// What is to be done now: what a person wants, else what the controller orders and was not answered yet.
    async fn next_goal(&self, wish: &Wish, answered: Option<&OrderReport>) -> Option<Result<Goal, Tried>> {
        if let Some(name) = &wish.name {
            let entries = self.entries(name, wish).await;
            let refused = |why| {
                let report =
                    MigReport { config: name.clone(), order: None, state: MigState::Failed, message: why };
                Tried::new(report, false)
            };
            return Some(
                entries.map(|entries| Goal::Config { name: name.clone(), entries }).map_err(refused),
            );
        }
        let order = wish.order.as_ref()?;
        let new = answered.is_none_or(|answered| answered.generation < order.generation);
        new.then(|| Ok(Goal::Order(order.clone())))
    }

    /// The order that this agent, or the one before it, has answered last.
    async fn answered(&self) -> Option<OrderReport> {
        let view = self.api.as_ref()?.view().await.ok()?;
        NodeReport::parse(view.annotations.get(NodeReport::ANNOTATION)?).ok()?.order
    }

    /// NVIDIA's MIG manager on this node, unless it is to be overruled.
    async fn rival(&self) -> Option<String> {
        let api = self.api.as_ref().filter(|_| !self.take_over)?;
        let pods = api.pods().await.ok()?;
        let theirs = pods.into_iter().find(|pod| {
            let app = pod.labels.get("app").map_or("", String::as_str);
            let program = pod.programs.iter().any(|program| program.contains("mig-manager"));
            !pod.ending && (app == "nvidia-mig-manager" || program)
        });
        theirs.map(|pod| format!("pod {}/{}", pod.namespace, pod.name))
    }

    async fn tell(&self, news: MigNews) {
        // Nobody listens only while the agent ends.
        let _ = self.news.send(news).await;
    }

    async fn hold(&self, parts: BTreeSet<PartId>) {
        let (done, held) = oneshot::channel();
        self.tell(MigNews::Hold { parts, done }).await;
        let _ = held.await;
    }

    async fn over(&self, reset: BTreeSet<carve_gpu_model::GpuUuid>) {
        let (done, over) = oneshot::channel();
        self.tell(MigNews::Over { reset, done }).await;
        let _ = over.await;
    }
}
