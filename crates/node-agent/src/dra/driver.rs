//! What kubelet asks: claims are made ready and taken back, each by itself, so that one that fails does not hinder another.

use super::daemons::Daemons;
use crate::machine::Machine;
use crate::metrics::Metrics;
use carve_cluster_api::{ApiError, ClaimDeviceStatus, NodeApi, Tone};
use carve_dra_driver::{
    ClaimRecord, DeviceRecord, Driver, NodeFiles, PrepareError, PreparedDevice, Preparer, Stage, UsageRecord,
};
use carve_kubelet_api::dra::{Claim, Device};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long the API server may take to tell about a claim.
const ASKING: Duration = Duration::from_secs(10);

/// How long a claim waits for what another is about to give back: containers may take as long as their pod allows to end.
const GIVING_BACK: Duration = Duration::from_secs(30);
/// How often it looks.
const MOMENT: Duration = Duration::from_millis(50);

/// Makes claims ready.
#[derive(Debug)]
pub(crate) struct ClaimDriver {
    pub(crate) preparer: Arc<Preparer>,
    pub(crate) machine: Machine,
    pub(crate) api: NodeApi,
    pub(crate) daemons: Arc<Daemons>,
    pub(crate) files: watch::Receiver<NodeFiles>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) driver: String,
    /// Whether there is a limiter to hold fractions to what they have.
    pub(crate) enforced: bool,
}

impl Driver for ClaimDriver {
    async fn prepare(&self, claims: Vec<Claim>) -> BTreeMap<String, Result<Vec<Device>, String>> {
        let mut answers = BTreeMap::new();
        for claim in claims {
            let prepared = self.make_ready(&claim).await;
            self.metrics.claim("prepare", prepared.is_ok());
            match &prepared {
                Ok(devices) => {
                    tracing::info!(
                        claim = claim.name,
                        namespace = claim.namespace,
                        devices = devices.len(),
                        "ready"
                    );
                }
                Err(why) => tracing::warn!(claim = claim.name, namespace = claim.namespace, why, "not ready"),
            }
            answers.insert(claim.uid, prepared.map(|devices| devices.into_iter().map(device).collect()));
        }
        answers
    }

    async fn unprepare(&self, claims: Vec<Claim>) -> BTreeMap<String, Result<(), String>> {
        let mut answers = BTreeMap::new();
        for claim in claims {
            let done = self.take_back(&claim.uid).await;
            self.metrics.claim("unprepare", done.is_ok());
            match &done {
                Ok(()) => tracing::info!(claim = claim.name, namespace = claim.namespace, "taken back"),
                Err(why) => {
                    tracing::warn!(claim = claim.name, namespace = claim.namespace, why, "not taken back");
                }
            }
            answers.insert(claim.uid, done);
        }
        answers
    }
}

fn device(prepared: PreparedDevice) -> Device {
    Device {
        request_names: vec![prepared.request],
        pool_name: prepared.pool,
        device_name: prepared.device,
        cdi_device_ids: prepared.cdi_ids,
        share_id: prepared.share,
    }
}

/// Files and locks are waited for beside the threads that answer kubelet.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| format!("the work was given up: {error}"))
}

impl ClaimDriver {
    async fn make_ready(&self, asked: &Claim) -> Result<Vec<PreparedDevice>, String> {
        // What was made ready before stays so, also while the API server is away.
        let known = self.record(&asked.uid).await?;
        if known.as_ref().is_none_or(|record| record.stage != Stage::Ready) {
            let claim = Arc::new(self.read(asked).await?);
            let give_up = tokio::time::Instant::now() + GIVING_BACK;
            // Kubelet would not ask again for a minute or more.
            while let Err(error) = self.begin(&claim).await? {
                if !error.may_pass() || tokio::time::Instant::now() > give_up {
                    return Err(error.to_string());
                }
                tokio::time::sleep(MOMENT).await;
            }
        }
        let (preparer, uid) = (Arc::clone(&self.preparer), asked.uid.clone());
        let parts = aside(move || preparer.daemons_of(&uid)).await?.map_err(|error| error.to_string())?;
        if !parts.is_empty() {
            let title = format!("claim {}/{}", asked.namespace, asked.name);
            self.daemons.keep().await.map_err(|why| format!("{title}: {why}"))?;
            self.daemons.ready(&parts).await.map_err(|why| format!("{title}: MPS is not ready: {why}"))?;
        }
        let (preparer, uid, files) =
            (Arc::clone(&self.preparer), asked.uid.clone(), self.files.borrow().clone());
        let prepared =
            aside(move || preparer.finish(&uid, &files)).await?.map_err(|error| error.to_string())?;
        self.tell(asked).await;
        Ok(prepared)
    }

    async fn begin(&self, claim: &Arc<carve_dra::Claim>) -> Result<Result<(), PrepareError>, String> {
        let (preparer, claim) = (Arc::clone(&self.preparer), Arc::clone(claim));
        let begun = self.machine.ask(move |host| preparer.begin(host, &claim)).await;
        begun.map_err(|gone| gone.to_string())
    }

    async fn record(&self, uid: &str) -> Result<Option<ClaimRecord>, String> {
        let preparer = Arc::clone(&self.preparer);
        let records = aside(move || preparer.records()).await?.map_err(|error| error.to_string())?;
        Ok(records.claims.into_values().find(|record| record.uid == uid))
    }

