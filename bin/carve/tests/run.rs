//! `carve run` on a simulated GPU: a CUDA program sees its share, another finds less left, and nothing stays behind.

#[path = "../../../crates/nvml-sim/tests/support/built.rs"]
mod built;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
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

/// A machine with one simulated H200, and the folder of commands.
struct Machine {
    folder: TempDir,
    limiter: PathBuf,
}

impl Machine {
    fn new() -> Option<Self> {
        let limiter = limiter()?;
        let folder = tempfile::tempdir().expect("a folder");
        let cuda = built::package("carve-cuda-sim").join("libcarve_cuda_sim.so");
        for (library, name) in [(built::library(), "libnvidia-ml.so.1"), (cuda, "libcuda.so.1")] {
            std::fs::copy(library, folder.path().join(name)).expect("a library");
        }
        Some(Machine { folder, limiter })
    }

    fn run(&self, words: &[&str]) -> Command {
        self.run_by("limiter", words)
    }

    fn run_by(&self, mechanism: &str, words: &[&str]) -> Command {
        let mut command = Command::new(CARVE);
        command.arg("run").args(["--mechanism", mechanism]).args(words);
        command.env("LD_LIBRARY_PATH", self.folder.path()).env("CARVE_SIM_MACHINE", "h200");
        command.env("CARVE_SIM_STATE", self.folder.path().join("machine.json"));
        command.env("CARVE_LIMITER", &self.limiter).env("CARVE_RUN_DIR", self.folder.path().join("run"));
        command
    }

    /// What a context takes there, as it was written down.
    fn context(&self) -> Option<u64> {
        let files = std::fs::read_dir(self.folder.path().join("run")).ok()?.filter_map(Result::ok);
        let file = files
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|kind| kind == "context"))?;
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    }

    fn folders(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path().join("run"));
        entries.map_or(0, |all| all.filter_map(Result::ok).filter(|entry| entry.path().is_dir()).count())
    }
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_program_sees_its_share_and_carve_ends_as_it_does() {
    let Some(machine) = Machine::new() else { return };
    let output =
        machine.run(&["--memory", "1Gi", "--", CARVE, "cuda-probe", "look"]).output().expect("an answer");
    let (data, talk) = text(&output);
    assert!(output.status.success(), "{talk}");
    let seen: serde_json::Value = serde_json::from_str(&data).expect("one line of JSON");
    assert_eq!(seen["answer"]["look"]["total"], 1 << 30, "{data}");
    // What the driver takes for the process comes out of the share.
    let context = machine.context().expect("what a context takes");
    assert!(context > 500 << 20, "{context}");
    assert_eq!(seen["answer"]["look"]["free"], (1 << 30) - context, "{data}");
    assert!(talk.contains("1.0 GiB of memory") && talk.contains("peak memory"), "{talk}");
    // The probe adds vectors of four MiB, of which three do not fit beside the context, and do where there is more room.
    let add = |room: u64| {
        let memory = format!("{}Mi", (context >> 20) + room);
        let words = ["--quiet", "--memory", &memory, "--", CARVE, "cuda-probe", "vector-add"];
        text(&machine.run(&words).output().expect("an answer"))
    };
    let (data, talk) = add(8);
    assert!(!data.contains("milliseconds"), "{data}{talk}");
    let (data, talk) = add(16);
    assert!(data.contains("milliseconds"), "{data}{talk}");
    let ended = machine.run(&["-q", "--", "sh", "-c", "exit 7"]).output().expect("an answer");
    assert_eq!((ended.status.code(), text(&ended).1.as_str()), (Some(7), ""));
    assert_eq!(machine.folders(), 0);
}

#[test]
fn a_share_that_a_context_fills_is_refused() {
    let Some(machine) = Machine::new() else { return };
    for _ in 0..2 {
        // The second time nothing is measured, and the answer is the same.
        let refused = machine.run(&["--memory", "300Mi", "--", "true"]).output().expect("an answer");
        let (_, talk) = text(&refused);
        assert_eq!(refused.status.code(), Some(1), "{talk}");
        assert!(talk.contains("a share of 300 MiB") && talk.contains("for each process"), "{talk}");
        assert!(talk.contains("ask for more memory"), "{talk}");
    }
    // Where it can not be measured, it is said, and the share is what it is.
    let mut blind = machine.run(&["--memory", "300Mi", "--", "true"]);
    std::fs::remove_file(machine.folder.path().join("libcuda.so.1")).expect("a library");
    std::fs::remove_dir_all(machine.folder.path().join("run")).expect("the folder of commands");
    let (_, talk) = text(&blind.output().expect("an answer"));
    assert!(talk.contains("so it is beside the share") && talk.contains("300 MiB of memory"), "{talk}");
}

