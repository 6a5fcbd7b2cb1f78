//! A machine with a simulated H200 on which studies are run, and a look at what they leave.

use crate::built;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CARVE: &str = env!("CARGO_BIN_EXE_carve");

/// Far longer than anything takes; only a test that fails waits so long.
const AT_MOST: Duration = Duration::from_secs(60);

/// A machine, and the folder that all of its processes know.
pub(crate) struct Machine {
    folder: TempDir,
}

/// How a `carve bench` ended, and what it said.
pub(crate) struct Told {
    pub(crate) ended_well: bool,
    pub(crate) words: String,
}

impl Told {
    fn of(output: &Output) -> Self {
        Told {
            ended_well: output.status.success(),
            words: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The limiter, or `None` (with a line on stderr) where it was not built; under `CI=true` that is a failure.
pub(crate) fn limiter() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/limiter/release/libcarve_limiter.so");
    if path.exists() {
        return Some(path);
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "the limiter is not built, and CI must not skip");
    eprintln!("SKIPPED: the limiter is not built; cargo xtask limiter does");
    None
}

impl Machine {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let cuda = built::package("carve-cuda-sim").join("libcarve_cuda_sim.so");
        for (library, name) in [(built::library(), "libnvidia-ml.so.1"), (cuda, "libcuda.so.1")] {
            fs::copy(library, folder.path().join(name)).expect("a library");
        }
        for inner in ["bin", "temporary"] {
            fs::create_dir(folder.path().join(inner)).expect("a folder");
        }
        for program in ["nvidia-smi", "nvidia-cuda-mps-control"] {
            let built = built::package("carve-nvml-sim").join(program);
            symlink(built, folder.path().join("bin").join(program)).expect("a program");
        }
        Machine { folder }
    }

    /// One with a study in which nothing was measured yet and cells take no longer than they must.
    pub(crate) fn with_short_windows() -> Self {
        let machine = Machine::new();
        // A cell that is skipped makes a study that can go on.
        let told = machine.bench(&["--quick", "--cells", "light/mig/2"]);
        assert!(told.ended_well, "{}", told.words);
        machine.change_study(|study| {
            study["timing"] = json!({"warm_up": 0.05, "window": 0.1, "windows": 2, "passes": 2});
        });
        machine
    }

    pub(crate) fn carve(&self) -> Command {
        let mut command = Command::new(CARVE);
        let at = |name: &str| self.folder.path().join(name);
        command.env("LD_LIBRARY_PATH", self.folder.path()).env("CARVE_SIM_MACHINE", "h200");
        command.env("CARVE_SIM_STATE", at("machine.json")).env("CARVE_SIM_CUDA_CLOCK", at("clock"));
        command.env("CARVE_STATE_DIR", at("state")).env("TMPDIR", at("temporary"));
        command.env("PATH", format!("{}:/usr/bin:/bin", at("bin").display())).env_remove("CARVE_LIMITER");
        command.envs(limiter().map(|library| ("CARVE_LIMITER", library)));
        command
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.carve();
        command.args(["bench", "--python", "no-python", "--dir"]).arg(self.folder.path().join("study"));
        command.args(words);
        command
    }

    /// Runs `carve bench` to its end.
    pub(crate) fn bench(&self, words: &[&str]) -> Told {
        Told::of(&self.command(words).output().expect("an answer"))
    }

    /// Goes on with the study in cells that must be done without a complaint, and answers what came of each.
    pub(crate) fn outcomes(&self, cells: &[&str], words: &[&str]) -> Vec<Value> {
        let list = cells.join(",");
        let told = self.bench(&[&["--resume", "--cells", list.as_str()], words].concat());
        assert!(told.ended_well && !told.words.contains("warning"), "{}", told.words);
        cells.iter().map(|cell| self.outcome(cell).unwrap_or_else(|| panic!("{cell} has none"))).collect()
    }

    /// Starts `carve bench`; it goes on by itself.
    pub(crate) fn start(&self, words: &[&str]) -> Child {
        let mut command = self.command(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    }

    /// Waits for one that was started.
    pub(crate) fn wait(child: Child) -> Told {
        Told::of(&child.wait_with_output().expect("it ends"))
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("study/study.json")
    }

    pub(crate) fn study(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.file()).expect("a study")).expect("JSON")
    }

    pub(crate) fn has_study(&self) -> bool {
        self.file().exists()
    }

    pub(crate) fn change_study(&self, change: impl FnOnce(&mut Value)) {
        let mut study = self.study();
        change(&mut study);
        fs::write(self.file(), study.to_string()).expect("a file");
    }

    /// What came of a cell.
    pub(crate) fn outcome(&self, cell: &str) -> Option<Value> {
        let study = self.study();
        study["cells"].as_array().expect("a list").iter().find(|record| record["cell"] == cell).cloned()
    }

    /// The processes of this machine that are alive, as they were called.
    pub(crate) fn processes(&self) -> Vec<String> {
        let own = self.folder.path().display().to_string();
        let numbered =
            fs::read_dir("/proc").expect("processes").filter_map(Result::ok).map(|entry| entry.path());
        // One that has just ended has no environment any more.
        let of_this = numbered.filter(|process| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&own)
        });
        let called = |process: PathBuf| {
            let words = fs::read(process.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).replace('\0', " ")
        };
        of_this.map(called).filter(|words| !words.is_empty()).collect()
    }

    /// How many processes of tenants there are.
    pub(crate) fn tenants(&self) -> usize {
        // Under the limiter, the process around a tenant names it as well.
        let is_tenant = |words: &&String| words.starts_with(&format!("{CARVE} bench-tenant "));
        self.processes().iter().filter(is_tenant).count()
    }

    /// What runs have left in the folder for what is temporary.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join("temporary")).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    /// How long turns were set to be, as the driver counts them; none where nobody did.
    pub(crate) fn turns(&self) -> Option<String> {
        let entry = fs::read_dir(self.folder.path().join("machine.turns")).ok()?.next()?.ok()?;
        fs::read_to_string(entry.path()).ok()
    }

    /// The GPU's line of `carve gpus`.
    pub(crate) fn gpu(&self) -> Value {
        let output = self.carve().args(["gpus", "-o", "json"]).output().expect("an answer");
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        told["gpus"][0].clone()
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !look() {
        assert!(begun.elapsed() < AT_MOST, "not before {} s: {what}", AT_MOST.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}
