//! `carve up` on a machine with a driver: commands and pods get their shares of its GPUs there, as real processes, and nothing outlives its turn.
//! The driver is a simulated one behind NVML's real interface; everything else is as it is on a real machine.

#[path = "../../../crates/nvml-sim/tests/support/built.rs"]
mod built;

use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CARVE: &str = env!("CARGO_BIN_EXE_carve");

/// The limiter, or `None` (with a line on stderr) where it was not built; under `CI=true` that is a failure.
fn limiter() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/limiter/release/libcarve_limiter.so");
    if path.exists() {
        return Some(path);
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "the limiter is not built, and CI must not skip");
    eprintln!("SKIPPED: the limiter is not built; cargo xtask limiter does");
    None
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// A machine with one H200 of 141 GB, and a `carve up` on it.
struct Machine {
    folder: TempDir,
    limiter: PathBuf,
    up: Option<(Child, String)>,
}

impl Machine {
    fn new() -> Option<Self> {
        let limiter = limiter()?;
        let folder = tempfile::tempdir().expect("a folder");
        let cuda = built::package("carve-cuda-sim").join("libcarve_cuda_sim.so");
        for (library, name) in [(built::library(), "libnvidia-ml.so.1"), (cuda, "libcuda.so.1")] {
            std::fs::copy(library, folder.path().join(name)).expect("a library");
        }
        Some(Machine { folder, limiter, up: None })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn carve(&self, words: &[&str]) -> Command {
        let mut command = Command::new(CARVE);
        command.args(words).env("XDG_STATE_HOME", self.path("state")).env_remove("KUBECONFIG");
        command.env("LD_LIBRARY_PATH", self.folder.path()).env("CARVE_SIM_MACHINE", "h200");
        command.env("CARVE_SIM_STATE", self.path("machine.json"));
        command.env("CARVE_LIMITER", &self.limiter).env("CARVE_RUN_DIR", self.path("run"));
        command.stdin(Stdio::null());
        command
    }

    fn start(&mut self) {
        let told = self.path("told");
        let log = File::create(&told).expect("a file");
        let mut command = self.carve(&["up", "--listen", "127.0.0.1:0"]);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
        let url = until("it says where its page is", || {
            let text = std::fs::read_to_string(&told).ok()?;
            let line = text.lines().find(|line| line.trim_start().starts_with("page"))?;
            assert!(text.contains("1 real GPU"), "{text}");
            Some(line.split_whitespace().last()?.to_owned())
        });
        self.up = Some((child, url));
    }

    fn signal(&mut self, signal: rustix::process::Signal) {
        let (mut child, _) = self.up.take().expect("it runs");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).expect("a signal");
        child.wait().expect("its end");
    }

    fn picture(&self) -> Value {
        let (_, url) = self.up.as_ref().expect("it runs");
        let mut answer = ureq::get(format!("{url}/api/v1/picture")).call().expect("an answer");
        serde_json::from_str(&answer.body_mut().read_to_string().expect("a text")).expect("JSON")
    }

    /// Pods and what they have of the GPU: memory in MiB, thousandths of its time.
    fn slices(&self) -> Vec<(String, u64, f64)> {
        let picture = self.picture();
        let nodes = picture["picture"]["nodes"].as_object();
        let gpus =
            nodes.into_iter().flatten().flat_map(|(_, node)| node["gpus"].as_array().into_iter().flatten());
        let slices = gpus.flat_map(|gpu| gpu["slices"].as_array().into_iter().flatten());
        slices
            .map(|slice| {
                let pod = slice["pod"].as_str().unwrap_or_default().to_owned();
                (pod, slice["memory"].as_u64().unwrap_or(0), slice["compute"].as_f64().unwrap_or(0.0))
            })
            .collect()
    }

    fn said(&self, words: &[&str]) -> String {
        let output = self.carve(words).output().expect("an answer");
        let (out, err) = text(&output);
        assert!(output.status.success(), "carve {}: {err}", words.join(" "));
        out
    }

    fn apply(&self, manifest: &str) -> String {
        let file = self.path("manifest.yaml");
        std::fs::write(&file, manifest).expect("a file");
        self.said(&["apply", "-f", &file.display().to_string()])
    }

