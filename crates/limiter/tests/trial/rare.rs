//! Ways to memory that few programs take are no ways round the limit.

use crate::stage::{LIMIT, MIB, Running, Stage, memory_limits, programs};
use carve_limiter_abi::{Limits, Trouble};

fn start(stage: &Stage, ways: &[&str]) -> Running {
    let mut command = stage.command(&programs().join("rare"));
    command.args(ways);
    Running::start(command)
}

#[test]
fn functions_with_addresses_of_32_bits() {
    let stage = Stage::new(memory_limits());
    let mut running = start(&stage, &["old-memory", "old-arrays", "pause"]);
    assert_eq!(running.until_pause(), ["old 8 2"]);
    assert_eq!(stage.held(), LIMIT);
    running.go();
    let told = running.until_pause();
    let expected =
        ["old-pitch 8 2".to_owned(), format!("old-info 0 {LIMIT}"), format!("old-total {LIMIT} 0")];
    assert_eq!(told[..3], expected);
    assert_eq!(told[3..], ["old-array 8 2", "old-array3d 8 2"]);
    assert_eq!(stage.held(), 0);
    running.kill();
}

#[test]
fn contexts_with_several_users() {
    let stage = Stage::new(Limits { context: 16 * MIB, ..memory_limits() });
    let mut running = start(&stage, &["old-contexts", "pause"]);
    assert_eq!(running.until_pause(), ["old-context 6 2"]);
    assert_eq!(stage.held(), LIMIT, "one user is left");
    running.go();
    running.until_pause();
    assert_eq!(stage.held(), 0);
    running.kill();
}

#[test]
fn contexts_beside_graphics_and_of_later_versions() {
    let stage = Stage::new(Limits { context: 16 * MIB, ..memory_limits() });
    let mut running = start(&stage, &["other-contexts"]);
    for kind in 0..6 {
        assert_eq!(running.until_pause(), ["context 4 2"], "kind {kind}");
        assert_eq!(stage.held(), LIMIT, "kind {kind}");
        running.go();
        running.until_pause();
        assert_eq!(stage.held(), 0, "kind {kind}: they are gone, and what was in one of them");
        running.go();
    }
    assert!(running.end().is_empty());
}

#[test]
fn primary_contexts_that_end_as_they_did_before_cuda_11() {
    let stage = Stage::new(Limits { context: 16 * MIB, ..memory_limits() });
    let mut running = start(&stage, &["old-release", "old-reset"]);
    for way in ["release", "reset"] {
        assert_eq!(running.until_pause(), ["primary 6 2"], "{way}");
        assert_eq!(stage.held(), 0, "{way}");
        running.go();
    }
    assert!(running.end().is_empty());
}

#[test]
fn green_contexts() {
    let stage = Stage::new(Limits { context: 16 * MIB, ..memory_limits() });
    let mut running = start(&stage, &["green", "green", "pause"]);
    assert_eq!(running.until_pause(), ["green 6 2"], "it brings the primary context along");
    assert_eq!(stage.held(), LIMIT);
    running.go();
    assert_eq!(running.until_pause(), ["green 6 2"], "and takes it with it, and what was allocated");
    running.go();
    running.until_pause();
    assert_eq!(stage.held(), 0);
    running.kill();
    let none = Stage::new(Limits { context: 65 * MIB, ..memory_limits() });
    assert_eq!(start(&none, &["green"]).end(), ["green 0 2"]);
}

#[test]
fn what_contexts_take_for_themselves() {
    let stage = Stage::new(memory_limits());
    let mut running = start(&stage, &["heap"]);
    assert_eq!(running.until_pause(), ["heap 64 2"]);
    assert_eq!(stage.held(), LIMIT);
    running.go();
    running.until_pause();
    assert_eq!(stage.held(), 0, "it was lowered again");
    running.go();
    assert_eq!(running.end(), ["stack 0 2"], "stacks of all threads are more than the limit");
}

