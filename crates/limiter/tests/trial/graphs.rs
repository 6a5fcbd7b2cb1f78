//! Memory of graphs: a launch that could pass the limit is refused before the driver is asked, and what is counted is what the driver has.

use crate::stage::{LIMIT, MIB, Running, Stage, finish, memory_limits, programs};
use std::process::Command;

/// What the driver takes at a time for graphs.
const STEP: u64 = 32;

fn command(stage: &Stage, steps: &[&str]) -> Command {
    let mut command = stage.command(&programs().join("graphs"));
    command.args(steps).env("CARVE_SIM_TRACE", stage.path().join("trace"));
    command
}

fn run(stage: &Stage, steps: &[&str]) -> Vec<String> {
    finish(command(stage, steps))
}

/// How often the driver itself was asked for something, and did it.
fn calls(stage: &Stage, name: &str) -> usize {
    let record = std::fs::read_to_string(stage.path().join("trace")).unwrap();
    record.lines().filter(|line| *line == format!("{name} -> 0")).count()
}

#[test]
fn a_launch_that_could_pass_the_limit_is_refused_and_nothing_is_taken() {
    for way in ["captured:12:8", "nodes:3:30:0", "child:3:30", "captured:1:65"] {
        let stage = Stage::new(memory_limits());
        let mut running =
            Running::start(command(&stage, &[way, "launch:0", "upload:0", "level", "plain:64", "pause"]));
        let told = running.until_pause();
        assert_eq!(told[1..], ["launch 0 2", "upload 2 0", "level 0 0", "plain 0 0"], "{way}");
        assert_eq!((calls(&stage, "cuGraphLaunch"), calls(&stage, "cuGraphUpload")), (0, 0), "{way}");
        assert_eq!((stage.held(), stage.region().usage().denials), (LIMIT, 2), "{way}");
        running.kill();
    }
}

#[test]
fn a_graph_costs_once_however_often_it_is_launched() {
    for way in ["captured:2:8", "nodes:2:8:0", "child:2:8"] {
        let stage = Stage::new(memory_limits());
        let steps =
            [way, "launch:0:50", "upload:0", "launch:0:50", "level", "pause", "trim", "pause", "plain:64"];
        let mut running = Running::start(command(&stage, &steps));
        assert_eq!(
            running.until_pause()[1..],
            ["launch 50 0", "upload 0 0", "launch 50 0", "level 32 32"],
            "{way}"
        );
        assert_eq!(stage.held(), STEP * MIB, "{way}");
        running.go();
        running.until_pause();
        assert_eq!(stage.held(), 0, "{way}");
        running.go();
        assert_eq!(running.end(), ["plain 0 0"], "{way}");
    }
}

#[test]
fn graphs_share_the_limit_with_each_other_and_with_all_else() {
    let stage = Stage::new(memory_limits());
    // What the first keeps is in use, so the second needs as much of its own, and then nothing is left.
    let told = run(&stage, &["kept:30", "captured:1:30", "launch:0", "launch:1:9", "plain:2", "level"]);
    assert_eq!(told[2..], ["launch 1 0", "launch 9 0", "plain 2 0", "level 64 64"]);
    let stage = Stage::new(memory_limits());
    let told = run(&stage, &["kept:30", "captured:1:40", "launch:0", "launch:1:9", "level"]);
    assert_eq!(told[2..], ["launch 1 0", "launch 0 2", "level 32 32"]);
    let stage = Stage::new(memory_limits());
    let told = run(&stage, &["plain:40", "captured:1:8", "launch:0", "level", "plain:24"]);
    assert_eq!(told[2..], ["launch 0 2", "level 0 0", "plain 0 0"], "it could take a whole step");
}

#[test]
fn one_that_is_in_a_graph_by_a_captured_launch_counts() {
    let stage = Stage::new(memory_limits());
    let told = run(&stage, &["captured:9:8", "nested:0", "launch:1", "level"]);
    assert_eq!(told[1..], ["nested 0 0", "launch 0 2", "level 0 0"]);
    assert_eq!(calls(&stage, "cuGraphLaunch"), 1, "the one in the capture");
}

#[test]
fn what_is_uploaded_when_it_is_made_ready_is_reserved_before() {
    let stage = Stage::new(memory_limits());
    let mut running = Running::start(command(
        &stage,
        &["uploaded:1:65", "level", "uploaded:1:30", "launch:0", "level", "pause"],
    ));
    let told = running.until_pause();
    assert_eq!(told, ["uploaded 2 0", "level 0 0", "uploaded 0 0", "launch 1 0", "level 32 32"]);
    assert_eq!(calls(&stage, "cuGraphInstantiateWithFlags"), 1);
    assert_eq!(stage.held(), STEP * MIB);
    running.kill();
}

#[test]
fn before_a_launch_is_refused_graphs_give_back_what_they_do_not_use() {
    let stage = Stage::new(memory_limits());
    let told =
        run(&stage, &["captured:1:60", "captured:1:50", "launch:0:3", "launch:1:3", "launch:0:3", "level"]);
    assert_eq!(told[2..], ["launch 3 0", "launch 3 0", "launch 3 0", "level 64 64"]);
}

