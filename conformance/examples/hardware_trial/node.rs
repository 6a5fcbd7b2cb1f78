//! The node of the trial: a folder with everything the agent touches, a kubelet of the tests, and the agent when it runs.

use carve_formats::cdi::Spec;
use carve_kubelet_api::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse, DevicePluginClient, Empty,
};
use carve_kubelet_api::dial::dial;
use carve_test_support::FakeKubelet;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tonic::transport::Channel;

/// The resource that everything is offered as.
pub(crate) const GPU: &str = "nvidia.com/gpu";
/// How often something is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The node.
pub(crate) struct Node {
    folder: tempfile::TempDir,
    carve: PathBuf,
    driver_root: Option<PathBuf>,
    /// How long a driver, a daemon or the agent may take before the trial calls it stuck.
    patience: Duration,
    kubelet: FakeKubelet,
    agent: Option<Child>,
    starts: usize,
}

/// What was typed.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    /// The program that is tried.
    pub(crate) carve: PathBuf,
    /// Where a driver is that is not at home.
    pub(crate) driver_root: Option<PathBuf>,
    /// How long anything may take.
    pub(crate) patience: Duration,
}

/// The shares or GPUs that were listed, and how many of them may be given away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) ids: Vec<String>,
    pub(crate) healthy: usize,
}

