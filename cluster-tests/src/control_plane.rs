//! The controller and a second stock scheduler, as processes on the node: they can be killed at any moment, and start in no time.

use crate::gpu_node::stand_ins;
use crate::{Background, Cluster, Namespace, PATIENCE};
use base64::Engine;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The scheduler's configuration as it is shipped.
const SCHEDULER: &str = include_str!("../../examples/controller/scheduler.yaml");

/// Both, until this is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    cluster: Cluster,
    namespace: String,
    binary: PathBuf,
    folder: PathBuf,
    road: String,
    controller: Option<Background>,
    scheduler: Option<Background>,
    _alone: MutexGuard<'static, ()>,
}

/// The webhook configurations are the whole cluster's: tests of one program take turns.
static ALONE: Mutex<()> = Mutex::new(());

/// Ports of a controller: for the API server, and for the scheduler.
const PORTS: (u16, u16) = (18443, 18444);

impl ControlPlane {
    /// Starts the controller on a road; on the scheduler road also the scheduler. `None` (said aloud) where nothing was built.
    pub fn start(cluster: &Cluster, namespace: &Namespace, road: &str) -> Option<Self> {
        let binary = stand_ins()?.join("carve");
        let folder = std::env::temp_dir().join(format!("carve-control-plane-{}", namespace.name()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut plane = ControlPlane {
            cluster: cluster.clone(),
            namespace: namespace.name().to_owned(),
            binary,
            folder,
            road: road.to_owned(),
            controller: None,
            scheduler: None,
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
        };
        plane.start_controller();
        plane.wait_until_ready();
        if road == "scheduler" {
            plane.start_scheduler();
        }
        Some(plane)
    }

    /// Starts the controller, and does not wait for it.
    pub fn start_controller(&mut self) {
        let (webhook, extender) = PORTS;
        let binary = self.binary.display().to_string();
        let words = [
            &binary,
            "controller",
            &format!("--listen=127.0.0.1:{webhook}"),
            &format!("--extender-listen=127.0.0.1:{extender}"),
            &format!("--webhook-url=https://127.0.0.1:{webhook}"),
            &format!("--namespace={}", self.namespace),
            &format!("--kubeconfig={}", self.cluster.kubeconfig()),
            &format!("--road={}", self.road),
        ];
        self.controller = Some(self.cluster.background(&words, &[]));
    }

    /// Kills the controller with SIGKILL.
    pub fn kill_controller(&mut self) {
        self.controller = None;
    }

    /// Waits until the API server asks the controller: a pod that only it refuses is refused.
    pub fn wait_until_ready(&self) {
        let wrong = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong", "annotations": {"gpu-fraction": "two"}},
            "spec": {"containers": [{"name": "main", "image": "none"}]}}"#;
        let asked = || {
            let words = ["create", "--dry-run=server", "-n", "default", "-f", "-"];
            self.cluster.try_kubectl(&words, Some(wrong)).is_err_and(|error| error.contains("gpu-fraction"))
        };
        self.cluster.until_or("the controller is asked about pods", PATIENCE, asked, || self.said());
    }

    /// Starts the scheduler with what the controller wrote for it.
    pub fn start_scheduler(&mut self) {
        let secret = || self.cluster.get(&["secret", "carve-scheduler-tls", "-n", &self.namespace]);
        self.cluster.until_or(
            "the scheduler's certificate is there",
            PATIENCE,
            || secret()["data"]["tls.crt"].is_string(),
            || self.said(),
        );
        let data = &secret()["data"];
        for file in ["ca.crt", "tls.crt", "tls.key"] {
            let text = data[file].as_str().unwrap_or_default();
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
            self.write(file, &bytes);
        }
        let config = self.write("config.yaml", self.scheduler_config().as_bytes());
        let config = format!("--config={}", config.display());
        self.scheduler = Some(self.cluster.background(&["kube-scheduler", &config, "--secure-port=0"], &[]));
    }

    /// The shipped configuration, with the addresses and files of this place.
    fn scheduler_config(&self) -> String {
        let first = SCHEDULER.split("\n---\n").next().unwrap_or_default();
        let map: Value = serde_saphyr::from_str(first).unwrap_or_else(|error| panic!("{error}"));
        let text = map["data"]["config.yaml"].as_str().unwrap_or_default();
        let here = text
            .replace("https://carve-extender.carve.svc", &format!("https://127.0.0.1:{}", PORTS.1))
            .replace("/certificates", &self.folder.display().to_string())
            .replace("leaderElect: true", "leaderElect: false");
        format!("{here}clientConnection: {{kubeconfig: {}}}\n", self.cluster.kubeconfig())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// What `carve explain pod` says.
    pub fn explain(&self, namespace: &Namespace, pod: &str) -> String {
        let (binary, kubeconfig) = (self.binary.display().to_string(), self.cluster.kubeconfig());
        let name = format!("{}/{pod}", namespace.name());
        let own = ["--controller-namespace", &self.namespace, "--kubeconfig", &kubeconfig];
        self.cluster.on_node(&[&[binary.as_str(), "explain", "pod", &name], &own[..]].concat())
    }

    /// What both have said.
    pub fn said(&self) -> String {
        let of = |one: &Option<Background>| one.as_ref().map(Background::heard).unwrap_or_default();
        let scheduler = of(&self.scheduler);
        let last: Vec<&str> = scheduler.lines().rev().take(40).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        format!("── controller\n{}\n── scheduler\n{}", of(&self.controller), last.join("\n"))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Without its controller nothing that asks for parts could be created any more.
        for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
            let _ = self.cluster.try_kubectl(&["delete", kind, "carve", "--ignore-not-found"], None);
        }
        (self.scheduler, self.controller) = (None, None);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
