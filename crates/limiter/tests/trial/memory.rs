//! Memory: the limit holds for every kind of it, and what is freed can be had again.

use crate::stage::{LIMIT, MIB, Running, Stage, finish, memory_limits};
use carve_limiter_abi::Limits;
use std::time::{Duration, Instant};

/// What the test program calls kinds of memory, by their numbers.
const KINDS: [&str; 9] =
    ["plain", "pitch", "managed", "async", "from-pool", "created", "array", "array3d", "mipmap"];

#[test]
fn every_kind_of_memory_counts_and_comes_back() {
    for (number, kind) in KINDS.iter().enumerate() {
        let stage = Stage::new(memory_limits());
        let fill = format!("fill:{number}:8388608");
        let mut running =
            stage.start("dlsym", &["open", "pause", &fill, "pause", "free", "pause", &fill, "free"]);
        running.until_pause();
        let before = stage.held();
        running.go();
        assert_eq!(running.until_pause(), [format!("{kind} 8 2")]);
        assert_eq!(stage.held(), LIMIT, "{kind}");
        running.go();
        running.until_pause();
        assert_eq!(stage.held(), before, "{kind} was freed");
        running.go();
        assert_eq!(running.end()[0], format!("{kind} 8 2"), "again");
        assert_eq!(stage.region().usage().denials, 2, "{kind}");
    }
}

#[test]
fn kinds_share_one_limit() {
    let stage = Stage::new(memory_limits());
    let lines = stage.run(
        "dlsym",
        &["open", "fill:0:8388608:2", "fill:2:8388608:2", "fill:5:8388608:2", "fill:6:8388608:1", "fill:0:8388608", "free"],
    );
    assert_eq!(lines[5], "plain 1 2");
}

#[test]
fn random_steps_balance() {
    for (seed, steps) in [(1, 10_000), (2, 3_000), (3, 3_000)] {
        let stage = Stage::new(memory_limits());
        let random = format!("random:{steps}:{seed}");
        let mut running = stage.start("dlsym", &["open", &random, "pause", "fill:0:8388608", "pause"]);
        let lines = running.until_pause();
        assert!(lines[1].starts_with("random "), "{lines:?}");
        assert_eq!(stage.held(), 0, "seed {seed}: {lines:?}");
        running.go();
        assert_eq!(running.until_pause(), ["plain 8 2"]);
        running.kill();
    }
}

#[test]
fn threads_of_one_process_balance() {
    let stage = Stage::new(memory_limits());
    let mut running = stage.start("dlsym", &["open", "threads", "pause"]);
    running.until_pause();
    assert_eq!(stage.held(), 0);
    running.kill();
}

#[test]
fn racing_processes_never_pass_the_limit_and_each_gets_something() {
    let stage = Stage::new(memory_limits());
    let region = stage.region();
    let steps = ["open", "pause", "race:2500", "pause"];
    let mut all: Vec<Running> = (0..16).map(|_| stage.start("dlsym", &steps)).collect();
    for one in &mut all {
        one.until_pause();
    }
    for one in &mut all {
        one.go();
    }
    let (start, mut most) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(2_400) {
        most = most.max(region.usage().held);
        std::thread::yield_now();
    }
    assert!(most <= LIMIT, "{} MiB of {}", most / MIB, LIMIT / MIB);
    assert!(most > LIMIT / 2, "there was no race: {} MiB at most", most / MIB);
    for mut one in all {
        let line = one.until_pause().remove(0);
        let got: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(got > 0, "{line}");
        one.kill();
    }
}

#[test]
fn the_share_is_what_programs_are_told() {
    let stage = Stage::new(memory_limits());
    let lines = stage.run("dlsym", &["open", "info", "total", "fill:0:8388608:3", "info", "free", "info"]);
    let all = format!("info {LIMIT} {LIMIT}");
    assert_eq!(lines[1], all);
    assert_eq!(lines[2], format!("total {LIMIT} 0"));
    assert_eq!(lines[4], format!("info {} {LIMIT}", LIMIT - 24 * MIB));
    assert_eq!(lines[6], all);
}

#[test]
fn a_context_counts_as_long_as_it_is_there() {
    let stage = Stage::new(Limits { context: 16 * MIB, ..memory_limits() });
    let mut running = stage.start(
        "dlsym",
        &["open", "pause", "fill:0:8388608", "free", "reset", "pause", "open", "fill:0:8388608", "pause"],
    );
    running.until_pause();
    assert_eq!(stage.held(), 16 * MIB);
    running.go();
    assert_eq!(running.until_pause()[0], "plain 6 2");
    assert_eq!(stage.held(), 0);
    running.go();
    assert_eq!(running.until_pause(), ["open 0 0", "plain 6 2"]);
    running.kill();
}

#[test]
fn a_context_that_ends_gives_back_all_that_was_in_it() {
    let stage = Stage::new(memory_limits());
    let lines = stage.run(
        "dlsym",
        &["open", "fill:0:8388608", "reset", "open", "fill:0:8388608", "reset", "open", "fill:3:8388608", "reset"],
    );
    assert_eq!([&lines[1], &lines[4], &lines[7]], ["plain 8 2", "plain 8 2", "async 8 2"]);
}

#[test]
fn memory_stays_counted_while_it_is_mapped() {
    let stage = Stage::new(memory_limits());
    let mut running = stage.start("dlsym", &["open", "map-release:0:8388608", "pause"]);
    assert_eq!(running.until_pause()[1], "map-release 8 2");
    assert_eq!(stage.held(), 0, "after it was unmapped");
    running.kill();
}

#[test]
fn a_container_with_no_room_for_a_context_is_told_so() {
    let stage = Stage::new(Limits { context: 65 * MIB, ..memory_limits() });
    assert_eq!(finish(stage.program("dlsym", &["try-open"])), ["open 2 0"]);
    assert_eq!(stage.held(), 0);
}
