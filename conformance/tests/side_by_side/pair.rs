//! A cage with a machine, NVIDIA's program and ours in it, each with a kubelet of its own.

use crate::answers::ask;
use carve_conformance::side_by_side::Told;
use carve_conformance::{Cage, Incumbents, Program, Running, cut};
use carve_gpu_host::Machine;
use carve_gpu_model::GpuIndex;
use carve_sim_store::SharedMachine;
use carve_test_support::{FakeKubelet, PATIENCE};
use std::path::Path;
use std::time::{Duration, Instant};

/// Where NVIDIA's plugin has its kubelet; it knows no other place.
const THEIRS: &str = "/var/lib/kubelet";
/// Where carve has its own, so that both can run at once.
const OURS: &str = "/var/lib/kubelet-of-carve";
const CONFIG: &str = "/tmp/config.yaml";

/// One state of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) machine: &'static str,
    /// MIG devices, in the order in which they are cut: GPU and profile.
    pub(crate) cut: &'static [(u32, &'static str)],
    pub(crate) config: &'static str,
    pub(crate) arguments: &'static [&'static str],
    /// What must be offered before questions are asked.
    pub(crate) resources: &'static [&'static str],
    /// Whether the driver's libraries are installed.
    pub(crate) driver: bool,
}

/// The cage.
pub(crate) struct Pair {
    pub(crate) cage: Cage,
}

impl Pair {
    /// A cage with all programs, or `None` where there are none or it can not be made.
    pub(crate) fn new() -> Option<Self> {
        let cage = Cage::new(&Incumbents::locate()?).unwrap()?;
        cage.admit_carve().unwrap();
        cage.pretend_mps().unwrap();
        Some(Pair { cage })
    }