    async fn read(&self, asked: &Claim) -> Result<carve_dra::Claim, String> {
        let title = format!("claim {}/{}", asked.namespace, asked.name);
        let found = tokio::time::timeout(ASKING, self.api.claim(&asked.namespace, &asked.name)).await;
        let found =
            found.map_err(|_| format!("{title}: the API server does not answer; kubelet asks again"))?;
        let found = found.map_err(|error: ApiError| format!("{title} can not be read: {error}"))?;
        match found {
            Some(claim) if claim.uid == asked.uid => Ok(claim),
            Some(_) => {
                Err(format!("{title} is another one by now; the pod's own was deleted, so delete the pod"))
            }
            None => Err(format!("{title} is gone; delete the pod")),
        }
    }

    /// Takes a claim back; one that nobody knows is done already.
    pub(crate) async fn take_back(&self, uid: &str) -> Result<(), String> {
        let (preparer, claim) = (Arc::clone(&self.preparer), uid.to_owned());
        let released = aside(move || {
            let parts = preparer.daemons_of(&claim).map_err(|error| error.to_string())?;
            let more = preparer.release(&claim).map_err(|error| error.to_string())?;
            if !more || parts.is_empty() {
                return Ok::<_, String>((more, parts));
            }
            let wanted = preparer.daemons().map_err(|error| error.to_string())?;
            Ok((more, parts.into_iter().filter(|part| !wanted.contains_key(part)).collect()))
        });
        let (more, gone) = released.await??;
        if !more {
            return Ok(());
        }
        if !gone.is_empty() {
            self.daemons.keep().await?;
            self.daemons.gone(&gone).await.map_err(|why| format!("its MPS daemon still runs: {why}"))?;
        }
        let (preparer, claim) = (Arc::clone(&self.preparer), uid.to_owned());
        let ended = self.machine.ask(move |host| preparer.end(host, &claim)).await;
        ended.map_err(|gone| gone.to_string())?.map_err(|error| error.to_string())
    }

    /// Writes anew the records of claims that are served and whose records were lost, so that they are taken back like all others; in words.
    pub(crate) async fn recover(&self) -> Result<Vec<String>, String> {
        let claims = self.api.claims_here(&self.driver).await.map_err(|error| error.to_string())?;
        let preparer = Arc::clone(&self.preparer);
        let lost = aside(move || preparer.lost(claims)).await?.map_err(|error| error.to_string())?;
        let mut news = Vec::new();
        for claim in lost {
            let (title, uid) = (format!("claim {}/{}", claim.namespace, claim.name), claim.uid.clone());
            let (preparer, files) = (Arc::clone(&self.preparer), self.files.borrow().clone());
            let written = self.machine.ask(move |host| {
                preparer.begin(host, &claim)?;
                preparer.finish(&uid, &files)
            });
            news.push(match written.await.map_err(|gone| gone.to_string())? {
                Ok(_) => format!("the record of {title} was lost and is written anew; its pods go on"),
                Err(error) => {
                    format!("the record of {title} was lost and can not be written anew yet: {error}")
                }
            });
        }
        Ok(news)
    }

    /// Tells in the status of the claim what it has. Nobody waits for it.
    async fn tell(&self, asked: &Claim) {
        let Ok(Some(record)) = self.record(&asked.uid).await else { return };
        let (api, driver, enforced) = (self.api.clone(), self.driver.clone(), self.enforced);
        tokio::spawn(async move {
            let limited =
                record.devices.iter().any(|device| matches!(device.usage, UsageRecord::Fraction { .. }));
            let devices: Vec<ClaimDeviceStatus> =
                record.devices.iter().map(|device| status(device, &driver, api.node(), enforced)).collect();
            let applied =
                api.apply_claim_devices(&record.namespace, &record.name, &record.uid, &devices).await;
            if let Err(error) = applied {
                tracing::warn!(%error, claim = record.title(), "the status of the claim can not be written");
            }
            if limited && !enforced {
                let message = "no limiter is installed on this node: memory and compute of the claim are \
                               reserved, but nothing holds its containers to them";
                let (tone, reason) = (Tone::Warning, "NotEnforced");
                let told =
                    api.tell_about_claim(&record.namespace, &record.name, &record.uid, tone, reason, message);
                if let Err(error) = told.await {
                    tracing::warn!(%error, claim = record.title(), "{message}");
                }
            }
        });
    }
}

fn status(device: &DeviceRecord, driver: &str, pool: &str, enforced: bool) -> ClaimDeviceStatus {
    let mebibytes = |amount: u64| format!("{amount}Mi");
    let (message, mut data) = match &device.usage {
        UsageRecord::Alone => ("for this claim alone", json!({"usage": "alone"})),
        UsageRecord::Turns { interval } => ("by turns", json!({"usage": "turns", "interval": interval})),
        UsageRecord::Mps { daemon_memory, daemon_threads, memory, threads, counted } => (
            "over MPS",
            json!({
                "usage": "mps",
                "memory": memory.or(*daemon_memory).map(mebibytes),
                "threads": threads.unwrap_or(*daemon_threads),
                "counted": counted.is_some(),
            }),
        ),
        UsageRecord::Fraction { memory, compute, burst, .. } => (
            if enforced { "a fraction, held by the limiter" } else { "a fraction, which nothing enforces" },
            json!({
                "usage": "fraction",
                "memory": mebibytes(*memory),
                "compute": compute,
                "burst": burst,
                "enforced": enforced,
            }),
        ),
        UsageRecord::Watch => ("to be looked at", json!({"usage": "watch"})),
    };
    data["uuid"] = Value::from(device.part.clone().unwrap_or_else(|| device.gpu.clone()));
    ClaimDeviceStatus {
        driver: driver.to_owned(),
        pool: pool.to_owned(),
        device: device.device.clone(),
        share: device.share.clone(),
        ready: true,
        message: message.to_owned(),
        data,
    }
}
