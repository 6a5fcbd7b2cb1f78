//! A process ends between any two writes of what it shares: whoever was there before and whoever comes next have everything.

use crate::processes::in_other_pid_namespace;
use crate::stage::{MIB, Running, Stage, limiter, limiter_with_faults, memory_limits, programs};
use carve_limiter_abi::Limits;
use carve_limiter_abi::faults::Point;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// What a context takes, and a limit of eight pieces beside the contexts of two processes.
const CONTEXT: u64 = 64 * MIB;
const PIECE: u64 = 512 * MIB;
const LIMIT: u64 = 8 * PIECE + 2 * CONTEXT;

/// What somebody does who gets everything that is there: memory, and time.
const ALL: [&str; 4] = ["fill:0:536870912", "free", "saturate:60:500000", "pause"];

/// How a process comes to a point.
enum Way {
    /// By these steps of `program`.
    Steps(&'static [&'static str]),
    /// By these steps of `graphs`, with a driver that has this fault.
    Graphs(&'static [&'static str], &'static str),
    /// By taking a free slot.
    First,
    /// By taking the slot of another that died with everything.
    Inherits,
    /// By finding no room, because another died with everything.
    Reaps,
}

const FILLS: Way = Way::Steps(&["open", "fill:0:536870912"]);
const FREES: Way = Way::Steps(&["open", "fill:0:536870912:3", "free"]);
const POOLS: Way = Way::Steps(&["open", "fill:3:1048576:200", "fill:4:1048576:40", "free", "end-pool"]);
const WORKS: Way = Way::Steps(&["open", "fill:0:536870912:3", "saturate:2000:500000"]);
const LAUNCHES: Way = Way::Graphs(&["captured:2:8", "launch:0:9"], "");

/// Every point, how it is reached, and at which times.
const WAYS: &[(&str, Way, &[u32])] = &[
    ("claim-taken", Way::First, &[1]),
    ("claim-named", Way::First, &[1]),
    ("claim-owned", Way::First, &[1]),
    ("claim-inherited", Way::Inherits, &[1]),
    ("claim-asked-cleared", Way::Inherits, &[1]),
    ("claim-held-cleared", Way::Inherits, &[1]),
    ("reap-taken", Way::Reaps, &[1]),
    ("reap-asked-cleared", Way::Reaps, &[1]),
    ("reap-held-cleared", Way::Reaps, &[1]),
    ("asked", FILLS, &[1, 7, 10]),
    ("granted", FILLS, &[1, 7]),
    ("withdrawn", FILLS, &[1]),
    ("refused", FILLS, &[1]),
    ("taken-at-once", Way::Steps(&["open", "fill:0:2000000:9"]), &[1, 7]),
    ("added", Way::Graphs(&["captured:12:8", "launch:0"], "nodes-untold"), &[1]),
    ("released", FREES, &[1, 3]),
    ("allocation-reserved", FILLS, &[1, 8]),
    ("allocation-made", FILLS, &[1, 8]),
    ("allocation-noted", FILLS, &[1, 8]),
    ("free-unnoted", FREES, &[1, 3]),
    ("free-done", FREES, &[1, 3]),
    ("context-reserved", Way::Steps(&["open"]), &[1]),
    ("context-made", Way::Steps(&["open"]), &[1]),
    ("context-ending", Way::Steps(&["open", "fill:0:536870912:3", "reset"]), &[1, 2]),
    ("growth-reserved", Way::Steps(&["open", "heap:1073741824"]), &[1]),
    ("growth-made", Way::Steps(&["open", "heap:1073741824", "heap:8388608"]), &[1, 2]),
    ("growth-noted", Way::Steps(&["open", "heap:1073741824", "heap:8388608"]), &[1, 2]),
    ("pool-entered", POOLS, &[1, 30]),
    ("pool-reserved", POOLS, &[1, 2]),
    ("pool-grown", POOLS, &[1, 2]),
    ("pool-kept", POOLS, &[1, 2]),
    ("pool-settling", POOLS, &[1, 2]),
    ("pool-destroyed", POOLS, &[1]),
    ("graph-reserved", LAUNCHES, &[1, 9]),
    ("graph-begun", LAUNCHES, &[1, 9]),
    ("graph-launched", LAUNCHES, &[1, 9]),
    ("graph-settling", LAUNCHES, &[1, 9]),
    ("graph-trimmed", Way::Graphs(&["captured:1:3000", "captured:1:2500", "launch:0", "launch:1"], ""), &[1]),
    ("work-wanted", WORKS, &[1, 50]),
    ("work-waiting", WORKS, &[1, 20]),
    ("work-allowed", WORKS, &[1, 50]),
    ("work-charged", WORKS, &[1, 50]),
    ("work-noted", WORKS, &[1, 50]),
    ("work-started", WORKS, &[1, 50]),
    ("work-measured", WORKS, &[1, 20]),
    ("work-corrected", WORKS, &[1, 20]),
    ("burst-paid", WORKS, &[1, 10]),
];

fn stage() -> Stage {
    let limits = Limits { memory: LIMIT, compute: 5_000, context: CONTEXT, ..memory_limits() };
    Stage::new(limits).with_library(&limiter_with_faults())
}

/// Lets a process do steps until it is ended at a point, which it must be.
fn end_at(mut command: Command, point: &str, times: u32) {
    command.env("CARVE_FAULT_POINT", format!("{point}:{times}"));
    let output = command.output().unwrap();
    assert_eq!(output.status.signal(), Some(9), "{point} was not reached {times} times: {output:?}");
}