    /// Puts the machine of a scenario into the cage.
    pub(crate) fn prepare(&self, scenario: &Scenario) -> SharedMachine {
        let mut machine = self.cage.switch_on(Machine::named(scenario.machine).unwrap()).unwrap();
        for (gpu, profile) in scenario.cut {
            cut(&mut machine, GpuIndex(*gpu), profile);
        }
        self.cage.make_device_nodes(&machine).unwrap();
        if scenario.driver {
            self.cage.install_driver(&machine).unwrap();
        } else {
            self.cage.remove_driver().unwrap();
        }
        self.cage.write(CONFIG, &format!("version: v1\n{}", scenario.config)).unwrap();
        for folder in [THEIRS, OURS, "/var/run", "/run/nvidia", "/tmp/carve"] {
            let folder = self.cage.outside(Path::new(folder));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).unwrap();
        }
        machine
    }

    /// What both tell their kubelets.
    pub(crate) async fn serve(&self, scenario: &Scenario) -> (Told, Told) {
        self.prepare(scenario);
        let their_kubelet = FakeKubelet::start(&self.cage.outside(Path::new(THEIRS))).await;
        let our_kubelet = FakeKubelet::start(&self.cage.outside(Path::new(OURS))).await;
        let config = format!("--config-file={CONFIG}");
        let mut arguments = vec![config.as_str()];
        arguments.extend(scenario.arguments);
        let mut theirs = self.cage.start(Program::DevicePlugin, &arguments).unwrap();
        let mut ours = self.start_agent(&arguments);
        let any_order = scenario.arguments.contains(&"--device-id-strategy=index");
        let mut their_answers = ask(&their_kubelet, scenario.resources, any_order).await;
        let mut our_answers = ask(&our_kubelet, scenario.resources, any_order).await;
        assert!(!their_answers.is_empty(), "{}: {}", scenario.name, theirs.heard());
        assert!(!our_answers.is_empty(), "{}: {}", scenario.name, ours.heard());
        crate::cdi_files::tell(&self.cage.outside(Path::new("/var/run/cdi")), &mut their_answers);
        crate::cdi_files::tell(&self.cage.outside(Path::new("/var/run/cdi-of-carve")), &mut our_answers);
        (their_answers, our_answers)
    }

    /// What both say where NVIDIA's plugin ends rather than serve, and what ours offers nonetheless.
    pub(crate) async fn refuse(&self, scenario: &Scenario) -> (String, String, Vec<String>) {
        self.prepare(scenario);
        let their_kubelet = FakeKubelet::start(&self.cage.outside(Path::new(THEIRS))).await;
        let our_kubelet = FakeKubelet::start(&self.cage.outside(Path::new(OURS))).await;
        let config = format!("--config-file={CONFIG}");
        let mut arguments = vec![config.as_str()];
        arguments.extend(scenario.arguments);
        let mut theirs = self.cage.start(Program::DevicePlugin, &arguments).unwrap();
        let mut ours = self.start_agent(&arguments);
        // Both need a moment to say why; what decides is what they say, not how long it takes.
        let give_up = Instant::now() + PATIENCE;
        let ended = loop {
            match theirs.ended() {
                None if Instant::now() < give_up => tokio::time::sleep(Duration::from_millis(20)).await,
                ended => break ended,
            }
        };
        assert_eq!(ended.and_then(|status| status.code()), Some(1), "{}: {}", scenario.name, theirs.heard());
        let said = ours.wait_for("WARN", PATIENCE);
        assert!(said.is_some(), "{}: {}", scenario.name, ours.heard());
        assert!(their_kubelet.registered().is_empty(), "{}", scenario.name);
        // Long enough for one to register that should not.
        tokio::time::sleep(Duration::from_millis(700)).await;
        (theirs.heard(), ours.heard(), our_kubelet.registered().into_keys().collect())
    }

    /// Starts our agent as a device plugin and nothing else.
    pub(crate) fn start_agent(&self, arguments: &[&str]) -> Running {
        let socket = format!("--kubelet-socket={OURS}/device-plugins/kubelet.sock");
        let pods = format!("--pod-resources-socket={OURS}/pod-resources/kubelet.sock");
        let mut all = vec![
            "agent",
            "--without=labels,mig,validation",
            "--listen=",
            "--state-dir=/tmp/carve",
            "--cdi-root=/var/run/cdi-of-carve",
            "--nvidia-cdi-hook-path=/tmp/carve/hook",
            &socket,
            &pods,
        ];
        all.extend(arguments);
        self.cage.start_carve(&all).unwrap()
    }

    /// The label files of both.
    pub(crate) fn label(&self, scenario: &Scenario) -> (Told, Told) {
        self.prepare(scenario);
        let config = format!("--config-file={CONFIG}");
        let mut arguments = vec![config.as_str(), "--no-timestamp"];
        arguments.extend(scenario.arguments);
        let mut all = vec!["--oneshot", "--use-node-feature-api=false", "--output-file=/tmp/labels"];
        all.extend(&arguments);
        let outcome = self.cage.run(Program::FeatureDiscovery, &all).unwrap();
        assert_eq!(outcome.code(), Some(0), "{}: {}", scenario.name, outcome.stderr);
        let mut all = vec![
            "agent",
            "--without=device-plugin,mig,validation",
            "--listen=",
            "--state-dir=/tmp/carve",
            "--output-file=/tmp/carve/labels",
        ];
        all.extend(&arguments);
        let mut agent = self.cage.start_carve(&all).unwrap();
        let give_up = Instant::now() + PATIENCE;
        let ours = loop {
            match self.cage.read("/tmp/carve/labels") {
                Ok(text) => break text,
                Err(_) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => panic!("{}: {error}: {}", scenario.name, agent.heard()),
            }
        };
        (lines(&self.cage.read("/tmp/labels").unwrap()), lines(&ours))
    }
}

/// Every line is a place of its own; how often it stands there is what is told.
fn lines(text: &str) -> Told {
    let mut told = Told::new();
    for line in text.lines() {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let before = told.insert(key.to_owned(), value.to_owned());
        assert!(before.is_none(), "{key} stands there twice");
    }
    told
}
