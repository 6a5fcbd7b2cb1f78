//! A node of the tests: a folder with everything a node has, and the agent's process when it runs.

use carve_gpu_host::Machine;
use carve_kubelet_api::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse,
};
use carve_sim_store::SharedMachine;
use carve_test_support::{FakeKubelet, PATIENCE};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Version of the simulated driver, which the names of its libraries carry.
const DRIVER: &str = "580.159.04";

/// The node.
pub(crate) struct Node {
    folder: tempfile::TempDir,
    /// Where the agent serves health and metrics.
    address: String,
    agent: Option<Child>,
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Node {
    /// A node with two simulated GPUs and neither kubelet nor agent.
    pub(crate) fn new() -> Self {
        Node::with("h200-141gb:2")
    }

    /// A node with these simulated GPUs.
    pub(crate) fn with(machine: &str) -> Self {
        static NODES: AtomicU8 = AtomicU8::new(1);
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let [.., high, low] = std::process::id().to_be_bytes();
        let folder = tempfile::tempdir().expect("a folder");
        // An address of its own, so that tests which run side by side can not meet each other's agents.
        let node = Node { folder, address: format!("127.{number}.{high}.{low}:29411"), agent: None };
        node.switch_on(machine);
        node
    }

    /// Puts these GPUs into the node, as they are after the machine was switched on.
    pub(crate) fn switch_on(&self, machine: &str) {
        let (path, machine) = (self.path("machine.json"), Machine::named(machine).expect("a machine"));
        // Not there the first time.
        let _ = fs::remove_file(&path);
        SharedMachine::open(&path, machine).expect("a machine");
    }

    /// Where the agent serves health and metrics.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path as the running agent sees it, also below mounts that only it has.
    pub(crate) fn inside(&self, name: &str) -> PathBuf {
        let id = self.agent.as_ref().expect("an agent").id();
        let path = self.path(name);
        Path::new(&format!("/proc/{id}/root")).join(path.strip_prefix("/").unwrap_or(&path))
    }

    /// The simulated machine, to have accidents happen to it.
    pub(crate) fn machine(&self) -> SharedMachine {
        SharedMachine::attach(&self.path("machine.json")).expect("the machine")
    }

    pub(crate) async fn kubelet(&self) -> FakeKubelet {
        FakeKubelet::start(self.folder.path()).await
    }

    /// Puts the simulated driver library where `--nvml` will look for it, whole at once.
    pub(crate) fn install_driver(&self) {
        let link = self.path("link");
        std::os::unix::fs::symlink(crate::built::library(), &link).expect("a link");
        fs::rename(link, self.path("libnvidia-ml.so")).expect("a link");
    }

    /// Puts a driver root there whose files a CDI description can be made from. It has no libcuda.
    pub(crate) fn install_driver_root(&self) {
        let libraries = self.path("driver-root/usr/lib/x86_64-linux-gnu");
        fs::create_dir_all(&libraries).expect("a folder");
        fs::copy(crate::built::library(), libraries.join(format!("libnvidia-ml.so.{DRIVER}")))
            .expect("a library");
    }

    /// Puts a program where the driver's are.
    pub(crate) fn install_program(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path("driver-root/usr/bin").join(name);
        fs::create_dir_all(self.path("driver-root/usr/bin")).expect("a folder");
        fs::write(&path, text).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
    }

    /// Replaces the configuration as ConfigMap volumes and careful people do: whole at once.
    pub(crate) fn configure(&self, text: &str) {
        fs::write(self.path("config.new"), text).expect("a configuration");
        fs::rename(self.path("config.new"), self.path("config.yaml")).expect("a configuration");
    }

    /// `carve agent` with every place inside this node's folder, and nothing of the caller's environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carve"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("CARVE_SIM_STATE", self.path("machine.json"));
        command.arg("agent");
        let places = [
            ("--nvml", "libnvidia-ml.so"),
            ("--state-dir", "state"),
            ("--kubelet-socket", "device-plugins/kubelet.sock"),
            ("--pod-resources-socket", "pod-resources/kubelet.sock"),
            ("--driver-root-ctr-path", "driver-root"),
            ("--cdi-root", "cdi"),
            ("--nvidia-cdi-hook-path", "bin/carve"),
            ("--containerd-config", "containerd.toml"),
            ("--output-file", "features.d/gfd"),
            ("--validations", "validations"),
        ];
        for (flag, place) in places {
            command.arg(flag).arg(self.path(place));
        }
        command.args(["--listen", &self.address]).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Cuts the node's GPUs as another program would, beside the agent.
    pub(crate) fn cut(&self, config: &str) {
        fs::write(self.path("mig.yaml"), format!("version: v1\nmig-configs:\n  this:\n{config}"))
            .expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_carve"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("CARVE_SIM_STATE", self.path("machine.json"));
        command.arg("--nvml").arg(self.path("libnvidia-ml.so")).arg("--state-dir").arg(self.path("cut"));
        let output = command.args(["mig", "apply", "-c", "this", "-f"]).arg(self.path("mig.yaml")).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{output:?}");
    }

    /// Starts the agent with these arguments besides.
    pub(crate) fn start(&mut self, arguments: &[&str]) {
        let mut command = self.command();
        command.args(arguments);
        self.start_as(&mut command);
    }

    /// Starts the agent on the configuration file.
    pub(crate) fn start_on_file(&mut self) {
        let mut command = self.command();
        command.arg("--config-file").arg(self.path("config.yaml"));
        self.start_as(&mut command);
    }

    /// Starts the agent by this command; what it says is kept for [`Node::said`].
    pub(crate) fn start_as(&mut self, command: &mut Command) {
        let log = File::options().create(true).append(true).open(self.path("agent.log")).expect("a log");
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        self.agent = Some(command.spawn().expect("the agent starts"));
    }

    /// Everything the node's agents have said so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.path("agent.log")).unwrap_or_default()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.agent.as_ref().expect("an agent").id();
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("the agent lives");
    }

