//! The cluster the suites run on.

use crate::asking::{Asking, path_of};
use crate::{Background, GpuNode, Namespace};
use carve_lab::{Image, Lab, Places, Status};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Name of the image that holds a shell and a few programs to look around with.
const PROBE: &str = "localhost/probe:1";
/// Name of the image that holds carve.
const CARVE: &str = "localhost/carve:test";
/// Name of the image that holds both.
const LOOKER: &str = "localhost/looker:test";

/// How long a suite waits for something that should come soon: machines are slow at times, and what holds is not waited for.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A running lab.
#[derive(Debug, Clone)]
pub struct Cluster {
    lab: Lab,
    /// One for all who have this cluster, from the first question on.
    asking: Arc<OnceLock<Asking>>,
}

impl Cluster {
    /// The lab, if one is up; otherwise says that the test is skipped, or fails where nothing may be.
    pub fn connect() -> Option<Self> {
        let lab = Lab::new(Places::usual());
        if matches!(lab.status(), Status::Ready(_)) {
            return Some(Cluster { lab, asking: Arc::default() });
        }
        if std::env::var("CI").as_deref() == Ok("true") {
            panic!("no lab is up, and CI must not skip");
        }
        eprintln!("SKIPPED: no lab is up ('cargo xtask lab up' starts one, as root)");
        None
    }

