//! Keeps the node's devices published, and the files that containers need found.

use super::NodeNews;
use super::facts::facts;
use crate::cdi::Cdi;
use crate::machine::Machine;
use crate::tell::Reporter;
use carve_cluster_api::{NodeApi, SlicePublisher, Tone};
use carve_dra::{Layout, Mode, Ways, layout, slices, ways_for};
use carve_dra_driver::{NodeFiles, Preparer};
use carve_gpu_model::{GpuUuid, ProfileTable};
use carve_kubelet_api::dra_health::DeviceHealth;
use carve_slicing::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Slices are looked at again after this without any news.
const AGAIN: Duration = Duration::from_secs(30);
/// After a failure sooner.
const SOON: Duration = Duration::from_secs(2);

/// How long to leave slices to somebody else who insists on them; an update is over by then.
const DISPUTED: Duration = Duration::from_secs(60);

/// Changes by others, lately.
#[derive(Debug, Default)]
struct Disputes(Vec<Instant>);

impl Disputes {
    /// Another one; tells whether it is time to let the others have their way for a while. Kubelet deletes every slice when it starts,
    /// one by one, which is no dispute.
    fn one_more(&mut self, now: Instant) -> bool {
        const MANY: usize = 20;
        self.0.retain(|when| now.duration_since(*when) < DISPUTED);
        self.0.push(now);
        let many = self.0.len() >= MANY;
        if many {
            self.0.clear();
        }
        many
    }
}

/// The task.
pub(crate) struct Publish {
    pub(crate) cdi: Cdi,
    pub(crate) settings: Arc<Settings>,
    pub(crate) mode: Mode,
    pub(crate) driver: String,
    pub(crate) machine: Machine,
    pub(crate) api: NodeApi,
    pub(crate) reporter: Reporter,
    pub(crate) preparer: Arc<Preparer>,
    pub(crate) files: watch::Sender<NodeFiles>,
    pub(crate) healthy: watch::Sender<Vec<DeviceHealth>>,
    pub(crate) state: watch::Sender<Result<(), String>>,
    /// Whether the API server keeps too little for more than whole GPUs.
    pub(crate) only_whole: bool,
    /// What was told, so that it is told once.
    pub(crate) told: BTreeSet<String>,
    pub(crate) tables: BTreeMap<GpuUuid, Option<ProfileTable>>,
}

impl Publish {
    /// Publishes until nobody has news any more.
    pub(crate) async fn run(mut self, mut heard: watch::Receiver<NodeNews>) {
        let mut publisher = SlicePublisher::new(&self.api, self.driver.clone());
        let mut changes = publisher.changes();
        let mut version = String::new();
        let mut disputes = Disputes::default();
        loop {
            let news = heard.borrow_and_update().clone();
            if version != news.node.driver.version || self.files.borrow().hook.is_none() {
                match self.cdi.node_files(&news.node, &self.settings, news.runtime.clone()) {
                    Ok(files) => {
                        version.clone_from(&news.node.driver.version);
                        self.files.send_replace(files);
                    }
                    Err(why) => self.tell(
                        Tone::Warning,
                        "CdiFailed",
                        format!("containers can not be given GPUs: {why}"),
                    ),
                }
            }
            let published = self.publish(&mut publisher, &news).await;
            let wait = if published.is_ok() { AGAIN } else { SOON };
            if let Err(why) = &published {
                self.tell(Tone::Warning, "SlicesNotPublished", why.clone());
            }
            self.state.send_if_modified(|known| {
                let changed = *known != published;
                *known = published;
                changed
            });
            tokio::select! {
                changed = heard.changed() => if changed.is_err() { return },
                changed = changes.changed() => {
                    if changed.is_err() {
                        tokio::time::sleep(wait).await;
                    } else if disputes.one_more(Instant::now()) {
                        self.tell(
                            Tone::Warning,
                            "SlicesDisputed",
                            "somebody else writes this node's slices again and again, as two agents of different \
                             versions do during an update; this one waits a minute each time"
                                .to_owned(),
                        );
                        tokio::time::sleep(DISPUTED).await;
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn publish(&mut self, publisher: &mut SlicePublisher, news: &NodeNews) -> Result<(), String> {
        let ways = self.ways().await?;
        let facts = facts(news, &self.machine, &self.preparer, &mut self.tables, &self.driver).await?;
        for withheld in &facts.withheld {
            self.tell(Tone::Warning, "GpuWithheld", withheld.clone());
        }
        for gone in &facts.gone {
            self.tell(Tone::Warning, "InstanceGone", gone.clone());
        }
        let layout = layout(&news.node.driver, &facts.gpus, &ways).packed();
        self.healthy.send_if_modified(|known| {
            let health = health(&layout, self.api.node());
            let changed = *known != health;
            *known = health;
            changed
        });
        let report = publisher.reconcile(&slices(&layout)).await.map_err(|error| error.to_string())?;
        if report.written + report.deleted > 0 {
            let devices: usize = layout.gpus.iter().map(Vec::len).sum();
            tracing::info!(
                generation = report.generation,
                written = report.written,
                devices,
                "slices are published"
            );
        }
        for dropped in &report.dropped {
            self.tell(Tone::Warning, "FieldsDropped", dropped.to_string());
        }
        if report.withheld {
            let was = std::mem::replace(&mut self.only_whole, true);
            let what = if was { "none is offered" } else { "GPUs are offered whole only" };
            return Err(format!("the API server does not keep what would keep devices apart, so {what}"));
        }
        Ok(())
    }

    /// The ways that this cluster's scheduler can keep apart.
    async fn ways(&mut self) -> Result<Ways, String> {
        let server = self.api.server_version().await.map_err(|error| error.to_string())?;
        let mode = if self.only_whole { Mode::Exclusive } else { self.mode };
        let choice = ways_for(server, mode).map_err(|error| error.to_string())?;
        if let Some(remark) = choice.remark {
            self.tell(Tone::Warning, "ModeLimited", remark);
        }
        Ok(choice.ways)
    }

    fn tell(&mut self, tone: Tone, reason: &str, message: String) {
        if self.told.insert(message.clone()) {
            self.reporter.event(tone, reason, message);
        }
    }
}

/// How every device is, as kubelet is told.
fn health(layout: &Layout, pool: &str) -> Vec<DeviceHealth> {
    let devices = layout.gpus.iter().flatten();
    let of = |device: &carve_dra::Device| {
        let name = device.name.to_string();
        match device.taints.first() {
            None => DeviceHealth::healthy(pool, &name),
            Some(taint) => DeviceHealth::unhealthy(pool, &name, &taint.value),
        }
    };
    devices.map(of).collect()
}
