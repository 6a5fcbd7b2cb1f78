//! The sockets of all resources: bound, registered with kubelet, and again after kubelet was restarted.
//!
//! A kubelet that starts deletes every socket in its folder and forgets all plugins. The keeper looks at kubelet's socket
//! a few times a second: a new one means a new kubelet, and every plugin is bound and registered anew.

use crate::counter;
use crate::metrics::Metrics;
use crate::plugin::{OPTIONS, Plugin, Served};
use carve_formats::device_plugin::ResourceName;
use carve_kubelet_api::device_plugin::{DevicePluginServer, RegisterRequest, RegistrationClient, VERSION};
use carve_kubelet_api::dial::dial;
use carve_kubelet_api::serve::Socket;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::Router;

/// Every resource that is served.
#[derive(Debug)]
pub(crate) struct Plugins {
    folder: PathBuf,
    kubelet: PathBuf,
    metrics: Arc<Metrics>,
    /// Where kubelet is answered.
    counter: Handle,
    running: BTreeMap<ResourceName, Running>,
    /// The kubelet all plugins are registered with.
    known: Option<Identity>,
}

/// Which file it is: a socket that was made anew is another one.
pub(crate) type Identity = (u64, u64, i64, i64);

#[derive(Debug)]
struct Running {
    state: watch::Sender<Arc<Served>>,
    server: Option<Serving>,
    registered: bool,
}

/// A server on a socket of its own.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    socket: PathBuf,
    identity: Option<Identity>,
}

/// How often kubelet's socket is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(250);
/// How long kubelet may take to answer a registration.
const REGISTRATION: Duration = Duration::from_secs(5);

impl Plugins {
    /// Plugins for the kubelet behind this socket.
    pub(crate) fn new(kubelet: PathBuf, metrics: Arc<Metrics>) -> Self {
        let folder = kubelet.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned);
        Plugins { folder, kubelet, metrics, counter: counter::open(), running: BTreeMap::new(), known: None }
    }

    /// Where plugins have their sockets.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The sockets this process has bound itself.
    pub(crate) fn own_sockets(&self) -> Vec<PathBuf> {
        self.running.values().filter_map(|one| one.server.as_ref()).map(|one| one.socket.clone()).collect()
    }

    /// Serves exactly these resources from now on. One that is gone stays, without devices: kubelet then shows 0 of it.
    pub(crate) fn serve(&mut self, resources: BTreeMap<ResourceName, Served>) {
        for (name, running) in &self.running {
            if !resources.contains_key(name) {
                let empty = running.state.borrow().emptied();
                running.state.send_replace(Arc::new(empty));
                self.metrics.devices(name.as_str(), 0, 0);
            }
        }
        for (name, served) in resources {
            let served = Arc::new(served);
            match self.running.get(&name) {
                Some(running) => {
                    running.state.send_replace(served);
                }
                None => {
                    let running =
                        Running { state: watch::Sender::new(served), server: None, registered: false };
                    self.running.insert(name, running);
                }
            }
        }
    }

    /// Whether kubelet knows every resource.
    pub(crate) fn all_registered(&self) -> bool {
        self.running.values().all(|running| running.registered)
    }

    /// Binds and registers what is not yet, and everything again if kubelet is a new one. Called a few times a second.
    pub(crate) async fn look_after(&mut self) {
        let kubelet = identity(&self.kubelet);
        if kubelet != self.known {
            if self.known.is_some() {
                tracing::info!(socket = %self.kubelet.display(), "kubelet was restarted; registering anew");
            }
            self.known = kubelet;
            self.withdraw().await;
        }
        if kubelet.is_none() {
            return;
        }
        let names: Vec<ResourceName> = self.running.keys().cloned().collect();
        for name in names {
            self.look_after_one(&name).await;
        }
    }

    async fn look_after_one(&mut self, name: &ResourceName) {
        let socket = self.folder.join(socket_name(name));
        let Some(running) = self.running.get_mut(name) else { return };
        // Somebody took the socket away, or put another one in its place.
        let lost = running.server.as_ref().is_some_and(Serving::is_lost);
        if lost && let Some(server) = running.server.take() {
            tracing::warn!(resource = %name, socket = %server.socket.display(), "the socket is gone; binding it anew");
            server.end().await;
            running.registered = false;
        }
        if running.server.is_none() {
            let (stop, stopped) = watch::channel(false);
            let plugin = Plugin::new(running.state.subscribe(), stopped, Arc::clone(&self.metrics));
            let router = Server::builder().add_service(DevicePluginServer::new(plugin));
            match start(&socket, router, stop, &self.counter) {
                Ok(server) => running.server = Some(server),
                Err(error) => {
                    tracing::error!(resource = %name, %error, "the resource can not be served; trying again");
                    return;
                }
            }
        }
        if !running.registered {
            let request = RegisterRequest {
                version: VERSION.to_owned(),
                endpoint: socket_name(name),
                resource_name: name.to_string(),
                options: Some(OPTIONS),
            };
            match register(&self.kubelet, request).await {
                Ok(()) => {
                    running.registered = true;
                    self.metrics.registered(name.as_str());
                    tracing::info!(resource = %name, devices = running.state.borrow().resource.devices.len(), "registered");
                }
                Err(error) => {
                    tracing::warn!(resource = %name, %error, "kubelet did not register it; trying again")
                }
            }
        }
    }

    /// Ends every server; what runs keeps its devices, kubelet keeps its books.
    pub(crate) async fn withdraw(&mut self) {
        for running in self.running.values_mut() {
            running.registered = false;
            if let Some(server) = running.server.take() {
                server.end().await;
            }
        }
    }
}

impl Serving {
    /// Whether it ended, or somebody put another socket in its place.
    pub(crate) fn is_lost(&self) -> bool {
        self.task.is_finished() || self.identity != identity(&self.socket)
    }

    pub(crate) async fn end(self) {
        self.stop.send_replace(true);
        // Its streams end by themselves when told; draining has a limit of its own.
        let _ = self.task.await;
    }
}

/// The socket of a resource, by the name NVIDIA's plugin uses.
pub(crate) fn socket_name(resource: &ResourceName) -> String {
    format!("nvidia-{}.sock", resource.local())
}

/// Serves a plugin on a socket until `stop` is true.
pub(crate) fn start(
    socket: &Path,
    router: Router,
    stop: watch::Sender<bool>,
    counter: &Handle,
) -> Result<Serving, carve_kubelet_api::serve::ServeError> {
    let bound = {
        // Whoever binds a socket is woken by it.
        let _there = counter.enter();
        Socket::bind(socket)?
    };
    let mut stopped = stop.subscribe();
    let task = counter.spawn(async move {
        let stop = async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        if let Err(error) = bound.serve(router, stop).await {
            tracing::error!(%error, "a plugin ended");
        }
    });
    Ok(Serving { stop, task, socket: socket.to_owned(), identity: identity(socket) })
}

/// Tells kubelet of a resource.
pub(crate) async fn register(kubelet: &Path, request: RegisterRequest) -> Result<(), String> {
    let call = async {
        let channel = dial(kubelet).await.map_err(|error| error.to_string())?;
        RegistrationClient::new(channel).register(request).await.map_err(|status| status.message().to_owned())
    };
    match tokio::time::timeout(REGISTRATION, call).await {
        Ok(answer) => answer.map(drop),
        Err(_) => Err(format!("no answer in {} s", REGISTRATION.as_secs())),
    }
}

/// Which file is there now.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    let file = std::fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.ctime(), file.ctime_nsec()))
}