    /// Image with a shell, `env`, `ls`, `cat` and `sleep`.
    pub fn probe_image(&self) -> &'static str {
        PROBE
    }

    /// Image with carve at `/carve`.
    pub fn carve_image(&self) -> &'static str {
        CARVE
    }

    /// Image with a shell and carve, for pods that look at their GPU.
    pub fn looker_image(&self) -> &'static str {
        LOOKER
    }

    /// A place on the host for a test's own files, which the nodes see too; tests in another lab have another.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.lab.scratch().join(name)
    }

    /// The cgroup below which the first node's pods live.
    pub fn cgroup(&self) -> String {
        self.lab.cgroup_of("node0").unwrap_or_else(|| panic!("no lab is running"))
    }

    /// Configuration of the first node's containerd, on the host.
    pub fn containerd_config(&self) -> PathBuf {
        self.lab.containerd_config()
    }

    /// Runs a program on the first node and returns what it printed; a failure of the program is none of the test.
    pub fn on_node(&self, words: &[&str]) -> String {
        self.on("node0", words)
    }

    /// The same on another node.
    pub fn on(&self, node: &str, words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut command = self.lab.command_on(node, &words).unwrap_or_else(|error| panic!("{error:#}"));
        let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{error}"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Uids of pods that have something where limits of parts are, on a node.
    pub fn folders_of_pods(&self, node: &str) -> Vec<String> {
        let folders = [
            "find",
            "/run/carve/limits",
            "-mindepth",
            "1",
            "-maxdepth",
            "1",
            "-type",
            "d",
            "-printf",
            "%f\n",
        ];
        self.on(node, &folders).lines().map(str::to_owned).collect()
    }

    /// A namespace for one test; it goes when it is dropped.
    pub fn namespace(&self, test: &str) -> Namespace {
        Namespace::new(self.clone(), test)
    }

    /// Waits for the end of a namespace that an earlier suite has deleted: whatever is made in it meanwhile would go with it.
    pub fn not_leaving(&self, namespace: &str) {
        let stays = || self.get(&["namespace", namespace])["metadata"]["deletionTimestamp"].is_null();
        self.until(&format!("the namespace {namespace} of an earlier suite has gone"), PATIENCE, stays);
    }

    /// What kubectl prints, or what it complains about.
    pub fn try_kubectl(&self, words: &[&str], input: Option<&str>) -> Result<String, String> {
        self.try_program(&[&["kubectl"], words].concat(), input)
    }

    /// What a program on the first node prints, with kubectl's settings at hand, or what it complains about.
    pub fn try_program(&self, words: &[&str], input: Option<&str>) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut command = self.lab.command(&words).map_err(|error| error.to_string())?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends early tells why by itself.
            let _ = stdin.write_all(input.unwrap_or_default().as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// kubectl, for somebody who reads on while it runs.
    pub fn kubectl_command(&self, words: &[&str]) -> Command {
        let words: Vec<String> = ["kubectl"].iter().chain(words).map(|word| (*word).to_owned()).collect();
        self.lab.command(&words).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// What kubectl prints; its complaint is the test's failure.
    pub fn kubectl(&self, words: &[&str]) -> String {
        self.try_kubectl(words, None).unwrap_or_else(|error| panic!("kubectl {}: {error}", words.join(" ")))
    }

    /// An object as the API server has it, or null.
    pub fn get(&self, words: &[&str]) -> Value {
        if let Some(path) = path_of(words) {
            return self.asking.get_or_init(|| Asking::begin(self.inside())).ask(path);
        }
        let words = [&["get", "-o", "json"], words].concat();
        self.try_kubectl(&words, None)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or(Value::Null)
    }

    /// How much of a resource the node offers to pods.
    pub fn allocatable(&self, resource: &str) -> Option<u64> {
        let node = self.get(&["node", "node0"]);
        node["status"]["allocatable"][resource].as_str().and_then(|text| text.parse().ok())
    }

    /// Waits until something holds, or fails with everything that may tell why not.
    pub fn until(&self, what: &str, most: Duration, holds: impl Fn() -> bool) {
        self.until_or(what, most, holds, String::new);
    }

    /// Whether a node's GPUs are what a MIG config says. Right after the label is set, the state is still that of the config before.
    pub fn is_cut_as(&self, node: &str, config: &str) -> bool {
        let metadata = self.get(&["node", node])["metadata"].clone();
        metadata["labels"]["nvidia.com/mig.config.state"] == "success"
            && metadata["annotations"]["carve.dev/mig.config.state-of"] == config
    }

    /// Like [`Cluster::until`], with more to tell about a failure.
    pub fn until_or(&self, what: &str, most: Duration, holds: impl Fn() -> bool, more: impl Fn() -> String) {
        let give_up = Instant::now() + most;
        while !holds() {
            if Instant::now() > give_up {
                let events = self.try_kubectl(&["get", "events", "-A", "--sort-by=.lastTimestamp"], None);
                panic!(
                    "waited {} s in vain: {what}\n{}\n{}\n{}",
                    most.as_secs(),
                    more(),
                    events.unwrap_or_else(|error| error),
                    self.lab.last_lines()
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Messages of the events about nodes with a reason.
    pub fn told(&self, reason: &str) -> Vec<String> {
        let events = self.get(&["events", "-n", "default", &format!("--field-selector=reason={reason}")]);
        let items = events["items"].as_array().cloned().unwrap_or_default();
        items.iter().filter_map(|event| Some(event["message"].as_str()?.to_owned())).collect()
    }

    /// Brings an image onto the node.
    pub fn import(&self, image: &Image) {
        self.lab.import(image).unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Adds nodes without kubelets, for the scheduler to place pods on.
    pub fn start_fleet(&self, nodes: usize) {
        self.lab.start_fleet(nodes).unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Names of the nodes, the one with the control plane first.
    pub fn nodes(&self) -> Vec<String> {
        self.lab.nodes()
    }

    /// Sets a label on a node.
    pub fn label(&self, node: &str, name: &str, value: &str) {
        self.kubectl(&["label", "node", node, "--overwrite", &format!("{name}={value}")]);
    }

    /// Path of the administrator's kubeconfig, for programs that run on the node.
    pub fn kubeconfig(&self) -> String {
        self.lab.kubeconfig().display().to_string()
    }

    /// The network in which the API server and programs on the first node are reached.
    pub(crate) fn network(&self) -> PathBuf {
        let init = self.lab.init().unwrap_or_else(|| panic!("no lab is running"));
        PathBuf::from(format!("/proc/{init}/ns/net"))
    }

    /// Text as a manifest carries bytes.
    pub fn base64(&self, text: &str) -> String {
        carve_lab::base64(text.as_bytes())
    }

    /// Values of carve's chart for a node with simulated GPUs.
    pub(crate) fn chart_values(&self, node: &GpuNode) -> Value {
        self.lab.chart_values(node.name(), &node.gpus()).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Kills a component with SIGKILL and starts it again.
    pub fn restart(&self, component: &str) {
        self.lab.restart(component).unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Kills a component with SIGKILL and leaves it dead until `restart`.
    pub fn stop(&self, component: &str) {
        self.lab.stop(component).unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Configuration of a node's containerd, on the host.
    pub(crate) fn containerd_config_of(&self, node: &str) -> PathBuf {
        self.lab.containerd_config_of(node).unwrap_or_else(|| panic!("the lab has no node {node}"))
    }

    /// Runs a program on the first node, in the lab's namespaces, until it is dropped.
    pub fn background(&self, words: &[&str], environment: &[(&str, &str)]) -> Background {
        self.background_on("node0", words, environment)
    }

    /// The same on another node.
    pub fn background_on(&self, node: &str, words: &[&str], environment: &[(&str, &str)]) -> Background {
        let settings = environment.iter().map(|(name, value)| format!("{name}={value}"));
        // nsenter forks to enter the pid namespace; without this, killing it would leave the program behind.
        let words: Vec<String> = ["setpriv", "--pdeathsig", "KILL", "env"]
            .map(str::to_owned)
            .into_iter()
            .chain(settings)
            .chain(words.iter().map(|word| (*word).to_owned()))
            .collect();
        let command: Command = self.lab.command_on(node, &words).unwrap_or_else(|error| panic!("{error:#}"));
        Background::start(command, &words.join(" "))
    }
}
