//! Studies that are ended before they are complete, in good order and by force.

use crate::machine::{Machine, limiter, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::process::Child;
use std::time::{Duration, Instant};

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a signal");
}

/// One in which a cell was measured, and any other takes this long.
fn with_a_cell(window: f64, windows: u32) -> Machine {
    let machine = Machine::with_short_windows();
    machine.outcomes(&["light/dedicated/1"], &[]);
    machine.change_study(|study| {
        study["timing"] = json!({"warm_up": 0.05, "window": window, "windows": windows, "passes": 1})
    });
    machine
}

#[test]
fn an_interrupt_ends_everything_and_keeps_what_was_measured() {
    let machine = with_a_cell(600.0, 1);
    let before = machine.study();
    let mut cells = vec!["burn/time-slicing/2", "light/mps/2"];
    cells.extend(limiter().map(|_| "light/limiter/2"));
    for cell in cells {
        let child = machine.start(&["--resume", "--cells", cell]);
        until("tenants", || machine.tenants() == 2);
        let begun = Instant::now();
        signal(&child, Signal::INT);
        let told = Machine::wait(child);
        assert!(begun.elapsed() < Duration::from_secs(60), "{cell}: a window is ten times as long");
        assert!(
            told.ended_well && told.words.contains("stopped") && told.words.contains("--resume"),
            "{}",
            told.words
        );
        assert_eq!(machine.study(), before, "{cell}");
        assert_eq!(machine.processes(), Vec::<String>::new(), "{cell}");
        assert_eq!(machine.left_behind(), Vec::<String>::new(), "{cell}");
    }
}

#[test]
fn after_a_kill_tenants_end_by_themselves_and_the_next_run_clears_the_rest() {
    let machine = with_a_cell(0.5, 1000);
    let mut cells = vec!["light/mps/2"];
    cells.extend(limiter().map(|_| "light/limiter/2"));
    for cell in cells {
        let before = machine.study();
        let mut child = machine.start(&["--resume", "--cells", cell]);
        until("tenants", || machine.tenants() == 2);
        signal(&child, Signal::KILL);
        child.wait().expect("its end");
        until("tenants end", || machine.tenants() == 0);
        assert_eq!(machine.study(), before);
        assert_eq!(machine.left_behind(), [format!("carve-bench-{}", child.id())], "{cell}");
        let has_daemon = machine.processes().iter().any(|words| words.contains("mps-control"));
        assert_eq!(has_daemon, cell == "light/mps/2");

        let next = machine.bench(&["--resume", "--cells", "light/mig/2"]);
        assert!(next.ended_well, "{}", next.words);
        assert_eq!(machine.left_behind(), Vec::<String>::new(), "{cell}");
        until("the daemon ends", || machine.processes().is_empty());
    }
}
