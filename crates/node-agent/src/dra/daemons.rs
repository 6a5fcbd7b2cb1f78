//! MPS daemons for claims: there when a claim needs one, gone when none does.

use crate::driver_links::DriverLinks;
use crate::mps::MpsDoor;
use crate::options::AgentOptions;
use carve_mps::{MpsSettings, PartStatus};
use carve_slicing::mps::MpsLimits;
use carve_slicing::{PartId, Settings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::{Mutex, watch};

/// How long a daemon may take to be ready, or to be gone. Kubelet waits longer, and asks again.
const PATIENCE: Duration = Duration::from_secs(30);

/// All daemons for claims.
#[derive(Debug)]
pub(crate) struct Daemons {
    door: Mutex<MpsDoor>,
    statuses: watch::Receiver<BTreeMap<PartId, PartStatus>>,
    links: DriverLinks,
    mps_root: PathBuf,
    driver_root: String,
    version: String,
}

impl Daemons {
    pub(crate) fn new(options: &AgentOptions, settings: &Settings, version: String) -> Self {
        let door = MpsDoor::new(options);
        let statuses = door.status();
        Daemons {
            door: Mutex::new(door),
            statuses,
            links: DriverLinks::new(options),
            mps_root: PathBuf::from(&settings.mps_root),
            driver_root: settings.driver_root.clone(),
            version,
        }
    }

    /// The driver's own program for settings, with its environment.
    pub(crate) fn smi(&self) -> Option<(PathBuf, Vec<(String, String)>)> {
        let name = Path::new("nvidia-smi");
        let within = self
            .links
            .root()
            .map(|root| format!("{0}/usr/bin:{0}/usr/local/bin:{0}/opt/bin", root.display()));
        let program = within.and_then(|within| MpsSettings::find(name, &within));
        let path = std::env::var("PATH").unwrap_or_default();
        let program = program.or_else(|| MpsSettings::find(name, &path))?;
        let libraries = self.links.make(&self.driver_root, &self.version);
        let environment =
            libraries.map(|folder| ("LD_LIBRARY_PATH".to_owned(), folder.display().to_string()));
        Some((program, environment.into_iter().collect()))
    }

    /// Has exactly these daemons.
    pub(crate) async fn keep(&self, wanted: BTreeMap<PartId, MpsLimits>) -> Result<(), String> {
        self.door.lock().await.keep(wanted, self.mps_root.clone(), &self.driver_root, &self.version)
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
        let mut statuses = self.statuses.clone();
        let none = statuses.wait_for(|statuses| parts.iter().all(|part| !statuses.contains_key(part)));
        if tokio::time::timeout(PATIENCE, none).await.is_ok() {
            return Ok(());
        }
        let statuses = self.statuses.borrow();
        let left = parts.iter().filter_map(|part| Some((part, statuses.get(part)?)));
        let words = left.map(|(part, status)| format!("{part}: {}", status.state));
        Err(words.collect::<Vec<_>>().join("; "))
    }
}
