//! As much of a kubelet as a device plugin meets: it can be registered with, dialled back, restarted, and asked who holds
//! what.
#![allow(clippy::panic, reason = "a test helper: the panic is the test's failure")]

use crate::PATIENCE;
use carve_kubelet_api::device_plugin::{
    Device, DevicePluginClient, Empty, ListAndWatchResponse, RegisterRequest, Registration,
    RegistrationServer,
};
use carve_kubelet_api::dial::dial;
use carve_kubelet_api::pod_resources::{
    ContainerDevices, ContainerResources, ListPodResourcesRequest, ListPodResourcesResponse, PodResources,
    PodResourcesLister, PodResourcesListerServer,
};
use carve_kubelet_api::serve::Socket;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

/// A device that a container of a pod holds.
#[derive(Debug, Clone)]
struct Holding {
    resource: String,
    device: String,
    pod: String,
    container: String,
}

#[derive(Debug, Default)]
struct Known {
    registered: Mutex<BTreeMap<String, RegisterRequest>>,
    registrations: Mutex<usize>,
    held: Mutex<Vec<Holding>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kubelet.
#[derive(Debug)]
pub struct FakeKubelet {
    folder: PathBuf,
    known: Arc<Known>,
    running: Option<(watch::Sender<bool>, Vec<JoinHandle<()>>)>,
}

struct Door(Arc<Known>);

#[tonic::async_trait]
impl Registration for Door {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        *lock(&self.0.registrations) += 1;
        lock(&self.0.registered).insert(request.resource_name.clone(), request);
        Ok(Response::new(Empty {}))
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Door {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let held = lock(&self.0.held).clone();
        let pods = held.into_iter().map(|Holding { resource, device, pod, container }| PodResources {
            name: pod,
            namespace: "default".to_owned(),
            containers: vec![ContainerResources {
                name: container,
                devices: vec![ContainerDevices {
                    resource_name: resource,
                    device_ids: vec![device],
                    topology: None,
                }],
                dynamic_resources: Vec::new(),
            }],
        });
        Ok(Response::new(ListPodResourcesResponse { pod_resources: pods.collect() }))
    }
}

impl FakeKubelet {
    /// A kubelet whose sockets are in a folder: `device-plugins/kubelet.sock` and `pod-resources/kubelet.sock`.
    pub async fn start(folder: &Path) -> Self {
        let mut kubelet = FakeKubelet { folder: folder.to_owned(), known: Arc::default(), running: None };
        kubelet.begin();
        kubelet
    }

    fn begin(&mut self) {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = Vec::new();
        for (socket, which) in [(self.socket(), true), (self.pod_resources(), false)] {
            let folder = socket.parent().unwrap_or(Path::new("/"));
            std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            let bound = Socket::bind(&socket).unwrap_or_else(|error| panic!("{error}"));
            let door = Door(Arc::clone(&self.known));
            let router = if which {
                Server::builder().add_service(RegistrationServer::new(door))
            } else {
                Server::builder().add_service(PodResourcesListerServer::new(door))
            };
            let mut stopped = stopped.clone();
            tasks.push(tokio::spawn(async move {
                let stop = async move {
                    let _ = stopped.wait_for(|stop| *stop).await;
                };
                bound.serve(router, stop).await.unwrap_or_else(|error| panic!("{error}"));
            }));
        }
        self.running = Some((stop, tasks));
    }

    /// The socket for plugins.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("device-plugins/kubelet.sock")
    }

    /// The socket that tells who holds what.
    pub fn pod_resources(&self) -> PathBuf {
        self.folder.join("pod-resources/kubelet.sock")
    }

    /// Ends it.
    pub async fn stop(&mut self) {
        if let Some((stop, tasks)) = self.running.take() {
            stop.send_replace(true);
            for task in tasks {
                let _ = task.await;
            }
        }
    }

    /// Ends it and starts it as a real one starts: it forgets all plugins and deletes their sockets.
    pub async fn restart(&mut self) {
        self.stop().await;
        lock(&self.known.registered).clear();
        let entries = std::fs::read_dir(self.folder.join("device-plugins")).into_iter().flatten().flatten();
        for socket in
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "sock"))
        {
            let _ = std::fs::remove_file(socket);
        }
        self.begin();
    }

    /// Everything that is registered, by resource.
    pub fn registered(&self) -> BTreeMap<String, RegisterRequest> {
        lock(&self.known.registered).clone()
    }

    /// How often anything was registered.
    pub fn registrations(&self) -> usize {
        *lock(&self.known.registrations)
    }

    /// Says that a pod holds a device in its container `main`.
    pub fn hold(&self, resource: &str, device: &str, pod: &str) {
        self.hold_in(resource, device, pod, "main");
    }

    /// Says that a container of a pod holds a device.
    pub fn hold_in(&self, resource: &str, device: &str, pod: &str, container: &str) {
        let [resource, device, pod, container] = [resource, device, pod, container].map(str::to_owned);
        lock(&self.known.held).push(Holding { resource, device, pod, container });
    }

    /// Says that a pod is gone.
    pub fn release(&self, pod: &str) {
        lock(&self.known.held).retain(|holding| holding.pod != pod);
    }

    /// Waits until a resource is registered, and dials its plugin.
    pub async fn plugin(&self, resource: &str) -> DevicePluginClient<Channel> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(request) = self.registered().get(resource) {
                let socket = self.folder.join("device-plugins").join(&request.endpoint);
                if let Ok(channel) = dial(&socket).await {
                    return DevicePluginClient::new(channel);
                }
            }
            if Instant::now() > give_up {
                panic!("{resource} was not registered; there are {:?}", self.registered().keys());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The devices of a resource as its plugin lists them to begin with.
    pub async fn devices(&self, resource: &str) -> Vec<Device> {
        let mut plugin = self.plugin(resource).await;
        let stream = plugin.list_and_watch(Empty {}).await;
        let mut stream = stream.unwrap_or_else(|error| panic!("{resource}: no list: {error}")).into_inner();
        match tokio::time::timeout(PATIENCE, stream.message()).await {
            Ok(Ok(Some(list))) => list.devices,
            other => panic!("{resource}: no list: {other:?}"),
        }
    }

    /// The devices of a resource once they are as a test wants them: id and health.
    pub async fn devices_when(
        &self,
        resource: &str,
        what: &str,
        holds: impl Fn(&[(String, String)]) -> bool,
    ) -> Vec<(String, String)> {
        let give_up = Instant::now() + PATIENCE;
        let mut last = Vec::new();
        while Instant::now() < give_up {
            let mut plugin = self.plugin(resource).await;
            let Ok(stream) = plugin.list_and_watch(Empty {}).await else { continue };
            let mut stream = stream.into_inner();
            while let Ok(Ok(Some(list))) =
                tokio::time::timeout(Duration::from_secs(5), stream.message()).await
            {
                last = pairs(list);
                if holds(&last) {
                    return last;
                }
            }
        }
        panic!("{resource}: waited in vain until {what}; last seen {last:?}");
    }
}

fn pairs(list: ListAndWatchResponse) -> Vec<(String, String)> {
    list.devices.into_iter().map(|device| (device.id, device.health)).collect()
}
