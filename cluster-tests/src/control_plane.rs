//! The controller and a second stock scheduler, as processes on the node: they can be killed at any moment, and start in no time.

use crate::doors::Doors;
use crate::gpu_node::stand_ins;
use crate::inside::page;
use crate::{Background, Chance, Cluster, Namespace, PATIENCE};
use base64::Engine;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The scheduler's configuration as it is shipped.
const SCHEDULER: &str = include_str!("../../examples/controller/scheduler.yaml");

/// The scheduler that differs from ours by having no extender.
pub const PLAIN_SCHEDULER: &str = "plain-scheduler";

/// A controller.
#[derive(Debug)]
struct Replica {
    /// For the API server, and for the scheduler.
    ports: (u16, u16),
    /// The pod as which it runs, where there are several.
    pod: Option<String>,
    process: Option<Background>,
}

/// All of them, until this is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    cluster: Cluster,
    namespace: String,
    binary: PathBuf,
    folder: PathBuf,
    road: String,
    /// File with the token of the dashboard, where it is on.
    dashboard: Option<PathBuf>,
    replicas: Vec<Replica>,
    /// Where several are reached.
    doors: Option<Doors>,
    scheduler: Option<Background>,
    /// What schedulers from before have said.
    before: String,
    _alone: MutexGuard<'static, ()>,
}

/// The webhook configurations are the whole cluster's: tests of one program take turns.
static ALONE: Mutex<()> = Mutex::new(());

/// Ports of the first controller: for the API server, and for the scheduler.
const PORTS: (u16, u16) = (18443, 18444);

/// Where the dashboard is, and what whoever looks must know.
const DASHBOARD_PORT: u16 = 17411;
const DASHBOARD_TOKEN: &str = "a-token-for-the-suites";

impl ControlPlane {
    /// Starts the controller on a road; on the scheduler road also the scheduler. `None` (said aloud) where nothing was built.
    pub fn start(cluster: &Cluster, namespace: &Namespace, road: &str) -> Option<Self> {
        let mut plane = ControlPlane::prepare(cluster, namespace, road, stand_ins()?.join("carve"));
        plane.replicas.push(Replica { ports: PORTS, pod: None, process: None });
        plane.begin();
        Some(plane)
    }

    /// The same with its dashboard. It is no pod here, so no Service's proxy leads to it: API servers pass on to pods alone.
    pub fn start_with_dashboard(cluster: &Cluster, namespace: &Namespace, road: &str) -> Option<Self> {
        let mut plane = ControlPlane::prepare(cluster, namespace, road, stand_ins()?.join("carve"));
        plane.replicas.push(Replica { ports: PORTS, pod: None, process: None });
        plane.dashboard = Some(plane.write("token", DASHBOARD_TOKEN.as_bytes()));
        plane.begin();
        Some(plane)
    }

    /// What the dashboard answers to whoever knows the token.
    pub fn dashboard(&self, path: &str) -> Result<Value, String> {
        let path = path.to_owned();
        let answer = self.cluster.within(move |_| async move {
            let address =
                format!("http://127.0.0.1:{DASHBOARD_PORT}").parse().map_err(|error| format!("{error}"))?;
            let client = Client::try_from(Config::new(address)).map_err(|error| error.to_string())?;
            let request = http::Request::get(path).header("x-carve-token", DASHBOARD_TOKEN).body(Vec::new());
            let request = request.map_err(|error| error.to_string())?;
            client.request_text(request).await.map_err(|error| error.to_string())
        })?;
        serde_json::from_str(&answer).map_err(|error| format!("{error}: {answer}"))
    }

    /// What people see now.
    pub fn picture(&self) -> Value {
        self.dashboard("/api/v1/picture").map(|mut answer| answer["picture"].take()).unwrap_or_default()
    }

