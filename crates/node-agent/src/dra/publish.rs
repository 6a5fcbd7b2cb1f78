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
use std::time::Duration;
use tokio::sync::watch;

/// Slices are looked at again after this without any news.
const AGAIN: Duration = Duration::from_secs(30);
/// After a failure sooner.
const SOON: Duration = Duration::from_secs(2);

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
                changed = changes.changed() => if changed.is_err() { tokio::time::sleep(wait).await },
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
        let layout = layout(&news.node.driver, &facts.gpus, &ways);
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
            return Err(
                "the API server does not keep what would keep devices apart, so none is offered".to_owned()
            );
        }
        Ok(())
    }

    /// The ways that this cluster's scheduler can keep apart.
    async fn ways(&mut self) -> Result<Ways, String> {
        let server = self.api.server_version().await.map_err(|error| error.to_string())?;
        let choice = ways_for(server, self.mode).map_err(|error| error.to_string())?;
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
