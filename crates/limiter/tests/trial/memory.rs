//! Memory: the limit holds for every kind of it, and what is freed can be had again.

use crate::stage::{LIMIT, MIB, Running, Stage, finish, memory_limits};
use carve_limiter_abi::{Limits, Trouble};

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
        &[
            "open",
            "fill:0:8388608:2",
            "fill:2:8388608:2",
            "fill:5:8388608:2",
            "fill:6:8388608:1",
            "fill:0:8388608",
            "free",
        ],
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
fn a_pool_that_threads_share_never_has_more_than_the_limit() {
    // Under a small limit every allocation is looked at; under a large one only some are, so other memory leaves the pool no more than before.
    for (limit, plain) in [(LIMIT, 0), (16 * LIMIT, 15 * LIMIT)] {
        let stage = Stage::new(Limits { memory: limit, ..memory_limits() });
        let fill = format!("fill:0:{}:{}", 8 * MIB, (plain / (8 * MIB)).max(1));
        let first = if plain > 0 { fill.as_str() } else { "info" };
        let mut running =
            stage.start("dlsym", &["open", first, "pool-threads", "info", "pause", "free", "pause"]);
        let told = running.until_pause();
        let [now, most] = [1, 2].map(|word| told[2].split(' ').nth(word).unwrap().parse::<u64>().unwrap());
        assert!(now == stage.held() - plain, "{told:?}, {} counted", stage.held());
        assert!(most <= LIMIT && most > LIMIT / 4, "{told:?}");
        assert!(stage.region().usage().denials > 0, "they never asked for too much");
        running.go();
        running.until_pause();
        assert_eq!(stage.held(), 0);
        running.kill();
    }
}

