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
    let stage = Stage::new(memory_limits());
    let mut running = start(&stage, &["multicast"]);
    assert_eq!(running.until_pause(), ["multicast 8 2"]);
    assert_eq!(stage.held(), LIMIT - 8 * MIB, "one piece was unbound");
    running.go();
    running.until_pause();
    assert_eq!(stage.held(), 0, "the object is gone");
    running.kill();
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
    assert_eq!(told, ["upload 1 2", "instantiate 0 2"], "only the first upload shows what it takes");
    assert_eq!(stage.held(), 96 * MIB);
    running.kill();
}

#[test]
fn launches_in_green_contexts_and_as_cuda_once_had_them_wait_for_their_share() {
    for way in ["green-launches", "old-launches"] {
        let stage = Stage::new(Limits { memory: 1 << 30, compute: 2_500, ..memory_limits() });
        let told = start(&stage, &[way]).end();
        let usage = stage.region().usage();
        assert!(usage.throttled > 0 && usage.launches > 0 && usage.busy > 0, "{told:?} {usage:?}");
        // How many pieces of a millisecond ran in how many microseconds; a quarter is the share.
        let words: Vec<f64> = told[0].split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
        assert!(words[0] * 1_000.0 / words[1] < 0.4, "{told:?}");
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
