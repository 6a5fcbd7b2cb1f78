//! As much of a kubelet as a driver of dynamic resources meets: it finds registration sockets, asks who is there, and forgets
//! those whose socket is gone.
#![allow(clippy::panic, reason = "a test helper: the panic is the test's failure")]

use crate::PATIENCE;
use carve_kubelet_api::dial::dial;
use carve_kubelet_api::registration::{InfoRequest, PluginInfo, RegistrationClient, RegistrationStatus};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tonic::transport::Channel;

/// Which file a socket is: the number of a file that is gone may be used again.
type Identity = (u64, u64, i64, i64);

#[derive(Debug)]
struct Plugin {
    socket: PathBuf,
    identity: Identity,
    /// None if it was refused.
    found: Option<(PluginInfo, Channel)>,
}

#[derive(Debug, Default)]
struct Known {
    plugins: Vec<Plugin>,
    refusal: Option<String>,
}

/// The part of a kubelet that watches for plugins.
#[derive(Debug)]
pub struct PluginWatcher {
    known: Arc<Mutex<Known>>,
    task: JoinHandle<()>,
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn identity(path: &Path) -> Option<Identity> {
    let file = std::fs::symlink_metadata(path).ok()?;
    file.file_type().is_socket().then(|| (file.dev(), file.ino(), file.ctime(), file.ctime_nsec()))
}

impl PluginWatcher {
    /// Watches a folder, `plugins_registry` of a real kubelet.
    pub fn start(registry: &Path) -> Self {
        let known: Arc<Mutex<Known>> = Arc::default();
        let (registry, shared) = (registry.to_owned(), Arc::clone(&known));
        let task = tokio::spawn(async move {
            loop {
                look(&registry, &shared).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        PluginWatcher { known, task }
    }

    /// Refuses every plugin that comes from now on.
    pub fn refuse(&self, why: &str) {
        lock(&self.known).refusal = Some(why.to_owned());
    }

    /// Forgets all plugins and their connections, as a kubelet that restarts; they are found again.
    pub fn restart(&self) {
        lock(&self.known).plugins.clear();
    }

    /// What has registered under a driver's name, in the order of registration.
    pub fn registered(&self, driver: &str) -> Vec<PluginInfo> {
        let found = |plugin: &Plugin| plugin.found.as_ref().map(|(info, _)| info.clone());
        lock(&self.known).plugins.iter().filter_map(found).filter(|info| info.name == driver).collect()
    }

    /// Waits until so many instances of a driver are registered.
    pub async fn instances(&self, driver: &str, number: usize) -> Vec<PluginInfo> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let registered = self.registered(driver);
            if registered.len() == number {
                return registered;
            }
            if Instant::now() > give_up {
                panic!("waited in vain for {number} instances of {driver}; there are {registered:?}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The connection that kubelet would use: the one to the instance that came last.
    pub async fn latest(&self, driver: &str) -> Channel {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let of_driver = |plugin: &Plugin| {
                plugin
                    .found
                    .as_ref()
                    .filter(|(info, _)| info.name == driver)
                    .map(|(_, channel)| channel.clone())
            };
            if let Some(channel) = lock(&self.known).plugins.iter().rev().find_map(of_driver) {
                return channel;
            }
            if Instant::now() > give_up {
                panic!("waited in vain for {driver}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for PluginWatcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One round: who is gone, and who is new.
async fn look(registry: &Path, known: &Mutex<Known>) {
    lock(known).plugins.retain(|plugin| identity(&plugin.socket) == Some(plugin.identity));
    for entry in std::fs::read_dir(registry).into_iter().flatten().flatten() {
        let socket = entry.path();
        let Some(identity) = identity(&socket) else { continue };
        if lock(known).plugins.iter().any(|plugin| plugin.socket == socket) {
            continue;
        }
        // A plugin that does not answer is asked again in the next round.
        if let Some(found) = introduced(&socket, known).await {
            lock(known).plugins.push(Plugin { socket, identity, found });
        }
    }
}

/// Asks who is there and says what becomes of it, as kubelet does; none if nobody answers.
async fn introduced(socket: &Path, known: &Mutex<Known>) -> Option<Option<(PluginInfo, Channel)>> {
    let mut client = RegistrationClient::new(dial(socket).await.ok()?);
    let asked = tokio::time::timeout(Duration::from_secs(1), client.get_info(InfoRequest {})).await;
    let info = asked.ok()?.ok()?.into_inner();
    let refusal = lock(known).refusal.clone();
    let found = match &refusal {
        Some(_) => None,
        None => Some((info.clone(), dial(Path::new(&info.endpoint)).await.ok()?)),
    };
    let status =
        RegistrationStatus { plugin_registered: refusal.is_none(), error: refusal.unwrap_or_default() };
    client.notify_registration_status(status).await.ok()?;
    Some(found)
}
