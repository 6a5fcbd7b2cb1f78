//! Counts the driver calls of `assert` on eight simulated GPUs, for carve and for nvidia-mig-parted.

use carve_conformance::{Cage, Carve, Incumbents, Program};
use carve_gpu_host::Machine;
use std::collections::BTreeMap;

const CONFIG: &str = "/tmp/config.yaml";
const LAYOUT: &str =
    "version: v1\nmig-configs: {c: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]}\n";

fn main() {
    let Some(incumbents) = Incumbents::locate() else { return };
    let Some(cage) = Cage::new(&incumbents).expect("a cage") else { return };
    let carve = Carve::new();
    cage.write(CONFIG, LAYOUT).expect("the config");
    cage.switch_on(Machine::named("p4d.24xlarge").expect("a preset")).expect("the machine");
    let file = cage.outside(CONFIG.as_ref());
    let file = file.to_str().expect("a path of ours");
    assert!(carve.run(&cage, &["mig", "apply", "-f", file, "-c", "c"]).status.success());
    let trace = cage.outside("/tmp/trace".as_ref());
    let inside = [("CARVE_SIM_TRACE", "/tmp/trace")];
    let theirs =
        cage.run_with(Program::MigParted, &["assert", "-f", CONFIG, "-c", "c"], &inside).expect("a run");
    assert!(theirs.status.success(), "{}", theirs.stderr);
    count("nvidia-mig-parted", &std::fs::read_to_string(&trace).expect("a trace"));
    std::fs::remove_file(&trace).expect("the trace goes");
    let outside = [("CARVE_SIM_TRACE", trace.to_str().expect("a path of ours"))];
    assert!(carve.run_with(&cage, &["mig", "assert", "-f", file, "-c", "c"], &outside).status.success());
    count("carve", &std::fs::read_to_string(&trace).expect("a trace"));
}

fn count(who: &str, trace: &str) {
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    for line in trace.lines() {
        *calls.entry(line.split(' ').next().unwrap_or_default()).or_default() += 1;
    }
    let mut calls: Vec<(&str, usize)> = calls.into_iter().collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    println!("{who}: {} driver calls", trace.lines().count());
    for (name, count) in calls.iter().take(12) {
        println!("  {count:>6}  {name}");
    }
}
