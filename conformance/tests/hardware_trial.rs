//! The hardware trial, on a simulated GPU: the program that is carried to machines with a real one runs here as well, and
//! says so when something is not right.

#[path = "../../crates/nvml-sim/tests/support/built.rs"]
mod built;

use carve_gpu_host::{GpuHost, Machine};
use carve_sim_store::SharedMachine;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A folder in which a simulated driver is installed as a real one would be.
struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    /// One GPU with everything that its driver brings. `None` without root, which the trial needs for its mounts.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "mounts need root, and CI must not skip");
            eprintln!("SKIPPED: mounts need root");
            return None;
        }
        let installed = Installed { folder: tempfile::tempdir().expect("a folder") };
        let machine = Machine::named("h200-141gb:1").expect("a machine");
        fs::create_dir_all(installed.path("state")).expect("a folder");
        let machine = SharedMachine::open(&installed.state(), machine).expect("a machine");
        let version = machine.driver().expect("a driver").version;
        let nvml = built::library();
        let cuda = built::package("carve-cuda-sim").join("libcarve_cuda_sim.so");
        for (stem, library) in [("libnvidia-ml", &nvml), ("libcuda", &cuda)] {
            let file = format!("{stem}.so.{version}");
            installed.copy(library, &format!("driver/{LIBRARIES}/{file}"));
            symlink(file, installed.path(&format!("driver/{LIBRARIES}/{stem}.so.1"))).expect("a link");
        }
        for program in ["nvidia-smi", "nvidia-cuda-mps-control"] {
            let built = built::nvidia_smi().with_file_name(program);
            installed.copy(&built, &format!("driver/usr/bin/{program}"));
        }
        fs::create_dir_all(installed.path("driver/dev")).expect("a folder");
        for (name, major, minor) in [
            ("nvidia0", 195, 0),
            ("nvidiactl", 195, 255),
            ("nvidia-uvm", 507, 0),
            ("nvidia-uvm-tools", 507, 1),
        ] {
            let path = installed.path("driver/dev").join(name);
            let mode = Mode::from_raw_mode(0o666);
            mknodat(CWD, &path, FileType::CharacterDevice, mode, makedev(major, minor))
                .expect("a device node");
        }
        Some(installed)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn state(&self) -> PathBuf {
        self.path("state/machine.json")
    }

    fn copy(&self, file: &Path, name: &str) {
        let target = self.path(name);
        fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
        fs::copy(file, target).expect("a copy");
    }

    /// Runs the trial; what it printed, and the report it left.
    fn tried(&self, arguments: &[&str]) -> (Output, serde_json::Value) {
        let trial = built::example("carve-conformance", "hardware_trial");
        let carve = built::package("carve").join("carve");
        // Other tests put files into the machine's /dev/shm meanwhile, and the trial asks what was left there.
        let own_memory = "mount -t tmpfs own /dev/shm && exec \"$@\"";
        let output = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", own_memory, "trial"])
            .arg(trial)
            .arg(carve)
            .arg("--driver-root")
            .arg(self.path("driver"))
            .args(arguments)
            .env("CARVE_SIM_STATE", self.state())
            .env("OUT", self.folder.path())
            .output()
            .expect("the trial runs");
        let report = fs::read_to_string(self.path("trial.json")).expect("a report");
        (output, serde_json::from_str(&report).expect("JSON"))
    }
}

/// The row of a question.
fn row<'a>(report: &'a serde_json::Value, asked: &str) -> &'a serde_json::Value {
    let rows = report["rows"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["asked"].as_str().is_some_and(|text| text.contains(asked)));
    found.unwrap_or_else(|| panic!("nobody asked '{asked}': {report:#}"))
}

#[test]
fn everything_is_right_on_a_simulated_gpu() {
    let Some(installed) = Installed::new() else { return };
    let (output, report) = installed.tried(&[]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(report["passed"], true, "{report:#}");
    // A trial that asks less proves less.
    assert!(report["rows"].as_array().expect("rows").len() >= 22, "{told}");
    let share = row(&report, "client one sees its share")["seen"].as_str().expect("text").to_owned();
    assert!(share.contains("32 of 132 multiprocessors"), "{share}");
    let whole = row(&report, "without the daemon")["seen"].as_str().expect("text").to_owned();
    assert!(whole.contains("132 multiprocessors"), "{whole}");
    assert!(told.contains(&format!("{} asked, 0 not right", report["rows"].as_array().expect("rows").len())));
}

#[test]
fn a_driver_that_lacks_something_is_found_out() {
    let Some(installed) = Installed::new() else { return };
    fs::remove_file(installed.path("driver/usr/bin/nvidia-smi")).expect("it was there");
    let (output, report) = installed.tried(&[]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(report["passed"], false, "{report:#}");
    let lists = row(&report, "nvidia-smi -L");
    assert_eq!(lists["passed"], false, "{report:#}");
    assert!(told.contains("WRONG"), "{told}");
    let before = row(&report, "adds two vectors");
    assert_eq!(before["passed"], true, "only what is missing is wrong: {report:#}");
}

#[test]
fn a_daemon_that_takes_no_limits_is_never_offered() {
    let Some(installed) = Installed::new() else { return };
    let (control, real) =
        (installed.path("driver/usr/bin/nvidia-cuda-mps-control"), installed.path("control"));
    fs::rename(&control, &real).expect("it was there");
    // The daemon has an environment of its own, so that the fault comes with the program.
    let fault = "CARVE_SIM_MPS_FAULT=set_default_device_pinned_mem_limit:ignore";
    fs::write(&control, format!("#!/bin/sh\nexport {fault}\nexec {} \"$@\"\n", real.display()))
        .expect("a script");
    fs::set_permissions(&control, fs::Permissions::from_mode(0o755)).expect("a program");
    let (output, report) = installed.tried(&["--patience", "4"]);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    let offered = row(&report, "4 shares of each GPU are offered");
    assert_eq!(offered["passed"], false, "{report:#}");
    assert!(offered["seen"].as_str().expect("text").contains("0 of 4 healthy"), "{report:#}");
    let left = row(&report, "/dev/shm");
    assert_eq!(left["passed"], true, "a trial that broke off cleans up, too: {report:#}");
}
