//! Everything put together: store, API, controller and engine, from the start to the end.

use crate::books::Books;
use crate::engine::{Engine, Machines};
use crate::fleet::FleetError;
use crate::objects::now;
use crate::workloads::kind;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use carve_controller::Embedded;
use carve_fleet_picture::Picture;
use carve_object_api::{Admission, ObjectApi};
use carve_object_store::{OpenError, Resource, Settings, Store};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;
use tower::ServiceExt;

/// How long news are collected before they are acted upon.
const TOGETHER: Duration = Duration::from_millis(15);

/// Why there is no cluster.
#[derive(Debug, Error)]
pub enum StartError {
    /// Its objects can not be read.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Its machines can not be made.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// There is none yet, and nobody said of what to make it.
    #[error(
        "there are no machines in {0} yet; say which to simulate, as in --fleet p4d.24xlarge=1,g5.2xlarge=4"
    )]
    NoFleet(String),
}

/// What people see, always the newest.
pub type Seen = watch::Receiver<Arc<Picture>>;

/// A cluster in one process.
#[derive(Debug)]
pub struct LocalCluster {
    api: ObjectApi,
    books: Books,
    embedded: Embedded,
    engine: Engine,
    told: watch::Sender<Arc<Picture>>,
    ready: watch::Sender<bool>,
}

/// What is gone with the process: it is told again, or nobody asks for it.
fn passes(resource: &Resource) -> bool {
    matches!(resource.0.as_str(), "events" | "leases.coordination.k8s.io")
}

/// Asks the controller's own webhooks, without a network; nobody is answered before they know the cluster.
struct Asked {
    webhooks: Router,
    ready: watch::Receiver<bool>,
}

impl Asked {
    async fn ask(&self, path: &str, request: Value) -> Value {
        let refused = |why: String| json!({"allowed": false, "status": {"code": 503, "message": why}});
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let sent = Request::post(path)
            .header("content-type", "application/json")
            .body(Body::from(review.to_string()));
        let Ok(sent) = sent else { return refused("the question can not be written".to_owned()) };
        let Ok(answer) = self.webhooks.clone().oneshot(sent).await;
        let bytes = match answer.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return refused(error.to_string()),
        };
        match serde_json::from_slice::<Value>(&bytes) {
            Ok(review) => review["response"].clone(),
            Err(_) => refused(String::from_utf8_lossy(&bytes).trim().to_owned()),
        }
    }
}

impl Admission for Asked {
    fn review(&self, request: Value) -> BoxFuture<'_, Value> {
        async move {
            let kind = request["kind"]["kind"].as_str().unwrap_or_default();
            let path = match (kind, request["operation"].as_str()) {
                ("Pod", Some("CREATE")) => "/admit",
                // What it has decided itself is written past this.
                ("Pod", _) if request["subResource"].is_null() => "/validate",
                ("Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" | "CronJob", _) => {
                    "/validate"
                }
                _ => return json!({"allowed": true}),
            };
            // Gone with the cluster, and then nobody is answered anyway.
            let _ = self.ready.clone().wait_for(|ready| *ready).await;
            self.ask(path, request).await
        }
        .boxed()
    }
}

impl LocalCluster {
    /// Opens what is in a folder, with machines. Without a folder everything is gone with the process.
    pub fn open(folder: Option<&Path>, machines: Machines<'_>) -> Result<Self, StartError> {
        let settings = Settings { passing: passes, ..Settings::default() };
        let store = match folder {
            Some(folder) => Store::open(folder, settings)?,
            None => Store::in_memory(settings),
        };
        let api = ObjectApi::new(store);
        let books = Books::open(folder);
        let journals = folder.map_or_else(
            || std::env::temp_dir().join(format!("carve-up-{}", std::process::id())),
            Path::to_owned,
        );
        let engine = Engine::new(api.clone(), books.clone(), machines, &journals)?;
        if engine.is_empty() {
            let place = folder.map_or_else(|| "memory".to_owned(), |folder| folder.display().to_string());
            return Err(StartError::NoFleet(place));
        }
        let embedded = Embedded::new(api.client());
        let told = watch::Sender::new(Arc::new(Picture::default()));
        let ready = watch::Sender::new(false);
        api.admit_by(Arc::new(Asked { webhooks: embedded.admission(), ready: ready.subscribe() }));
        Ok(LocalCluster { api, books, embedded, engine, told, ready })
    }

    /// Whether nobody has written anything yet.
    pub fn is_new(&self) -> bool {
        ["deployments.apps", "statefulsets.apps", "jobs.batch", "pods", "slicepolicies"]
            .iter()
            .all(|plural| self.api.list(kind(plural), None).is_empty())
    }

    /// Machines and GPUs.
    pub fn size(&self) -> (usize, usize) {
        self.engine.size()
    }

    /// The objects, for whoever asks as at an API server.
    pub fn api(&self) -> &ObjectApi {
        &self.api
    }

    /// Who pays.
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// What people see.
    pub fn seen(&self) -> Seen {
        self.told.subscribe()
    }

    /// Whether objects may be written: before that nobody is asked whether they are admitted.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    /// Makes what every cluster has.
    async fn settle(api: &ObjectApi) {
        for namespace in ["default", "kube-system", "carve"] {
            let object = json!({"metadata": {"name": namespace}});
            // It is there after a restart.
            let _ = api.create(kind("namespaces"), "", object).await;
        }
        let lease = json!({"metadata": {"name": "carve-controller"}, "spec": {"holderIdentity": "carve up"}});
        let _ = api.create(kind("leases.coordination.k8s.io"), "carve", lease).await;
        let hook = json!({"metadata": {"name": "carve"}, "webhooks": []});
        let _ = api.create(kind("mutatingwebhookconfigurations"), "", hook).await;
    }

    /// Runs until `stop` is done, and keeps everything for the next time.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        Self::settle(&self.api.clone()).await;
        // Nodes first: admission is ready when it knows the GPUs.
        self.engine.appear();
        let (embedded, webhooks) = (self.embedded.clone(), self.embedded.admission());
        let controller = tokio::spawn(async move { embedded.run().await });
        wait_until_ready(&webhooks).await;
        self.ready.send_replace(true);
        let (api, told) = (self.api.clone(), &self.told);
        let engine = &mut self.engine;
        let living = async {
            let store = api.store();
            loop {
                let before = store.version();
                let pause = engine.step(now()).await;
                let picture = engine.picture();
                told.send_if_modified(|last| {
                    let changed = **last != *picture;
                    if changed {
                        *last = Arc::new(picture.clone());
                    }
                    changed
                });
                let Ok(mut news) = store.watch(None, None, before) else { continue };
                tokio::select! {
                    _ = news.next() => tokio::time::sleep(TOGETHER).await,
                    () = tokio::time::sleep(Duration::from_millis(pause)) => {}
                }
            }
        };
        tokio::select! {
            () = living => {}
            () = stop => {}
        }
        controller.abort();
        self.engine.close(now());
    }
}

/// Admission answers once it has seen everything; nobody is asked to wait for it.
async fn wait_until_ready(routes: &Router) {
    for _ in 0..200 {
        let Ok(asked) = Request::get("/readyz").body(Body::empty()) else { return };
        let Ok(answer) = routes.clone().oneshot(asked).await;
        if answer.status().is_success() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tracing::warn!("admission does not know the cluster yet");
}