    /// Memory that the agent has, in KiB: all of it, and what is not of files such as the program itself.
    pub(crate) fn resident_kib(&self) -> (u64, u64) {
        let id = self.agent.as_ref().expect("an agent").id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).expect("the agent lives");
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("its memory");
            line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
        };
        (of("VmRSS:"), of("RssAnon:"))
    }

    /// Whether the agent still runs.
    pub(crate) fn lives(&mut self) -> bool {
        self.agent.as_mut().expect("an agent").try_wait().expect("a status").is_none()
    }

    /// Waits until the agent has ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        // Putting things away has limits of its own that add up to less than this.
        let give_up = Instant::now() + Duration::from_secs(12);
        loop {
            let status = self.agent.as_mut().expect("an agent").try_wait().expect("a status");
            if let Some(status) = status {
                self.agent = None;
                return status;
            }
            assert!(Instant::now() < give_up, "the agent does not end:\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the agent as nothing can be refused: SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            agent.kill().expect("it is ours to kill");
            agent.wait().expect("it is dead");
        }
    }

    /// Asks the agent over HTTP; `None` where nobody answers.
    pub(crate) async fn ask(&self, path: &str) -> Option<Answer> {
        let mut stream = tokio::net::TcpStream::connect(&self.address).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let code = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { code, head: head.to_lowercase(), body: body.to_owned() })
    }

    /// Asks until the answer is as wanted.
    pub(crate) async fn answer_when(
        &self,
        path: &str,
        what: &str,
        holds: impl Fn(&Answer) -> bool,
    ) -> Answer {
        let mut last = None;
        let give_up = Instant::now() + PATIENCE;
        while Instant::now() < give_up {
            last = self.ask(path).await;
            if let Some(answer) = last.take_if(|answer| holds(answer)) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path}: waited in vain until {what}; the last answer: {last:?}\n{}", self.said());
    }

    /// Waits until the agent says that it is ready.
    pub(crate) async fn ready(&self) {
        self.answer_when("/readyz", "the agent is ready", |answer| answer.code == 200).await;
    }

    /// Names of everything in a folder of the node, below it too.
    pub(crate) fn files(&self, name: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        gather(&self.path(name), "", &mut found);
        found
    }
}

fn gather(folder: &Path, before: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            gather(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if !std::thread::panicking() {
            let said = self.said();
            assert!(!said.contains("panicked"), "a thread of the agent panicked:\n{said}");
        }
    }
}

/// The devices of a resource once that many of them are healthy, in order.
pub(crate) async fn devices(kubelet: &FakeKubelet, resource: &str, wanted: usize) -> Vec<String> {
    let what = format!("{wanted} healthy devices are offered");
    let healthy =
        |devices: &[(String, String)]| devices.iter().filter(|(_, health)| health == "Healthy").count();
    let seen = kubelet.devices_when(resource, &what, |devices| healthy(devices) == wanted).await;
    let mut ids: Vec<String> = seen.into_iter().map(|(id, _)| id).collect();
    ids.sort();
    ids
}

/// A request of one container for these devices.
pub(crate) fn request(devices: &[String]) -> AllocateRequest {
    AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids: devices.to_vec() }] }
}

/// What a container that gets these devices is given.
pub(crate) async fn allocated(
    kubelet: &FakeKubelet,
    resource: &str,
    devices: &[String],
) -> ContainerAllocateResponse {
    let mut plugin = kubelet.plugin(resource).await;
    let mut answer = plugin.allocate(request(devices)).await.expect("an answer").into_inner();
    assert_eq!(answer.container_responses.len(), 1);
    answer.container_responses.remove(0)
}