#[test]
fn what_ended_graphs_have_left_counts_until_it_is_freed_and_trimmed() {
    let stage = Stage::new(memory_limits());
    let steps = [
        "kept:30",
        "launch:0",
        "end:0",
        "plain:40",
        "captured:1:40",
        "launch:0",
        "free-kept",
        "trim",
        "pause",
        "plain:64",
    ];
    let mut running = Running::start(command(&stage, &steps));
    let told = running.until_pause();
    assert_eq!(
        told[1..],
        ["launch 1 0", "end 0 0", "plain 2 0", "captured 0 0", "launch 0 1", "free-kept 0 0", "trim 0 0"]
    );
    assert_eq!(stage.held(), 0);
    running.go();
    assert_eq!(running.end(), ["plain 0 0"]);
}

#[test]
fn a_launch_that_the_driver_refuses_costs_nothing() {
    let stage = Stage::new(memory_limits());
    let mut command =
        command(&stage, &["captured:1:20", "launch:0", "pause", "launch:0:2", "level", "pause"]);
    command.env("CARVE_SIM_CUDA_FAULT", "alloc-fails:1");
    let mut running = Running::start(command);
    assert_eq!(running.until_pause()[1], "launch 0 2");
    assert_eq!((stage.held(), stage.region().usage().denials), (0, 0));
    running.go();
    assert_eq!(running.until_pause(), ["launch 2 0", "level 32 32"]);
    assert_eq!(stage.held(), STEP * MIB);
    running.kill();
}

#[test]
fn threads_that_launch_at_once_never_pass_the_limit() {
    // Each of them would fit twice; that of all eight does not at once.
    for bytes in [20, 40] {
        let stage = Stage::new(memory_limits());
        let mut running = Running::start(command(
            &stage,
            &[&format!("threads:{bytes}"), "level", "pause", "trim", "pause"],
        ));
        let told = running.until_pause();
        let number =
            |line: usize, word: usize| told[line].split(' ').nth(word).unwrap().parse::<u64>().unwrap();
        assert!(number(0, 1) > 0 && number(1, 2) * MIB <= LIMIT, "{told:?}");
        assert_eq!(stage.held(), number(1, 1) * MIB, "{told:?}");
        running.go();
        running.until_pause();
        assert_eq!(stage.held(), 0);
        running.kill();
    }
}

#[test]
fn processes_that_launch_at_once_share_the_limit() {
    let stage = Stage::new(memory_limits());
    let steps = ["kept:20", "pause", "launch:0", "pause"];
    let mut all: Vec<Running> = (0..6).map(|_| Running::start(command(&stage, &steps))).collect();
    all.iter_mut().for_each(|one| drop(one.until_pause()));
    all.iter_mut().for_each(Running::go);
    let told: Vec<String> = all.iter_mut().flat_map(Running::until_pause).collect();
    assert_eq!(told.iter().filter(|line| *line == "launch 1 0").count(), 2, "{told:?}");
    assert_eq!(told.iter().filter(|line| *line == "launch 0 2").count(), 4, "{told:?}");
    assert_eq!(stage.held(), LIMIT);
    all.into_iter().for_each(Running::kill);
}

#[test]
fn the_device_of_a_node_is_the_one_that_pays() {
    // The second GPU is nobody's share, and the first is full.
    let machine = "h200-141gb:2";
    let stage = Stage::new(memory_limits());
    stage.on_machine(machine);
    let steps = ["plain:60", "nodes:1:200:1", "launch:0:3", "nodes:1:8:0", "launch:1"];
    let mut command = command(&stage, &steps);
    command.env("CARVE_SIM_MACHINE", machine);
    assert_eq!(finish(command)[1..], ["nodes 0 0", "launch 3 0", "nodes 0 0", "launch 0 2"]);
}

#[test]
fn a_context_that_ends_takes_the_memory_of_its_graphs_along() {
    let stage = Stage::new(memory_limits());
    assert_eq!(
        run(&stage, &["kept:60", "launch:0", "plain:8", "reset", "plain:64"])[1..],
        ["launch 1 0", "plain 2 0", "reset 0 0", "plain 0 0"]
    );
}

#[test]
fn what_nodes_do_not_tell_counts_after_the_first_launch() {
    for way in ["captured:12:8", "child:12:8"] {
        let stage = Stage::new(memory_limits());
        let mut command = command(&stage, &[way, "launch:0:5", "pause", "trim", "launch:0:5", "pause"]);
        command.env("CARVE_SIM_CUDA_FAULT", "nodes-untold");
        let mut running = Running::start(command);
        assert_eq!(running.until_pause()[1], "launch 1 2", "{way}: nobody could know it before");
        assert_eq!(stage.held(), 96 * MIB, "{way}");
        running.go();
        assert_eq!(running.until_pause(), ["trim 0 0", "launch 1 2"], "{way}");
        running.kill();
    }
}
