//! MPS daemons for claims: there when a claim needs one, gone when none does.

use crate::driver_links::DriverLinks;
use crate::metrics::Metrics;
use crate::mps::MpsDoor;
use crate::options::AgentOptions;
use carve_dra_driver::Preparer;
use carve_mps::{MpsSettings, PartDirectories, PartStatus};
use carve_slicing::mps::MpsLimits;
use carve_slicing::{PartId, Settings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

/// How long a daemon may take to be ready, or to be gone. Kubelet waits longer, and asks again.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks whether a daemon is gone.
const LOOK: Duration = Duration::from_millis(50);

/// How often daemons are held against records. Another agent of this node may have made claims ready or taken them back, and a daemon
/// that ends is started again by whoever started it, a second later, unless it is told before.
const AGAIN: Duration = Duration::from_millis(500);

/// Finds the daemons of an earlier agent, and lets go of those that another agent has ended.
pub(crate) async fn run(daemons: Arc<Daemons>, metrics: Arc<Metrics>) {
    let mut found = false;
    loop {
        let kept = if found { daemons.let_go().await } else { daemons.keep().await };
        match kept {
            Ok(()) => found = true,
            Err(why) => tracing::debug!(why, "MPS daemons are left as they are"),
        }
        metrics.mps("claims", daemons.door.lock().await.daemons());
        tokio::time::sleep(AGAIN).await;
    }
}

/// The driver's own program for settings, with its environment.
pub(crate) fn smi(
    options: &AgentOptions,
    settings: &Settings,
    version: &str,
) -> Option<(PathBuf, Vec<(String, String)>)> {
    let (name, links) = (Path::new("nvidia-smi"), DriverLinks::new(options));
    let within =
        links.root().map(|root| format!("{0}/usr/bin:{0}/usr/local/bin:{0}/opt/bin", root.display()));
    let program = within.and_then(|within| MpsSettings::find(name, &within));
    let path = std::env::var("PATH").unwrap_or_default();
    let program = program.or_else(|| MpsSettings::find(name, &path))?;
    let libraries = links.make(&settings.driver_root, version);
    let environment = libraries.map(|folder| ("LD_LIBRARY_PATH".to_owned(), folder.display().to_string()));
    Some((program, environment.into_iter().collect()))
}

/// All daemons for claims.
#[derive(Debug)]
pub(crate) struct Daemons {
    door: Mutex<MpsDoor>,
    statuses: watch::Receiver<BTreeMap<PartId, PartStatus>>,
    preparer: Arc<Preparer>,
    mps_root: PathBuf,
    driver_root: String,
    version: String,
}

impl Daemons {
    pub(crate) fn new(
        options: &AgentOptions,
        settings: &Settings,
        version: String,
        preparer: Arc<Preparer>,
    ) -> Self {
        let door = MpsDoor::new(options);
        let statuses = door.status();
        Daemons {
            door: Mutex::new(door),
            statuses,
            preparer,
            mps_root: PathBuf::from(&settings.mps_root),
            driver_root: settings.driver_root.clone(),
            version,
        }
    }

    /// Has exactly the daemons that records speak of. They are read while nobody else is at it: of two who read first and told afterwards,
    /// the slower one would bring back what the other has ended.
    pub(crate) async fn keep(&self) -> Result<(), String> {
        let mut door = self.door.lock().await;
        let wanted = self.wanted().await?;
        door.keep(wanted, self.mps_root.clone(), &self.driver_root, &self.version)
    }

    /// Like [`Daemons::keep`] where a daemon is kept of which no record speaks any more. What is new is started by the agent that kubelet
    /// asked, and by no other.
    async fn let_go(&self) -> Result<(), String> {
        let mut door = self.door.lock().await;
        let wanted = self.wanted().await?;
        if door.keeps().all(|part| wanted.contains_key(part)) {
            return Ok(());
        }
        door.keep(wanted, self.mps_root.clone(), &self.driver_root, &self.version)
    }

    async fn wanted(&self) -> Result<BTreeMap<PartId, MpsLimits>, String> {
        let preparer = Arc::clone(&self.preparer);
        let wanted = tokio::task::spawn_blocking(move || preparer.daemons()).await;
        wanted.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// Waits until these parts have daemons that containers may be sent to.
    pub(crate) async fn ready(&self, parts: &[PartId]) -> Result<(), String> {
        let mut statuses = self.statuses.clone();
        let all = statuses.wait_for(|statuses| {
            parts.iter().all(|part| statuses.get(part).is_some_and(PartStatus::is_ready))
        });
        if tokio::time::timeout(PATIENCE, all).await.is_ok() {
            return Ok(());
        }
        let statuses = self.statuses.borrow();
        let unready = parts.iter().filter(|part| !statuses.get(*part).is_some_and(PartStatus::is_ready));
        let words = unready.map(|part| match statuses.get(part) {
            Some(status) => format!("{part}: {}", status.state),
            None => format!("{part}: its MPS daemon was not started"),
        });
        Err(words.collect::<Vec<_>>().join("; "))
    }

    /// Waits until these parts have no daemon.
    pub(crate) async fn gone(&self, parts: &[PartId]) -> Result<(), String> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let left = self.left(parts);
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > give_up {
                return Err(left.join("; "));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Those of these parts that have a daemon, in words. What an earlier agent started is known by its folder alone for a while.
    fn left(&self, parts: &[PartId]) -> Vec<String> {
        let behind = PartDirectories::left_behind(&self.mps_root);
        let statuses = self.statuses.borrow();
        let left = parts.iter().filter_map(|part| match statuses.get(part) {
            Some(status) => Some(format!("{part}: {}", status.state)),
            None if behind.contains(part) => Some(format!("{part}: it is being ended")),
            None => None,
        });
        left.collect()
    }
}