#[test]
fn what_one_has_another_does_not_get() {
    let Some(machine) = Machine::new() else { return };
    let mut first = machine
        .run(&["-q", "--memory", "100Gi", "--compute", "60", "--", "sleep", "1000"])
        .stdin(Stdio::null())
        .spawn()
        .expect("a command");
    let begun = Instant::now();
    while machine.folders() == 0 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let refused = machine.run(&["--memory", "60Gi", "--", "true"]).output().expect("an answer");
    let (_, talk) = text(&refused);
    assert_eq!(refused.status.code(), Some(1), "{talk}");
    assert!(talk.contains("GiB are left, and another command has the rest"), "{talk}");
    let words = ["--memory", "60Gi", "--overcommit", "--", "true"];
    assert!(machine.run(&words).output().expect("an answer").status.success());
    // A signal reaches the command, and carve ends as it does.
    let pid = rustix::process::Pid::from_child(&first);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    assert_eq!(first.wait().expect("its end").code(), Some(128 + 15));
    assert_eq!(machine.folders(), 0);
    assert!(machine.run(&["-q", "--memory", "60Gi", "--", "true"]).status().expect("an answer").success());
}

/// A folder with a control program of MPS whose daemon always answers.
fn answering_daemon() -> TempDir {
    let place = tempfile::tempdir().expect("a folder");
    let control = place.path().join("nvidia-cuda-mps-control");
    std::fs::write(&control, "#!/bin/sh\nread word; test \"$word\" = get_server_list\n").expect("a program");
    std::fs::set_permissions(&control, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    place
}

#[test]
fn where_mps_holds_the_time_the_limiter_counts_and_holds_the_memory() {
    let Some(machine) = Machine::new() else { return };
    let daemon = answering_daemon();
    let output = machine
        .run_by("mps", &["--memory", "1Gi", "--compute", "12.5", "--"])
        .args(["sh", "-c", "env | grep ^CUDA_MPS_[AP].*[TE]=; exec \"$0\" cuda-probe look", CARVE])
        .env("PATH", format!("{}:/usr/bin:/bin", daemon.path().display()))
        .env("CUDA_MPS_PIPE_DIRECTORY", daemon.path())
        .output()
        .expect("an answer");
    let (data, talk) = text(&output);
    assert!(output.status.success(), "{talk}");
    assert!(data.starts_with("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12.5\n{"), "{data}");
    assert!(data.contains(&format!("\"total\":{}", 1 << 30)), "{data}");
    assert!(
        talk.contains("12.5 % of the multiprocessors") && talk.contains("held by MPS and the limiter"),
        "{talk}"
    );
    assert!(talk.contains("memory never refused"), "{talk}");
}

#[test]
fn a_client_of_mps_is_told_its_share() {
    let place = answering_daemon();
    let path = format!("{}:/usr/bin:/bin", place.path().display());
    let answered = |words: &[&str]| {
        let mut command = Command::new(CARVE);
        command.args(["--machine", "h200", "run", "--memory", "8Gi", "--compute", "12.5"]).args(words);
        command.args(["--", "sh", "-c", "env | grep ^CUDA_MPS_[AP].*[TE]="]);
        command.env("PATH", &path).env("CUDA_MPS_PIPE_DIRECTORY", place.path());
        text(&command.env("CARVE_STATE_DIR", place.path()).output().expect("an answer"))
    };
    for words in [["--mechanism", "mps"], ["--mechanism", "auto"]] {
        let (data, talk) = answered(&words);
        assert!(data.contains("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8192M\n"), "{data}{talk}");
        assert!(data.contains("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=12.5\n"), "{data}{talk}");
        assert!(talk.contains("held by MPS"), "{talk}");
    }
}