    /// Listens to the dashboard until it has told of so many changes.
    pub fn hears_changes(&self, number: usize) -> String {
        let hear = async move {
            let address = format!("127.0.0.1:{DASHBOARD_PORT}");
            let mut stream =
                tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            let request = format!(
                "GET /api/v1/stream?since=0 HTTP/1.1\r\nHost: localhost\r\nX-Carve-Token: {DASHBOARD_TOKEN}\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
            let (mut heard, mut bytes) = (String::new(), vec![0; 65_536]);
            while heard.matches("event: changes").count() < number {
                match stream.read(&mut bytes).await {
                    Ok(count) if count > 0 => heard.push_str(&String::from_utf8_lossy(&bytes[..count])),
                    ended => return Err(format!("{ended:?} after {heard}")),
                }
            }
            Ok(heard)
        };
        let heard = self.cluster.within(move |_| async move { tokio::time::timeout(PATIENCE, hear).await });
        let heard = heard.unwrap_or_else(|_| panic!("nothing changes on the dashboard\n{}", self.said()));
        heard.unwrap_or_else(|error| panic!("{error}\n{}", self.said()))
    }

    /// What `carve top --once` prints, and what it complains about.
    pub fn top(&self) -> String {
        let script = format!(
            "{} top --once --url http://127.0.0.1:{DASHBOARD_PORT} --token-file {} 2>&1",
            self.binary.display(),
            self.folder.join("token").display()
        );
        self.cluster.on_node(&["sh", "-c", &script])
    }

    /// The same on the scheduler road with the program that `CARVE_RELEASE_BINARY` names, if it is there: how long it takes is to be measured.
    pub fn start_measured(cluster: &Cluster, namespace: &Namespace) -> Option<Self> {
        let named = std::env::var_os("CARVE_RELEASE_BINARY").map(PathBuf::from).filter(|path| path.exists());
        let binary = named.or_else(|| Some(stand_ins()?.join("carve")))?;
        println!("measuring {}", binary.display());
        let mut plane = ControlPlane::prepare(cluster, namespace, "scheduler", binary);
        plane.replicas.push(Replica { ports: PORTS, pod: None, process: None });
        plane.begin();
        Some(plane)
    }

    /// Starts several replicas as pods would run them, behind what Services would be, on the scheduler road.
    pub fn start_replicas(cluster: &Cluster, namespace: &Namespace, number: u16) -> Option<Self> {
        let mut plane = ControlPlane::prepare(cluster, namespace, "scheduler", stand_ins()?.join("carve"));
        for replica in 0..number {
            let pod = format!("controller-{replica}");
            // The object is there for the label that says who leads; nobody schedules it.
            let object = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod},
                "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]},
            });
            namespace.apply(&object.to_string());
            let ports = (PORTS.0 + 10 * replica, PORTS.1 + 10 * replica);
            plane.replicas.push(Replica { ports, pod: Some(pod), process: None });
        }
        let behind: Vec<(String, (u16, u16))> =
            plane.replicas.iter().filter_map(|one| Some((one.pod.clone()?, one.ports))).collect();
        plane.doors = Some(Doors::open(cluster, namespace.name(), behind));
        plane.begin();
        Some(plane)
    }

    fn prepare(cluster: &Cluster, namespace: &Namespace, road: &str, binary: PathBuf) -> Self {
        let folder = cluster.scratch(&format!("carve-control-plane-{}", namespace.name()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        ControlPlane {
            cluster: cluster.clone(),
            namespace: namespace.name().to_owned(),
            binary,
            folder,
            road: road.to_owned(),
            dashboard: None,
            replicas: Vec::new(),
            doors: None,
            scheduler: None,
            before: String::new(),
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// The program.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    fn begin(&mut self) {
        for replica in 0..self.replicas.len() {
            self.start_replica(replica);
        }
        self.wait_until_ready();
        if self.road == "scheduler" {
            self.start_scheduler();
        }
    }

    /// Starts the controller, and does not wait for it.
    pub fn start_controller(&mut self) {
        self.start_replica(0);
    }

    /// Kills the controller with SIGKILL.
    pub fn kill_controller(&mut self) {
        self.kill_replica(0);
    }

    /// Ports at which the API server and the scheduler ask.
    fn ports(&self) -> (u16, u16) {
        if self.doors.is_some() { Doors::PORTS } else { PORTS }
    }

    /// Starts one of several controllers, and does not wait for it.
    pub fn start_replica(&mut self, number: usize) {
        let asked = self.ports().0;
        let Replica { ports: (webhook, extender), pod, .. } = &self.replicas[number];
        let mut words = vec![
            self.binary.display().to_string(),
            "controller".to_owned(),
            format!("--listen=127.0.0.1:{webhook}"),
            format!("--extender-listen=127.0.0.1:{extender}"),
            format!("--webhook-url=https://127.0.0.1:{asked}"),
            format!("--namespace={}", self.namespace),
            format!("--kubeconfig={}", self.cluster.kubeconfig()),
            format!("--road={}", self.road),
        ];
        words.extend(pod.iter().map(|pod| format!("--pod-name={pod}")));
        if let Some(token) = &self.dashboard {
            words.push(format!("--dashboard=0.0.0.0:{DASHBOARD_PORT}"));
            words.push(format!("--dashboard-token-file={}", token.display()));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (library, clock) = (self.clock_library(), self.clock(number));
        // Looking at it costs time, so one that stands alone, and may be measured, has the machine's.
        let both = library.as_ref().zip(clock.to_str()).filter(|_| self.doors.is_some());
        let clock = both.map(|(library, clock)| [("LD_PRELOAD", library.as_str()), ("LATE_CLOCK", clock)]);
        self.replicas[number].process =
            Some(self.cluster.background(&words, clock.as_ref().map_or(&[], |all| all)));
    }

    /// What makes clocks wrong, where it was built.
    fn clock_library(&self) -> Option<String> {
        let library = stand_ins()?.join("examples/liblate_clock.so");
        library.exists().then(|| library.display().to_string())
    }

    /// Says by how much a replica's clock is wrong.
    fn clock(&self, number: usize) -> PathBuf {
        self.folder.join(format!("clock-{number}"))
    }

    /// Sets the clock of one of several controllers ahead by so many seconds, or back.
    pub fn set_clock(&self, number: usize, ahead: i64) {
        let built = self.clock_library().is_some();
        assert!(built, "cargo build --package carve-cluster-tests --example late_clock makes clocks wrong");
        let (new, path) = (self.folder.join("clock.new"), self.clock(number));
        let written = std::fs::write(&new, ahead.to_string()).and_then(|()| std::fs::rename(&new, &path));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Kills one of several controllers with SIGKILL.
    pub fn kill_replica(&mut self, number: usize) {
        self.replicas[number].process = None;
    }

    /// Kills one of two controllers at so many moments and starts it again; `check` is looked at after each.
    pub fn kill_at_random(&mut self, kills: usize, chance: &mut Chance, check: impl Fn()) {
        for _ in 0..kills {
            chance.pass(1_600);
            let replica = usize::from(chance.below(2) == 0);
            self.kill_replica(replica);
            chance.pass(300);
            self.start_replica(replica);
            check();
        }
    }

    /// The process of one of several controllers.
    pub fn replica(&self, number: usize) -> &Background {
        self.replicas[number].process.as_ref().unwrap_or_else(|| panic!("controller {number} does not run"))
    }

    /// Which of several controllers leads, by what its pod says.
    pub fn leader(&self) -> Option<usize> {
        let leads = self.cluster.get(&["pods", "-n", &self.namespace, "-l", "carve.dev/leader=true"]);
        let name = leads["items"][0]["metadata"]["name"].as_str()?;
        self.replicas.iter().position(|one| one.pod.as_deref() == Some(name))
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

    /// Starts the scheduler with what the controller wrote for it, in place of any that runs.
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
        self.run_scheduler(&self.scheduler_config());
    }

    /// Another scheduler like the one that runs, beside it: nobody keeps people from starting two, and one that lost its lease may not know yet.
    pub fn another_scheduler(&self) -> Background {
        let config = format!("--config={}", self.folder.join("config.yaml").display());
        self.cluster.background(&["kube-scheduler", &config, "--secure-port=0"], &[])
    }

    /// Starts the same scheduler without extender, in place of any that runs.
    pub fn start_plain_scheduler(&mut self) {
        let mut config = self.scheduler_config();
        config["profiles"] = json!([{"schedulerName": PLAIN_SCHEDULER}]);
        if let Some(config) = config.as_object_mut() {
            config.remove("extenders");
        }
        self.run_scheduler(&config);
    }

    /// Kills the scheduler with SIGKILL.
    pub fn stop_scheduler(&mut self) {
        if let Some(scheduler) = self.scheduler.take() {
            self.before = scheduler.heard();
        }
    }

    fn run_scheduler(&mut self, config: &Value) {
        self.stop_scheduler();
        let config = self.write("config.yaml", config.to_string().as_bytes());
        let config = format!("--config={}", config.display());
        self.scheduler = Some(self.cluster.background(&["kube-scheduler", &config, "--secure-port=0"], &[]));
    }

    /// The shipped configuration, with the addresses and files of this place. Its client may ask as often as it likes, so that nothing but
    /// the work itself takes time.
    fn scheduler_config(&self) -> Value {
        let first = SCHEDULER.split("\n---\n").next().unwrap_or_default();
        let map: Value = serde_saphyr::from_str(first).unwrap_or_else(|error| panic!("{error}"));
        let text = map["data"]["config.yaml"].as_str().unwrap_or_default();
        let here = text
            .replace("https://carve-extender.carve.svc", &format!("https://127.0.0.1:{}", self.ports().1))
            .replace("/certificates", &self.folder.display().to_string());
        let mut config: Value = serde_saphyr::from_str(&here).unwrap_or_else(|error| panic!("{error}"));
        config["leaderElection"] = json!({"leaderElect": false});
        config["clientConnection"] =
            json!({"kubeconfig": self.cluster.kubeconfig(), "qps": 1000, "burst": 2000});
        config
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// What the first controller tells Prometheus.
    pub fn metrics(&self) -> String {
        let address = format!("127.0.0.1:{}", PORTS.0);
        let answer = self.cluster.within(move |_| async move { page(&address, "/metrics").await });
        answer.unwrap_or_else(|error| panic!("no metrics: {error}\n{}", self.said()))
    }

    /// What `carve explain pod` says.
    pub fn explain(&self, namespace: &Namespace, pod: &str) -> String {
        let (binary, kubeconfig) = (self.binary.display().to_string(), self.cluster.kubeconfig());
        let name = format!("{}/{pod}", namespace.name());
        let own = ["--controller-namespace", &self.namespace, "--kubeconfig", &kubeconfig];
        self.cluster.on_node(&[&[binary.as_str(), "explain", "pod", &name], &own[..]].concat())
    }

    /// What all have said.
    pub fn said(&self) -> String {
        let last = |text: String| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(40)..].join("\n")
        };
        let mut said = String::new();
        for (number, replica) in self.replicas.iter().enumerate() {
            let heard = replica.process.as_ref().map(Background::heard).unwrap_or_default();
            said.push_str(&format!("── controller {number}\n{}\n", last(heard)));
        }
        let scheduler = self.scheduler.as_ref().map_or_else(|| self.before.clone(), Background::heard);
        format!("{said}── scheduler\n{}", last(scheduler))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Without its controller nothing that asks for parts could be created any more.
        for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
            let _ = self.cluster.try_kubectl(&["delete", kind, "carve", "--ignore-not-found"], None);
        }
        self.scheduler = None;
        self.replicas.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
