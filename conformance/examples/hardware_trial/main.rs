//! Tries the agent on a machine with a real NVIDIA GPU: MPS daemons with limits, and the CDI file, in one command.
//!
//! ```text
//! cargo build --release -p carve -p carve-conformance --example hardware_trial --bin carve
//! target/release/examples/hardware_trial target/release/carve [--driver-root DIR] [--patience SECONDS]
//! ```
//! It needs root, the driver, `nvidia-cuda-mps-control`, `nvidia-smi` and `ldd`; neither a cluster nor a container runtime. The agent,
//! a kubelet of the tests and everything they write are in a temporary folder. No setting of a GPU is changed: no MIG mode,
//! compute mode, clock or power limit, and nothing is reset. A table of what was asked and seen goes to standard output, the
//! same as `trial.json` to the folder in `$OUT`, if that is set. The exit code is 0 if everything was right, 1 if not, and 2
//! where nothing could be tried.
//!
//! With `--driver-root` the driver is looked for below a folder, which is how the simulated one is tried.

mod bare;
mod cdi;
mod clients;
mod mps;
mod node;
mod report;

use bare::Bare;
use node::{Node, Typed, names_in};
use report::{Report, Stopped};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const PART: &str = "end";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Before any thread is started: a namespace is a matter of one thread.
    if words == [bare::INSIDE] {
        eprintln!("{}", bare::become_command());
        return ExitCode::FAILURE;
    }
    let Some(typed) = parse(&words) else {
        eprintln!("usage: hardware_trial path/to/carve [--driver-root DIR] [--patience SECONDS]");
        return ExitCode::from(2);
    };
    if !rustix::process::geteuid().is_root() {
        eprintln!("this makes mounts and so needs root");
        return ExitCode::from(2);
    }
    let tried = tokio::runtime::Runtime::new().and_then(|runtime| runtime.block_on(tried(typed)));
    match tried {
        Ok(report) if report.passed() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("nothing could be tried: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse(words: &[&str]) -> Option<Typed> {
    let (carve, options) = words.split_first()?;
    let carve = Path::new(carve).canonicalize().ok()?;
    let mut typed = Typed { carve, driver_root: None, patience: Duration::from_secs(90) };
    let (options, []) = options.as_chunks::<2>() else { return None };
    for [option, value] in options {
        match *option {
            "--driver-root" => typed.driver_root = Some(PathBuf::from(value)),
            "--patience" => typed.patience = Duration::from_secs(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(typed)
}

async fn tried(typed: Typed) -> std::io::Result<Report> {
    let mut report = Report::default();
    let smi = typed
        .driver_root
        .as_ref()
        .map_or_else(|| "nvidia-smi".into(), |root| root.join("usr/bin/nvidia-smi"));
    let settings = settings_of_gpus(&smi);
    report.fact("driver", driver_version(&smi));
    report.fact("GPUs", answer(&smi, &["-L"]).unwrap_or_else(|why| why));
    let memory = names_in(Path::new("/dev/shm"));
    let mut node = Node::new(typed).await?;
    // The parts are tried one after the other; each row says by itself whether it is right.
    let _ = try_all(&mut node, &mut report).await;
    mps::put_away(&node);
    let after = settings_of_gpus(&smi);
    let seen = after.clone().unwrap_or_else(|_| "nvidia-smi does not tell them here".to_owned());
    let same = if after == settings { Ok(seen) } else { Err(format!("{seen}; before: {settings:?}")) };
    let _ = report.row(PART, "the GPUs' settings are what they were", same);
    let now = names_in(Path::new("/dev/shm"));
    let more: Vec<&String> = now.difference(&memory).collect();
    let same = if more.is_empty() { Ok("as before".to_owned()) } else { Err(format!("{more:?}")) };
    let _ = report.row(PART, "nothing is left in the host's /dev/shm", same);
    print!("{}", report.table());
    if let Some(folder) = std::env::var_os("OUT").filter(|folder| !folder.is_empty()) {
        report.write(&Path::new(&folder).join("trial.json"))?;
    }
    Ok(report)
}

async fn try_all(node: &mut Node, report: &mut Report) -> Result<(), Stopped> {
    let (roots, carve) = (node.path("roots"), node.carve().to_owned());
    let bare = |name: &str| {
        let made = Bare::new(&roots.join(name), &carve).map_err(|error| format!("{name}: {error}"))?;
        // The simulated driver keeps its machine in a file.
        Ok(match std::env::var_os("CARVE_SIM_STATE") {
            Some(state) => made.show(Path::new(&state), "CARVE_SIM_STATE"),
            None => made,
        })
    };
    mps::shares(node, report, &bare).await?;
    let shares = node.lists_until(|list| list.healthy > 0).await.unwrap_or_default();
    let gpus = shares.last().map_or(0, |list| list.ids.len() / 4);
    let offered = mps::retire(node, report, gpus).await?;
    cdi::whole_gpu(node, report, &offered, &bare).await?;
    let ended = node.terminate().await.and_then(|status| match status.code() {
        Some(0) => Ok("exit code 0".to_owned()),
        _ => Err(format!("{status}")),
    });
    report.row(PART, "the agent ends when it is told to (SIGTERM)", ended)?;
    let sockets = node.files("device-plugins");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let folder = node.path("").display().to_string();
    let mounts: Vec<&str> = mounts.lines().filter(|line| line.contains(folder.as_str())).collect();
    let daemons = mps::daemons(node);
    let left = format!("sockets {sockets:?}, mounts {mounts:?}, processes {daemons:?}");
    let clean = sockets.iter().all(|name| name == "kubelet.sock") && mounts.is_empty() && daemons.is_empty();
    let seen = if clean { Ok("no socket, no mount, no process".to_owned()) } else { Err(left) };
    report.row(PART, "nothing of it is left but its state and the CDI file", seen)
}

fn answer(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// What the trial must not change, as far as `nvidia-smi` tells.
fn settings_of_gpus(smi: &Path) -> Result<String, String> {
    let fields = "compute_mode,mig.mode.current,persistence_mode,power.limit,clocks.applications.graphics";
    answer(smi, &[&format!("--query-gpu={fields}"), "--format=csv,noheader"])
}

fn driver_version(smi: &Path) -> String {
    let asked = answer(smi, &["--query-gpu=driver_version", "--format=csv,noheader"]);
    asked.unwrap_or_else(|_| "not told by nvidia-smi".to_owned())
}
