//! `carve agent` against NVIDIA's device plugin and feature discovery: in one run, on the same simulated machine, in turns.
//!
//! Prints what kubelet waits for, what the processes hold in memory and how large the programs are.

#[path = "agent/node.rs"]
mod node;
#[path = "agent/numbers.rs"]
mod numbers;

use carve_conformance::{Cage, Incumbents, Program};
use carve_gpu_host::Machine;
use node::{Node, Side};
use numbers::{Line, percentile, program_kib};
use std::process::ExitCode;
use std::time::Duration;

/// Starts of each program.
const STARTS: usize = 15;
/// Calls of Allocate of each program.
const ALLOCATIONS: usize = 2_000;
/// Calls of GetPreferredAllocation of each program, on eight GPUs and on sixteen; on sixteen NVIDIA's plugin takes seconds.
const CHOICES: [(&str, &str, usize); 2] = [("p4d.24xlarge", "8", 200), ("h200-141gb:16", "16", 5)];

fn main() -> ExitCode {
    // `cargo test --benches` and `cargo bench -- --list` call with flags that mean "do not measure".
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let Some(incumbents) = Incumbents::locate() else { return ExitCode::SUCCESS };
    let Some(cage) = Cage::new(&incumbents).expect("a cage") else { return ExitCode::SUCCESS };
    cage.admit_carve().expect("carve in the cage");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut lines = runtime.block_on(measure(&cage));
    let theirs =
        [Program::DevicePlugin, Program::FeatureDiscovery].map(|one| program_kib(&incumbents.path(one)));
    lines.push(Line::new(
        "programs on disk, without symbols",
        "MiB",
        mib(program_kib(&cage.carve_binary())),
        mib(theirs.iter().sum()),
    ));
    println!(
        "carve agent with all its jobs, nvidia-device-plugin and gpu-feature-discovery v0.19.1, in turns"
    );
    println!("  {:<52} {:>12} {:>12} {:>9}", "", "carve", "NVIDIA", "ratio");
    lines.iter().for_each(|line| println!("  {line}"));
    ExitCode::SUCCESS
}

async fn measure(cage: &Cage) -> Vec<Line> {
    let mut lines = Vec::new();
    for (machine, gpus, calls) in CHOICES {
        cage.switch_on(Machine::named(machine).expect("a machine")).expect("the machine");
        if gpus == "8" {
            lines.push(starts(cage).await);
        }
        let ours = Node::start(cage, Side::Carve).await;
        let theirs = Node::start(cage, Side::Nvidia).await;
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..calls {
            times[0].push(ours.choose_two().await);
            times[1].push(theirs.choose_two().await);
        }
        let title = format!("GetPreferredAllocation, 2 of {gpus} GPUs");
        lines.extend(p50_and_p99(&title, times, calls >= 100));
        if gpus == "8" {
            lines.extend(allocations(&ours, &theirs).await);
            lines.extend(memory(&ours, &theirs));
        }
    }
    lines
}

/// How long kubelet waits for the first list, from the start of the process on.
async fn starts(cage: &Cage) -> Line {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..STARTS {
        for (side, times) in [Side::Carve, Side::Nvidia].into_iter().zip(&mut times) {
            times.push(Node::start(cage, side).await.first_list);
        }
    }
    let [ours, theirs] = times.map(|times| milliseconds(percentile(times, 50)));
    Line::new(format!("start to first list, median of {STARTS}"), "ms", ours, theirs)
}

async fn allocations(ours: &Node, theirs: &Node) -> Vec<Line> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ALLOCATIONS {
        times[0].push(ours.allocate().await);
        times[1].push(theirs.allocate().await);
    }
    p50_and_p99(&format!("Allocate, {ALLOCATIONS} calls"), times, true)
}

/// The ninety-ninth of a hundred means nothing where there are fewer.
fn p50_and_p99(title: &str, times: [Vec<Duration>; 2], many: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    for percent in if many { vec![50, 99] } else { vec![50] } {
        let [ours, theirs] = times.clone().map(|times| milliseconds(percentile(times, percent)));
        lines.push(Line::new(format!("{title}, p{percent}"), "ms", ours, theirs));
    }
    lines
}

/// What the processes hold after all calls: one of ours, two of theirs.
fn memory(ours: &Node, theirs: &Node) -> Vec<Line> {
    let line =
        |title: &str, field: &str| Line::new(title, "MiB", mib(ours.kib(field)), mib(theirs.kib(field)));
    vec![
        line("memory now, plugin and labels", "VmRSS"),
        line("memory at most", "VmHWM"),
        line("memory of its own, not of files", "RssAnon"),
    ]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1_024.0
}