/// A process that has everything that is left.
fn greedy(stage: &Stage) -> Running {
    let mut running = stage.start("dlsym", &["open", "fill:0:536870912", "pause"]);
    running.until_pause();
    running
}

impl Way {
    fn end(&self, stage: &Stage, point: &str, times: u32) {
        match self {
            Way::Steps(steps) => end_at(stage.program("dlsym", steps), point, times),
            Way::Graphs(steps, fault) => {
                let mut command = stage.command(&programs().join("graphs"));
                command.args(*steps).env("CARVE_SIM_CUDA_FAULT", fault);
                end_at(command, point, times);
            }
            Way::First => end_at(stage.program("dlsym", &["open"]), point, times),
            Way::Inherits => {
                greedy(stage).kill();
                end_at(stage.program("dlsym", &["open"]), point, times);
            }
            Way::Reaps => {
                let mut command = stage.program("dlsym", &["open", "pause", "fill:0:536870912:1"]);
                command.env("CARVE_FAULT_POINT", format!("{point}:{times}"));
                let mut victim = Running::start(command);
                victim.until_pause();
                greedy(stage).kill();
                victim.go();
                let ended = victim.child.wait().unwrap();
                assert_eq!(ended.signal(), Some(9), "{point} was not reached {times} times");
            }
        }
    }
}

/// What somebody says who got everything: eight pieces and a refusal, and its share of time.
fn has_all(told: &[String], who: &str) {
    assert_eq!(told[..2], ["plain 8 2", "free 0 0"], "{who}");
    let words: Vec<u64> = told[2].split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    // Half of the time, and what may be started at once after a pause.
    let percent = words[0] * 500 * 100 / words[1];
    assert!(words[0] > 0 && percent <= 75, "{who}: {told:?}");
}

/// Lets processes die, each at its point, beside one that is there all the time.
fn let_them_die(ways: &[&(&str, Way, &[u32])]) {
    let stage = stage();
    let deaths: Vec<_> = ways
        .iter()
        .flat_map(|(point, way, all)| all.iter().map(move |&times| (*point, way, times)))
        .collect();
    let mut steps = vec!["open", "pause"];
    steps.extend(ALL.repeat(deaths.len()));
    let mut bystander = stage.start("dlsym", &steps);
    bystander.until_pause();
    for (point, way, times) in deaths {
        way.end(&stage, point, times);
        let who = |who: &str| format!("{who} after somebody died at {point}, time {times}");
        let mut next = stage.start("dlsym", &[&["open"][..], &ALL].concat());
        has_all(&next.until_pause()[1..], &who("the next"));
        bystander.go();
        has_all(&bystander.until_pause(), &who("one that was there before"));
        assert_eq!(stage.held(), 2 * CONTEXT, "{point}");
        next.kill();
    }
    bystander.kill();
}

#[test]
fn whoever_dies_between_two_writes_is_in_nobodys_way() {
    // Nobody died before in containers where a slot is to be free.
    let (first, all): (Vec<_>, Vec<_>) = WAYS.iter().partition(|(_, way, _)| matches!(way, Way::First));
    for one in first {
        let_them_die(&[one]);
    }
    // Each with a container of its own.
    std::thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(3)) {
            scope.spawn(|| let_them_die(part));
        }
    });
}

#[test]
fn every_point_is_reached_by_a_way() {
    let tried: BTreeSet<&str> = WAYS.iter().map(|(name, ..)| *name).collect();
    let known: BTreeSet<&str> = Point::ALL.iter().map(|(_, name)| *name).collect();
    assert_eq!(tried, known);
    assert_eq!((WAYS.len(), Point::ALL.len()), (tried.len(), known.len()), "a name stands there twice");
}

#[test]
fn a_claim_that_dies_in_another_pid_namespace_leaves_nothing_that_counts() {
    let claims = WAYS.iter().map(|(name, ..)| *name).filter(|name| name.starts_with("claim-"));
    for point in claims {
        let stage = stage();
        let mut bystander = stage.start("dlsym", &[&["open", "pause"], &ALL[..]].concat());
        bystander.until_pause();
        greedy(&stage).kill();
        // It needs room, so the slot of the dead is free from now on, and the first that the next one finds.
        bystander.go();
        assert_eq!(bystander.until_pause()[0], "plain 8 2");
        let mut command = stage.program("dlsym", &["open"]);
        command.env("CARVE_FAULT_POINT", format!("{point}:1"));
        let Some(output) = in_other_pid_namespace(&command) else {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "a pid namespace can not be made");
            eprintln!("SKIPPED: a pid namespace needs rights that this test has not");
            return;
        };
        assert_eq!(output.status.code(), Some(128 + 9), "{point} was not reached: {output:?}");
        assert_eq!(stage.held(), CONTEXT, "{point}: only who lives has something");
        bystander.kill();
    }
}

#[test]
fn what_is_shipped_has_no_such_points() {
    let has = |library: &std::path::Path, text: &str| {
        let bytes = std::fs::read(library).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    let names = Point::ALL.iter().map(|(_, name)| *name).filter(|name| name.contains('-'));
    for text in names.chain(["CARVE_FAULT", "environ"]) {
        assert!(!has(&limiter(), text), "{text}");
    }
    for text in ["CARVE_FAULT", "environ", "claim-taken", "burst-paid"] {
        assert!(has(&limiter_with_faults(), text), "{text}: then this test would see nothing");
    }
}