#[test]
fn memory_that_is_bound_to_arrays() {
    let stage = Stage::new(memory_limits());
    let mut running = start(&stage, &["sparse"]);
    assert_eq!(running.until_pause(), ["sparse 8 2"], "the array itself takes nothing");
    assert_eq!(stage.held(), LIMIT - 8 * MIB, "one piece was taken away again");
    running.go();
    running.until_pause();
    assert_eq!(stage.held(), 0, "the array is gone");
    running.kill();
}

#[test]
fn memory_that_is_bound_to_multicast_objects() {
    for way in ["multicast", "multicast-of-device"] {
        let stage = Stage::new(memory_limits());
        let mut running = start(&stage, &[way]);
        assert_eq!(running.until_pause(), ["multicast 8 2"], "{way}");
        assert_eq!(stage.held(), LIMIT - 8 * MIB, "{way}: one piece was unbound");
        running.go();
        running.until_pause();
        assert_eq!(stage.held(), 0, "{way}: the object is gone");
        running.kill();
    }
}

#[test]
fn pools_that_end_before_what_is_in_them() {
    let stage = Stage::new(memory_limits());
    let mut running = start(&stage, &["pool", "pool"]);
    assert_eq!(running.until_pause(), ["pool 8 2"]);
    running.go();
    running.until_pause();
    assert_eq!(stage.held(), LIMIT, "nobody can see when it is freed");
    running.go();
    assert_eq!(running.until_pause(), ["pool 0 2"]);
    running.kill();
}

#[test]
fn pools_that_grow_although_they_have_room() {
    let stage = Stage::new(memory_limits());
    let mut command = stage.command(&programs().join("rare"));
    command.arg("pieces").env("CARVE_SIM_CUDA_FAULT", "pools-in-pieces");
    let mut running = Running::start(command);
    let told = running.until_pause();
    let number = |line: usize, word| told[line].split(' ').nth(word).unwrap().parse::<u64>().unwrap();
    let (reserved, plain) = (number(0, 1), number(1, 1) * 8 * MIB);
    assert_eq!((number(0, 2), number(1, 2)), (2, 2), "{told:?}");
    assert_eq!(reserved + plain, stage.held(), "all that the pool has is counted: {told:?}");
    assert!(stage.held() <= LIMIT, "{told:?}");
    running.kill();
}

#[test]
fn what_a_full_pool_grew_by_goes_back_when_that_is_refused() {
    let stage = Stage::new(memory_limits());
    let mut command = stage.command(&programs().join("rare"));
    command.arg("gaps").env("CARVE_SIM_CUDA_FAULT", "pools-in-pieces");
    let mut running = Running::start(command);
    assert_eq!(running.until_pause(), ["gaps 64 2", "most 68 0"], "nobody sees before that it is in pieces");
    assert_eq!(stage.held(), LIMIT, "what it has");
    running.kill();
}

#[test]
fn a_pool_counts_on_its_own_device() {
    let (stage, machine) = (Stage::new(memory_limits()), "h200-141gb:2");
    stage.on_machine(machine);
    let mut command = stage.command(&programs().join("rare"));
    command.args(["pool-of-other", "pool"]).env("CARVE_SIM_MACHINE", machine);
    let mut running = Running::start(command);
    assert_eq!(running.until_pause(), ["pool 12 0"], "the other one is not limited");
    assert_eq!(stage.held(), 0);
    running.go();
    running.until_pause();
    running.go();
    assert_eq!(running.until_pause(), ["pool 8 2"]);
    running.kill();
}

#[test]
fn graphs_that_are_made_ready() {
    let stage = Stage::new(memory_limits());
    let mut running = start(&stage, &["upload"]);
    let told = running.until_pause();
    assert_eq!(told[0], "upload 0 2", "it would be too much");
    let ways: Vec<String> = (0..7).map(|way| format!("instantiate {way} 2")).collect();
    assert_eq!(told[1..], ways, "none of the ways to make another ready goes round the limit");
    assert_eq!(stage.held(), 0);
    running.kill();
}

