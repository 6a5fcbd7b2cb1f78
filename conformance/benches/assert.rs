//! `assert` on eight simulated GPUs: carve and nvidia-mig-parted in turns, on the same driver library and machine.
//!
//! Prints wall times, peak memory and their ratios; the promises are in SPECIFICATION.md.
#![allow(unsafe_code, reason = "wait4 is the only way to learn the peak memory of one child")]

use carve_conformance::{Cage, Carve, Incumbents, Program};
use carve_gpu_host::Machine;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const CONFIG: &str = "/tmp/config.yaml";
const LAYOUT: &str = "version: v1
mig-configs:
  balanced:
  - devices: all
    mig-enabled: true
    mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}
";
/// In turns, so that whatever else the machine does falls on both alike.
const ROUNDS: usize = 60;

fn main() -> ExitCode {
    // `cargo test --benches` and `cargo bench -- --list` call with flags that mean "do not measure".
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let Some(incumbents) = Incumbents::locate() else { return ExitCode::SUCCESS };
    let Some(cage) = Cage::new(&incumbents).expect("a cage") else { return ExitCode::SUCCESS };
    let carve = Carve::new();
    cage.write(CONFIG, LAYOUT).expect("the config");
    let machine = Machine::named("p4d.24xlarge").expect("a preset");
    cage.switch_on(machine).expect("the machine");
    let file = cage.outside(CONFIG.as_ref());
    let file = file.to_str().expect("a path of ours");
    let applied = carve.run(&cage, &["mig", "apply", "-f", file, "-c", "balanced"]);
    assert!(applied.status.success(), "{}", applied.stderr);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(measure(&mut carve.command(&cage, &["mig", "assert", "-f", file, "-c", "balanced"])));
        let mut command = cage
            .command(Program::MigParted, &["assert", "-f", CONFIG, "-c", "balanced"], &[])
            .expect("a command");
        theirs.push(measure(&mut command));
    }
    let (ours, theirs) = (Summary::of(ours), Summary::of(theirs));
    println!("assert on 8 simulated GPUs, median of {ROUNDS} runs each, in turns");
    println!("  carve               {:>7.2} ms   {:>6} KiB peak", ours.milliseconds, ours.kibibytes);
    println!("  nvidia-mig-parted   {:>7.2} ms   {:>6} KiB peak", theirs.milliseconds, theirs.kibibytes);
    println!(
        "  mig-parted / carve  {:>7.2} ×    {:>6.2} ×",
        theirs.milliseconds / ours.milliseconds,
        theirs.kibibytes as f64 / ours.kibibytes as f64
    );
    ExitCode::SUCCESS
}

struct Summary {
    milliseconds: f64,
    kibibytes: u64,
}

impl Summary {
    fn of(mut runs: Vec<(Duration, u64)>) -> Self {
        runs.sort();
        let (time, _) = runs[runs.len() / 2];
        let mut peaks: Vec<u64> = runs.iter().map(|(_, peak)| *peak).collect();
        peaks.sort_unstable();
        Summary { milliseconds: time.as_secs_f64() * 1000.0, kibibytes: peaks[peaks.len() / 2] }
    }
}

/// Wall time of a command, and the most memory it ever held, in KiB.
#[allow(clippy::zombie_processes, reason = "wait4 is the wait")]
fn measure(command: &mut Command) -> (Duration, u64) {
    let start = Instant::now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
    let mut status = 0;
    // SAFETY: all zeroes is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the child is ours and not waited for elsewhere; both pointers are to live locals.
    let waited = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    let time = start.elapsed();
    assert_eq!(waited, child.id() as i32, "the child was waited for");
    assert_eq!(status, 0, "assert answers yes");
    (time, usage.ru_maxrss as u64)
}
