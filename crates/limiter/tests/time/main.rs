//! Time: what share of the simulated timeline a tenant gets.
//!
//! Apart from the other suites and one test after the other, because what else the machine does shows in real time.
#![allow(unsafe_code, reason = "the memory in which use is counted is mapped")]

#[allow(dead_code, reason = "the other suites need more of it")]
#[path = "../trial/stage.rs"]
mod stage;

use crate::stage::{Running, Stage, finish, memory_limits};
use carve_limiter_abi::Limits;
use carve_limiter_host::{Keeper, Share};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

fn share(percent: u32) -> Limits {
    Limits { memory: 1 << 30, compute: percent * 100, ..memory_limits() }
}

/// Keeps the simulated GPU busy with pieces of 4 ms. Whoever waits for one is woken some hundredths of a millisecond late, which counts as work that
/// came late: with pieces of 1 ms a busy machine lost a twentieth to that.
const SATURATE: &str = "saturate:2000:4000000";

/// Percent of the time that pieces of work of so many milliseconds took.
fn percent(line: &str, milliseconds: f64) -> f64 {
    let words: Vec<f64> = line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    words[0] * milliseconds * 1_000.0 / words[1] * 100.0
}

fn with_clock(stage: &Stage, steps: &[&str]) -> Command {
    let mut command = stage.program("dlsym", steps);
    command.env("CARVE_SIM_CUDA_CLOCK", stage.path().join("clock"));
    command
}

/// Nobody else measures meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures up to six times whether a tenant gets its share. A busy machine keeps it from work, so it may get less, but never more.
fn gets(expected: f64, mut measure: impl FnMut() -> f64) {
    let _alone = alone();
    let mut found = Vec::new();
    for _ in 0..6 {
        let percent = measure();
        assert!(percent <= expected + 3.0, "{percent} % instead of {expected} %");
        found.push(percent);
        if percent >= expected - 3.0 {
            return;
        }
    }
    panic!("{expected} % were expected: {found:?}");
}

#[test]
fn a_tenant_gets_its_share_and_no_more() {
    gets(25.0, || {
        let stage = Stage::new(share(25));
        let lines = finish(with_clock(&stage, &["open", SATURATE]));
        assert!(stage.region().usage().throttled > 0);
        percent(&lines[1], 4.0)
    });
}

#[test]
fn work_that_suddenly_takes_far_longer_is_paid_for() {
    gets(20.0, || {
        let stage = Stage::new(share(20));
        // The same function, first with short and then with long pieces, as when its arguments say so.
        let steps = ["open", "saturate:500:50000", "rush:6000:20000000"];
        percent(&finish(with_clock(&stage, &steps))[2], 20.0)
    });
}

#[test]
fn who_has_all_is_not_held_back() {
    let _alone = alone();
    let stage = Stage::new(share(100));
    finish(with_clock(&stage, &["open", "saturate:300:1000000"]));
    let usage = stage.region().usage();
    assert_eq!(usage.throttled, 0);
    // What is used counts all the same, but for the burst in which the process ended.
    assert!(usage.busy > 0 && usage.busy <= usage.launches * 2_000_000, "{usage:?}");
}

#[test]
fn graphs_count_and_captures_contain_only_what_the_program_captured() {
    gets(25.0, || {
        let stage = Stage::new(share(25));
        let steps = ["open", "saturate:100:1000000", "capture:5:1000000", "graphs:2000"];
        let lines = finish(with_clock(&stage, &steps));
        assert_eq!(lines[2], "capture 5 0");
        percent(&lines[3], 5.0)
    });
}

#[test]
fn processes_of_one_container_share_its_time() {
    gets(50.0, || {
        let stage = Stage::new(share(50));
        let steps = ["open", "pause", SATURATE];
        let mut all: Vec<Running> = (0..2).map(|_| Running::start(with_clock(&stage, &steps))).collect();
        for one in &mut all {
            one.until_pause();
        }
        for one in &mut all {
            one.go();
        }
        all.into_iter().map(|one| percent(&one.end()[0], 4.0)).sum()
    });
}

/// Says whose turn it is, as an agent does, until it is dropped.
struct Turns {
    over: Arc<AtomicBool>,
    keeper: Option<std::thread::JoinHandle<()>>,
}

impl Turns {
    fn of(stages: &[&Stage]) -> Self {
        let mut keeper = Keeper::default();
        for (number, stage) in stages.iter().enumerate() {
            let file = stage.file("limits");
            let uuid = file.parent().and_then(Path::file_name).and_then(OsStr::to_str).unwrap();
            keeper.add(&number.to_string(), Share::open(stage.path(), uuid, "share").unwrap());
        }
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let keeper = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                std::thread::sleep(keeper.look());
            }
        });
        Turns { over, keeper: Some(keeper) }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.keeper.take() {
            keeper.join().unwrap();
        }
    }
}

#[test]
fn what_was_lent_is_back_when_its_owner_comes() {
    gets(30.0, || {
        let borrower = Stage::new(Limits { burst: true, ..share(30) });
        let owner = Stage::new(share(70));
        let turns = Turns::of(&[&borrower, &owner]);
        let clock = borrower.path().join("clock");
        let begin = |stage: &Stage, steps: &[&str]| {
            let mut command = with_clock(stage, steps);
            command.env("CARVE_SIM_CUDA_CLOCK", &clock);
            Running::start(command)
        };
        let mut lent = begin(&borrower, &["open", SATURATE, "pause", SATURATE]);
        let mut lender = begin(&owner, &["open", "pause", SATURATE]);
        lender.until_pause();
        let alone = percent(&lent.until_pause()[1], 4.0);
        lent.go();
        lender.go();
        let (lent, lender) = (percent(&lent.end()[0], 4.0), percent(&lender.end()[0], 4.0));
        drop(turns);
        // A busy machine keeps them from work; then it is measured again.
        if alone < 80.0 || lender < 63.0 {
            eprintln!("{alone} % alone, then {lent} % beside the owner's {lender} %");
            return 0.0;
        }
        lent
    });
}