impl Node {
    pub(crate) async fn new(typed: Typed) -> std::io::Result<Self> {
        let Typed { carve, driver_root, patience } = typed;
        // Unix sockets have short names, so the folder is not below a long one.
        let folder = tempfile::Builder::new().prefix("carve-trial-").tempdir()?;
        let kubelet = FakeKubelet::start(folder.path()).await;
        Ok(Node { folder, carve, driver_root, patience, kubelet, agent: None, starts: 0 })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn carve(&self) -> &Path {
        &self.carve
    }

    /// Replaces the configuration, whole at once.
    pub(crate) fn configure(&self, text: &str) -> std::io::Result<()> {
        fs::write(self.path("config.new"), text)?;
        fs::rename(self.path("config.new"), self.path("config.yaml"))
    }

    /// Starts the agent with every place in the node's folder, and nothing of the caller's environment but where programs
    /// and libraries are and what stands in for a driver.
    pub(crate) fn start(&mut self) -> std::io::Result<()> {
        self.starts += 1;
        let log = File::create(self.log())?;
        let mut command = Command::new(&self.carve);
        let kept = |name: &str| {
            ["PATH", "LD_LIBRARY_PATH", "HOME", "CARVE_NVML"].contains(&name)
                || name.starts_with("CARVE_SIM_")
        };
        command.env_clear().envs(std::env::vars().filter(|(name, _)| kept(name)));
        command.args(["agent", "--without", "labels,mig,validation", "--listen", ""]);
        command.args(["--device-list-strategy", "cdi-cri", "--probe-seconds", "2"]);
        let places = [
            ("--config-file", "config.yaml"),
            ("--state-dir", "state"),
            ("--kubelet-socket", "device-plugins/kubelet.sock"),
            ("--pod-resources-socket", "pod-resources/kubelet.sock"),
            ("--mps-root", "mps"),
            ("--cdi-root", "cdi"),
            ("--nvidia-cdi-hook-path", "bin/carve"),
            ("--containerd-config", "containerd.toml"),
            ("--validations", "validations"),
        ];
        for (flag, place) in places {
            command.arg(flag).arg(self.path(place));
        }
        // Where the driver is at home there is no root of it mounted anywhere.
        let here = self.driver_root.clone().unwrap_or_else(|| self.path("driver-root"));
        command.arg("--driver-root-ctr-path").arg(here);
        if let Some(root) = &self.driver_root {
            command.arg("--driver-root").arg(root).arg("--dev-root").arg(root);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.agent = Some(command.spawn()?);
        Ok(())
    }

    fn log(&self) -> PathBuf {
        self.path(&format!("agent-{}.log", self.starts))
    }

    /// What the agent that runs now has said.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// The last words of the agent, for a row that is not right.
    fn last_words(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(6)..].join(" | ")
    }

    /// Kills the agent so that it can put nothing away.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        let Some(mut agent) = self.agent.take() else { return Err("no agent runs".to_owned()) };
        agent.kill().and_then(|()| agent.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// Tells the agent to end and waits for it.
    pub(crate) async fn terminate(&mut self) -> Result<ExitStatus, String> {
        let Some(mut agent) = self.agent.take() else { return Err("no agent runs".to_owned()) };
        let pid = i32::try_from(agent.id()).ok().and_then(Pid::from_raw).ok_or("no process id")?;
        kill_process(pid, Signal::TERM).map_err(|error| error.to_string())?;
        let give_up = Instant::now() + self.patience;
        while Instant::now() < give_up {
            if let Some(status) = agent.try_wait().map_err(|error| error.to_string())? {
                return Ok(status);
            }
            tokio::time::sleep(LOOK).await;
        }
        Err("it was told to end and did not".to_owned())
    }

    async fn plugin(&self) -> Option<DevicePluginClient<Channel>> {
        let endpoint = self.kubelet.registered().get(GPU)?.endpoint.clone();
        let channel = dial(&self.path("device-plugins").join(endpoint)).await.ok()?;
        Some(DevicePluginClient::new(channel))
    }

    async fn listed(&self) -> Option<Listed> {
        let mut lists = self.plugin().await?.list_and_watch(Empty {}).await.ok()?.into_inner();
        let list = tokio::time::timeout(self.patience, lists.message()).await.ok()?.ok()??;
        let healthy = list.devices.iter().filter(|device| device.health == "Healthy").count();
        let mut ids: Vec<String> = list.devices.into_iter().map(|device| device.id).collect();
        ids.sort();
        Some(Listed { ids, healthy })
    }

    /// Every list that kubelet is shown, until one is as wanted. `Err` tells what was seen instead.
    pub(crate) async fn lists_until(&self, holds: impl Fn(&Listed) -> bool) -> Result<Vec<Listed>, String> {
        let mut seen: Vec<Listed> = Vec::new();
        let give_up = Instant::now() + self.patience;
        while Instant::now() < give_up {
            if let Some(list) = self.listed().await {
                let done = holds(&list);
                if seen.last() != Some(&list) {
                    seen.push(list);
                }
                if done {
                    return Ok(seen);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        let last = seen.last().map(|list| format!("{} of {} healthy", list.healthy, list.ids.len()));
        let last = last.unwrap_or_else(|| "nothing was offered".to_owned());
        Err(format!("{last} after {} s; the agent: {}", self.patience.as_secs(), self.last_words()))
    }

    /// What a container that gets this device is given.
    pub(crate) async fn allocate(&self, device: &str) -> Result<ContainerAllocateResponse, String> {
        let mut plugin = self.plugin().await.ok_or("the plugin does not answer")?;
        let one = ContainerAllocateRequest { devices_ids: vec![device.to_owned()] };
        let answer = plugin.allocate(AllocateRequest { container_requests: vec![one] }).await;
        let answer = answer.map_err(|status| status.message().to_owned())?.into_inner();
        answer.container_responses.into_iter().next().ok_or_else(|| "the answer is empty".to_owned())
    }

    /// The CDI file, as a container runtime reads it.
    pub(crate) fn cdi(&self) -> Result<Spec, String> {
        let path = self.path("cdi/k8s.device-plugin.nvidia.com-gpu.json");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Spec::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Names of everything in a folder of the node.
    pub(crate) fn files(&self, name: &str) -> BTreeSet<String> {
        names_in(&self.path(name))
    }
}

/// Names of everything in a folder.
pub(crate) fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

impl Drop for Node {
    fn drop(&mut self) {
        // A trial that broke off leaves no agent behind.
        let _ = self.kill();
    }
}