#[test]
fn racing_processes_never_pass_the_limit_and_each_gets_something() {
    let stage = Stage::new(memory_limits());
    // What all have is counted by the racers themselves: slots that are added up one by one while they change show what never was.
    let counted = stage.path().join("race");
    std::fs::write(&counted, [0; 8]).unwrap();
    let racer = || {
        let mut command = stage.program("dlsym", &["open", "pause", "race:2500", "pause"]);
        command.env("RACE", &counted);
        Running::start(command)
    };
    let mut all: Vec<Running> = (0..16).map(|_| racer()).collect();
    for one in &mut all {
        one.until_pause();
    }
    for one in &mut all {
        one.go();
    }
    let mut most = 0;
    let mut lines = Vec::new();
    for one in &mut all {
        let line = one.until_pause().remove(0);
        let words: Vec<u64> = line.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
        assert!(words[0] > 0, "{line}");
        most = most.max(words[1]);
        lines.push(line);
    }
    assert!(most <= LIMIT, "{} MiB of {}: {lines:?}", most / MIB, LIMIT / MIB);
    assert!(most > LIMIT / 2, "there was no race: {lines:?}");
    let left = u64::from_le_bytes(std::fs::read(&counted).unwrap().try_into().unwrap());
    assert_eq!(stage.held(), left, "now that nobody moves, both counts are the same");
    all.into_iter().for_each(Running::kill);
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

/// Says what the container's processes have beyond what they count, as an agent does.
fn charge(stage: &Stage, bytes: u64) {
    let file = stage.file("limits");
    let uuid = file.parent().and_then(std::path::Path::file_name).and_then(std::ffi::OsStr::to_str).unwrap();
    let share = carve_limiter_host::Share::open(stage.path(), uuid, "share").unwrap();
    share.charge(bytes);
    assert_eq!(share.overhead(), bytes);
}

#[test]
fn overhead_lowers_what_can_be_allocated_from_then_on() {
    let stage = Stage::new(memory_limits());
    let fill = "fill:0:8388608";
    let steps = [
        "open",
        "fill:0:8388608:4",
        "pause",
        fill,
        "info",
        "nvml",
        "pause",
        "info",
        fill,
        "pause",
        "free",
        "pause",
        fill,
        "pause",
    ];
    let mut running = stage.start("dlsym", &steps);
    running.until_pause();
    charge(&stage, 10 * MIB);
    running.go();
    let told = running.until_pause();
    assert_eq!(told[0], "plain 2 2", "22 MiB of 32 are left");
    assert_eq!(told[1..], [format!("info {} {LIMIT}", 6 * MIB), format!("nvml {} {LIMIT}", 6 * MIB)]);
    assert_eq!(stage.held(), 48 * MIB, "and is counted apart");
    // More than the share has: nobody loses anything, and nobody gets anything.
    charge(&stage, 2 * LIMIT);
    running.go();
    assert_eq!(running.until_pause(), [format!("info 0 {LIMIT}"), "plain 0 2".to_owned()]);
    assert_eq!(stage.held(), 48 * MIB);
    running.go();
    running.until_pause();
    charge(&stage, 0);
    running.go();
    assert_eq!(running.until_pause(), ["plain 8 2"], "it is over");
    running.kill();
    // Whoever comes next finds what was said last.
    charge(&stage, 60 * MIB);
    assert_eq!(stage.run("dlsym", &["open", "fill:0:1048576"])[1], "plain 2 2");
}

#[test]
fn a_context_that_ends_gives_back_all_that_was_in_it() {
    let stage = Stage::new(memory_limits());
    let lines = stage.run(
        "dlsym",
        &[
            "open",
            "fill:0:8388608",
            "reset",
            "open",
            "fill:0:8388608",
            "reset",
            "open",
            "fill:3:8388608",
            "reset",
        ],
    );
    assert_eq!([&lines[1], &lines[4], &lines[7]], ["plain 8 2", "plain 8 2", "async 8 2"]);
}

#[test]
fn contexts_that_a_program_makes_and_ends_leave_nothing() {
    let stage = Stage::new(Limits { context: 16 * MIB, ..memory_limits() });
    let mut running = stage.start("dlsym", &["try-open", "contexts:10:8388608", "pause"]);
    assert_eq!(running.until_pause()[1], "contexts 4 2", "beside the primary context and its own");
    assert_eq!(stage.held(), 16 * MIB);
    running.kill();
}

#[test]
fn nvml_tells_the_share() {
    let stage = Stage::new(memory_limits());
    let lines = stage.run("dlsym", &["open", "fill:0:8388608:3", "nvml"]);
    assert_eq!(lines[2], format!("nvml {} {LIMIT}", LIMIT - 24 * MIB));
}

#[test]
fn memory_of_graphs_counts() {
    for way in ["dlsym", "v2-thread"] {
        let stage = Stage::new(memory_limits());
        let steps = [
            "open",
            "graph-memory:2:8388608",
            "pause",
            "graph-memory:12:8388608",
            "fill:0:8388608",
            "free",
            "trim-graphs",
            "pause",
            "fill:0:8388608",
            "pause",
        ];
        let mut running = stage.start(way, &steps);
        assert_eq!(running.until_pause()[1], "graph-memory 5 0", "{way}: there is room for it");
        assert!(stage.held() >= 16 * MIB, "{way}: {}", stage.held());
        running.go();
        let lines = running.until_pause();
        assert_eq!(lines[0], "graph-memory 0 2", "{way}: it would be too much");
        assert_eq!(lines[1], "plain 8 2", "{way}: what the first kept went back before");
        assert_eq!(stage.held(), 0, "{way}");
        running.go();
        assert_eq!(running.until_pause(), ["plain 8 2"], "{way}");
        running.kill();
    }
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

#[test]
fn what_can_not_be_noted_is_refused_unless_it_may_pass() {
    let steps = ["open", "starve", "fill:0:1000:2000", "pause", "free", "pause"];
    let stage = Stage::new(memory_limits());
    let mut running = stage.start("dlsym", &steps);
    let told = running.until_pause();
    let [got, code] = [1, 2].map(|word| told[2].split(' ').nth(word).unwrap().parse::<u64>().unwrap());
    assert!((100..2_000).contains(&got) && code == 2, "{told:?}");
    assert_eq!(stage.region().usage().trouble, Some(Trouble::Ledger));
    assert_eq!(stage.held(), 2 * MIB, "{got} pieces share a block");
    running.go();
    running.until_pause();
    assert_eq!(stage.held(), 0);
    running.kill();

    let stage = Stage::new(Limits { pass: true, ..memory_limits() });
    let mut running = stage.start("dlsym", &steps);
    assert_eq!(running.until_pause()[2], "plain 2000 0");
    assert_eq!(stage.region().usage().trouble, Some(Trouble::Ledger));
    running.go();
    running.until_pause();
    assert_eq!(stage.held(), 0, "what was noted is given back, and no more");
    running.kill();
}

#[test]
fn nothing_is_said_where_everything_is_noted() {
    let stage = Stage::new(memory_limits());
    let mut running = stage.start("dlsym", &["open", "fill:0:1000:2000", "pause"]);
    assert_eq!(running.until_pause()[1], "plain 2000 0");
    assert_eq!(stage.region().usage().trouble, None);
    running.kill();
}
