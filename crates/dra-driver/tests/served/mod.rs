//! A driver for tests, whose claims say by their names what becomes of them, and a folder of kubelet's to serve it in.
#![allow(dead_code, reason = "each suite uses what it needs")]

use carve_dra_driver::{Driver, Pace, Registered, ServeError, SocketPlaces, serve_at};
use carve_kubelet_api::dra::{
    Claim, DRAPluginClient, Device, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest,
};
use carve_kubelet_api::dra_health::DeviceHealth;
use carve_test_support::{PATIENCE, PluginWatcher};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tonic::transport::Channel;

pub(crate) const DRIVER: &str = "gpu.carve.dev";
pub(crate) const OLD: &str = "00000000-0000-4000-8000-00000000000a";
pub(crate) const NEW: &str = "00000000-0000-4000-8000-00000000000b";

/// Fast where nothing is waited for on purpose, and patient where a busy machine must not decide.
pub(crate) const PACE: Pace = Pace {
    answer: Duration::from_secs(100),
    health: Duration::from_millis(50),
    look: Duration::from_millis(20),
    sweep: Duration::from_millis(50),
    drain: Duration::from_secs(100),
};

/// Notes what it was asked. A claim called `slow…` takes until the gate lets it through.
pub(crate) struct Fake {
    pub(crate) gate: Semaphore,
    log: Mutex<Vec<String>>,
}

impl Fake {
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().expect("a log").clone()
    }

    fn note(&self, what: &str, claim: &Claim) {
        self.log.lock().expect("a log").push(format!("{what} {}", claim.uid));
    }

    async fn work(&self, verb: &str, claims: &[Claim]) -> Vec<(String, Result<(), String>)> {
        let mut outcomes = Vec::new();
        for claim in claims {
            self.note(&format!("{verb} begins"), claim);
            if claim.name.starts_with("slow") {
                self.gate.acquire().await.expect("a gate").forget();
            }
            let outcome = match claim.name.as_str() {
                "bad" => Err("no such device".to_owned()),
                "wordless" => Err(String::new()),
                "panics" => panic!("the table has no row {}", claim.uid),
                "forgotten" => continue,
                _ => Ok(()),
            };
            self.note(&format!("{verb} ends"), claim);
            outcomes.push((claim.uid.clone(), outcome));
        }
        outcomes
    }
}

impl Driver for Fake {
    async fn prepare(&self, claims: Vec<Claim>) -> BTreeMap<String, Result<Vec<Device>, String>> {
        let outcomes = self.work("prepare", &claims).await;
        outcomes
            .into_iter()
            .map(|(uid, outcome)| (uid.clone(), outcome.map(|()| vec![device(&uid)])))
            .collect()
    }

    async fn unprepare(&self, claims: Vec<Claim>) -> BTreeMap<String, Result<(), String>> {
        self.work("unprepare", &claims).await.into_iter().collect()
    }
}

/// What the driver answers for a claim that is prepared.
pub(crate) fn device(uid: &str) -> Device {
    Device {
        request_names: vec!["gpu".to_owned()],
        pool_name: "node0".to_owned(),
        device_name: "gpu-0".to_owned(),
        cdi_device_ids: vec![format!("gpu.carve.dev/claim={uid}")],
        share_id: Some("share".to_owned()),
    }
}

/// A claim whose uid is its name and a number.
pub(crate) fn claim(name: &str, number: u32) -> Claim {
    Claim { namespace: "default".to_owned(), uid: format!("{name}-{number}"), name: name.to_owned() }
}

/// Kubelet's folder with one that watches it.
pub(crate) struct Node {
    folder: TempDir,
    pub(crate) kubelet: PluginWatcher,
}

/// An instance of the driver that is served.
pub(crate) struct Instance {
    pub(crate) driver: Arc<Fake>,
    pub(crate) registered: watch::Receiver<Registered>,
    pub(crate) health: watch::Sender<Vec<DeviceHealth>>,
    pub(crate) places: SocketPlaces,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Node {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("k").tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("plugins_registry")).expect("a registry");
        let kubelet = PluginWatcher::start(&folder.path().join("plugins_registry"));
        Node { folder, kubelet }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn places(&self, instance: Option<&str>) -> SocketPlaces {
        SocketPlaces::below(self.path(), DRIVER, instance.map(str::to_owned))
    }

    /// Serves an instance; kubelet will find it.
    pub(crate) fn serve(&self, pace: Pace, instance: Option<&str>) -> Instance {
        let places = self.places(instance);
        let driver = Arc::new(Fake { gate: Semaphore::new(0), log: Mutex::default() });
        let (tell, registered) = watch::channel(Registered::No);
        let (health, devices) = watch::channel(Vec::new());
        let (stop, stopped) = oneshot::channel();
        let stopped = async move {
            let _ = stopped.await;
        };
        let task = tokio::spawn(serve_at(pace, places.clone(), Arc::clone(&driver), devices, tell, stopped));
        Instance { driver, registered, health, places, stop, task }
    }

    /// A connection as kubelet would use it.
    pub(crate) async fn client(&self) -> DRAPluginClient<Channel> {
        DRAPluginClient::new(self.kubelet.latest(DRIVER).await)
    }
}

impl Instance {
    pub(crate) fn files(&self) -> [PathBuf; 2] {
        [self.places.service().expect("a path"), self.places.registration().expect("a path")]
    }

    /// Tells it to stop, without waiting.
    pub(crate) fn begin_to_stop(self) -> JoinHandle<Result<(), ServeError>> {
        let _ = self.stop.send(());
        self.task
    }

    /// Stops it and waits for its end.
    pub(crate) async fn stop(self) {
        in_time(self.begin_to_stop()).await.expect("a task").expect("a clean end");
    }
}

/// Prepares claims: for each either its number of devices or the error.
pub(crate) async fn prepare(
    client: &mut DRAPluginClient<Channel>,
    claims: Vec<Claim>,
) -> BTreeMap<String, Result<Vec<Device>, String>> {
    let request = NodePrepareResourcesRequest { claims };
    let answer = in_time(client.node_prepare_resources(request)).await.expect("an answer").into_inner();
    let outcome = |one: carve_kubelet_api::dra::NodePrepareResourceResponse| {
        if one.error.is_empty() { Ok(one.devices) } else { Err(one.error) }
    };
    answer.claims.into_iter().map(|(uid, one)| (uid, outcome(one))).collect()
}

/// Unprepares claims: for each the error, empty if there is none.
pub(crate) async fn unprepare(
    client: &mut DRAPluginClient<Channel>,
    claims: Vec<Claim>,
) -> BTreeMap<String, String> {
    let request = NodeUnprepareResourcesRequest { claims };
    let answer = in_time(client.node_unprepare_resources(request)).await.expect("an answer").into_inner();
    answer.claims.into_iter().map(|(uid, one)| (uid, one.error)).collect()
}

pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let looking = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "waited in vain until {what}");
}