    fn phase(&self, pod: &str) -> Option<String> {
        let output = self.carve(&["get", "pod", pod, "-o", "json"]).output().expect("an answer");
        let pod: Value = serde_json::from_slice(&output.stdout).ok()?;
        pod["status"]["phase"].as_str().map(str::to_owned)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some((mut child, _)) = self.up.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // What a killed carve up leaves behind.
        let _ = Command::new("pkill").args(["-f", &format!("{}", self.folder.path().display())]).status();
    }
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn pod(name: &str, policy: &str, command: &str, limits: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: {policy}\n  terminationGracePeriodSeconds: 2\n  containers:\n  - \
         name: main\n    image: none\n    command: {command}\n    env: [{{name: GREETING, value: hello}}]\n    resources: {{limits: {{{limits}}}}}\n"
    )
}

#[test]
fn a_command_gets_its_slice_there_and_gives_it_back() {
    let Some(mut machine) = Machine::new() else { return };
    machine.start();
    let mut first = machine
        .carve(&[
            "run",
            "-q",
            "--mechanism",
            "limiter",
            "--memory",
            "100Gi",
            "--compute",
            "60",
            "--",
            "sleep",
            "1000",
        ])
        .spawn()
        .expect("a command");
    let (name, memory, compute) = until("it is drawn", || machine.slices().into_iter().next());
    assert!(name.starts_with("default/run-sleep-"), "{name}");
    assert_eq!((memory, compute), (102_400, 0.6));
    until("it runs", || machine.said(&["get", "pods"]).contains("Running").then_some(()));
    // What is promised is not promised again, and who waits gets it afterwards.
    let refused = machine.carve(&["run", "--memory", "60Gi", "--", "true"]).output().expect("an answer");
    let (_, talk) = text(&refused);
    assert_eq!(refused.status.code(), Some(1), "{talk}");
    assert!(talk.contains("0/1 nodes are available") && talk.contains("--wait"), "{talk}");
    let mut waiting = machine
        .carve(&[
            "run",
            "--mechanism",
            "limiter",
            "--wait",
            "--memory",
            "60Gi",
            "--",
            CARVE,
            "cuda-probe",
            "look",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a command");
    until("it waits", || {
        let picture = machine.picture().to_string();
        picture.contains("run-carve-").then_some(())
    });
    assert!(waiting.try_wait().expect("a state").is_none());
    // Deleting its pod ends a command, as a signal does.
    machine.said(&["delete", "pod", name.trim_start_matches("default/")]);
    assert!(!first.wait().expect("its end").success());
    let output = waiting.wait_with_output().expect("its end");
    let (data, talk) = text(&output);
    assert!(output.status.success() && talk.contains("waits for room"), "{data}{talk}");
    let seen: Value = serde_json::from_str(&data).expect("one line of JSON");
    assert_eq!(seen["answer"]["look"]["total"], 60_u64 << 30, "{data}");
    until("nothing is left", || machine.slices().is_empty().then_some(()));
    assert!(machine.said(&["get", "pods", "-o", "name"]).is_empty());
}

#[test]
fn a_command_that_is_killed_leaves_nothing() {
    let Some(mut machine) = Machine::new() else { return };
    machine.start();
    let words = ["run", "-q", "--mechanism", "limiter", "--memory", "10Gi", "--", "sleep", "1000"];
    let mut command = machine.carve(&words).spawn().expect("a command");
    until("it is drawn", || machine.slices().into_iter().next());
    let started = until("its sleep runs", || {
        let path = format!("/proc/{0}/task/{0}/children", command.id());
        let child = std::fs::read_to_string(path).ok()?.split_whitespace().next()?.parse::<i32>().ok()?;
        // What a context takes is measured by another one before.
        let name = std::fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        (name.trim() == "sleep").then_some(child)
    });
    command.kill().expect("a signal");
    command.wait().expect("its end");
    // What it started keeps its share, and the pod with it.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(machine.slices().len(), 1);
    let sleep = rustix::process::Pid::from_raw(started).expect("a process");
    rustix::process::kill_process(sleep, rustix::process::Signal::KILL).expect("a signal");
    until("it is gone", || machine.slices().is_empty().then_some(()));
}

#[test]
fn pods_are_processes_that_are_started_again_and_survive_a_crash_of_carve_up() {
    let Some(mut machine) = Machine::new() else { return };
    machine.start();
    let (begun, log) = (machine.path("begun"), machine.path("state/carve/up/logs"));
    let sleep = format!("[sh, -c, 'echo $GREETING; echo $$ >> {}; sleep 1000']", begun.display());
    machine.apply(&pod("lives", "Always", &sleep, "carve.dev/gpu-memory: 4096, carve.dev/gpu-compute: 25"));
    machine.apply(&pod(
        "ends",
        "Never",
        &format!("[{CARVE}, cuda-probe, look]"),
        "carve.dev/gpu-memory: 2048",
    ));
    machine.apply(&pod("fails", "Never", "[sh, -c, 'exit 3']", "nvidia.com/gpumem: 1024"));
    until("one ended well", || (machine.phase("ends").as_deref() == Some("Succeeded")).then_some(()));
    until("one failed", || (machine.phase("fails").as_deref() == Some("Failed")).then_some(()));
    until("one runs", || (machine.phase("lives").as_deref() == Some("Running")).then_some(()));
    let said = std::fs::read_to_string(log.join("default_ends_main.log")).expect("what it said");
    let seen: Value = serde_json::from_str(said.trim()).expect("one line of JSON");
    assert_eq!(seen["answer"]["look"]["total"], 2_u64 << 30, "{said}");
    until("it has greeted", || {
        let said = std::fs::read_to_string(log.join("default_lives_main.log")).ok()?;
        said.contains("hello").then_some(())
    });
    // A pod without a command is told what it lacks.
    machine.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: image}\nspec: {containers: [{name: main, image: pytorch}]}\n");
    until("it is told", || {
        machine.said(&["get", "pod", "image", "-o", "json"]).contains("has no command").then_some(())
    });
    // One that is killed is started again.
    let processes = || -> Vec<i32> {
        let text = std::fs::read_to_string(&begun).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    };
    let first = until("it has begun", || processes().first().copied());
    let first = rustix::process::Pid::from_raw(first).expect("a process");
    rustix::process::kill_process(first, rustix::process::Signal::KILL).expect("a signal");
    until("it is started again", || (processes().len() == 2).then_some(()));
    // carve up is killed; its pods live on, and are found again.
    machine.signal(rustix::process::Signal::KILL);
    let second = processes()[1];
    assert!(Path::new(&format!("/proc/{second}")).exists());
    machine.start();
    until("it is drawn again", || {
        machine.slices().iter().any(|slice| slice.0 == "default/lives").then_some(())
    });
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(processes().len(), 2, "nothing was started twice");
    // A clean end ends them, and the next start brings them back.
    machine.signal(rustix::process::Signal::INT);
    assert!(!Path::new(&format!("/proc/{second}")).exists());
    machine.start();
    let third = until("it is started again", || processes().get(2).copied());
    machine.said(&["delete", "pod", "lives"]);
    until("it is gone", || (!Path::new(&format!("/proc/{third}")).exists()).then_some(()));
    until("nothing is left", || machine.slices().is_empty().then_some(()));
}

#[test]
fn real_gpus_are_not_cut_and_nobody_else_runs_programs() {
    let Some(mut machine) = Machine::new() else { return };
    let refused =
        machine.carve(&["up", "--listen", "127.0.0.1:0", "--allow-changes"]).output().expect("an answer");
    let (_, talk) = text(&refused);
    assert!(!refused.status.success() && talk.contains("--token-file"), "{talk}");
    machine.start();
    let nodes = machine.said(&["get", "nodes", "-o", "name"]);
    let node = nodes.trim().trim_start_matches("node/");
    machine.said(&["label", "node", node, "nvidia.com/mig.config=all-1g.18gb"]);
    let node = until("it is refused", || {
        let node: Value = serde_json::from_str(&machine.said(&["get", "node", node, "-o", "json"])).ok()?;
        (node["metadata"]["labels"]["nvidia.com/mig.config.state"] == "failed").then_some(node)
    });
    assert!(node["metadata"]["annotations"].to_string().contains("--manage-mig"), "{node}");
    assert_eq!(node["status"]["nodeInfo"]["containerRuntimeVersion"], "process://1");
    assert_eq!(machine.picture()["picture"]["nodes"].as_object().map(serde_json::Map::len), Some(1));
}