#[test]
fn memory_of_nodes_that_are_added_in_any_way() {
    for way in 0..4 {
        let stage = Stage::new(memory_limits());
        let mut running = start(&stage, &[&format!("graph-nodes-{way}")]);
        assert_eq!(running.until_pause(), ["graph-nodes 0 2"], "way {way}: it would be too much");
        assert_eq!(stage.held(), 0, "way {way}");
        running.kill();
    }
}

#[test]
fn what_is_captured_in_any_way_is_no_work_yet_and_nothing_of_ours() {
    let stage = Stage::new(Limits { memory: 1 << 30, compute: 2_500, ..memory_limits() });
    let trace = stage.path().join("trace");
    let mut command = stage.command(&programs().join("rare"));
    command.arg("captures").env("CARVE_SIM_TRACE", &trace);
    let mut running = Running::start(command);
    // Twice into a new graph, again into the same, three more into it, into a command list, and into a new one while another can not be ended.
    let expected =
        ["captured 3 0", "captured 3 0", "captured 3 0", "captured 6 0", "captured 6 0", "captured 3 0"];
    assert_eq!(running.until_pause(), expected);
    assert_eq!(stage.region().usage().launches, 6, "what ran between the captures");
    let before = std::fs::read_to_string(&trace).unwrap().len();
    running.go();
    running.until_pause();
    let after = std::fs::read_to_string(&trace).unwrap();
    assert!(after[before..].contains("cuLaunchKernel -> 0"));
    assert!(!after[before..].contains("Captur"), "no capture is taken to go on: {}", &after[before..]);
    running.kill();
}

#[test]
fn launches_on_several_devices_wait_for_their_share() {
    let (stage, machine) =
        (Stage::new(Limits { memory: 1 << 30, compute: 2_500, ..memory_limits() }), "h200-141gb:2");
    stage.on_machine(machine);
    let mut command = stage.command(&programs().join("rare"));
    command.arg("several-devices").env("CARVE_SIM_MACHINE", machine);
    let told = Running::start(command).end();
    held_to_a_quarter(&stage, &told);
}

/// How many pieces of a millisecond ran in how many microseconds; a quarter is the share.
fn held_to_a_quarter(stage: &Stage, told: &[String]) {
    let usage = stage.region().usage();
    assert!(usage.throttled > 0 && usage.launches > 0 && usage.busy > 0, "{told:?} {usage:?}");
    let words: Vec<f64> = told[0].split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    assert!(words[0] * 1_000.0 / words[1] < 0.4, "{told:?}");
}

#[test]
fn launches_in_green_contexts_and_as_cuda_once_had_them_wait_for_their_share() {
    for way in ["green-launches", "old-launches"] {
        let stage = Stage::new(Limits { memory: 1 << 30, compute: 2_500, ..memory_limits() });
        held_to_a_quarter(&stage, &start(&stage, &[way]).end());
    }
}

#[test]
fn more_pools_than_can_be_noted() {
    for (pass, expected) in [(false, "pools 64 2"), (true, "pools 100 0")] {
        let stage = Stage::new(Limits { memory: 8 << 30, pass, ..memory_limits() });
        assert_eq!(start(&stage, &["pools"]).end(), [expected]);
        assert_eq!(stage.region().usage().trouble, Some(Trouble::Ledger), "pass {pass}");
    }
}

#[test]
fn time_that_mps_holds_is_counted_and_not_limited() {
    let stage = Stage::new(Limits { memory: 1 << 30, compute: 2_500, mps: true, ..memory_limits() });
    let lines = stage.run("dlsym", &["open", "saturate:300:1000000"]);
    let usage = stage.region().usage();
    assert_eq!(usage.throttled, 0, "{lines:?}");
    assert!(usage.launches > 0 && usage.busy > 0, "{usage:?}");
    // What is still in the last burst when the process ends is not counted, and nothing counts twice.
    let words: Vec<u64> = lines[1].split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    assert!(usage.busy <= words[0] * 1_300_000, "{lines:?} {usage:?}");
}
