//! Many processes, children without and with `exec`, and who takes which slot.

use crate::stage::{MIB, Running, Stage, memory_limits, wait_until};

#[test]
fn two_hundred_processes_at_once_have_a_slot_each_and_leave_it() {
    let stage = Stage::new(memory_limits());
    let region = stage.region();
    let steps = ["open", "fill:0:1000:1", "pause"];
    for _ in 0..2 {
        let mut all: Vec<Running> = (0..200).map(|_| stage.start("dlsym", &steps)).collect();
        let mut got = 0;
        for one in &mut all {
            got += u64::from(one.until_pause()[1] == "plain 1 0");
        }
        assert_eq!(region.usage().processes, 200);
        assert_eq!((got, region.usage().held), (32, 64 * MIB), "as many as there is room for");
        for one in all {
            one.kill();
        }
    }
    let last = stage.run("dlsym", &["open", "fill:0:8388608"]);
    assert_eq!(last[1], "plain 8 2");
    assert!(region.usage().processes <= 200, "slots of the dead are used again");
}

#[test]
fn a_child_that_uses_cuda_first_has_a_slot_of_its_own() {
    let stage = Stage::new(memory_limits());
    // Both go on after the fork: first the child, then its parent.
    let lines = stage.run("dlsym", &["fork", "open", "fill:0:8388608", "free"]);
    assert_eq!(
        lines,
        ["open 0 0", "plain 8 2", "free 0 0", "child 0 0", "open 0 0", "plain 8 2", "free 0 0"]
    );
}

#[test]
fn a_parent_goes_on_after_a_fork_and_its_memory_stays_counted() {
    let stage = Stage::new(memory_limits());
    let mut running =
        stage.start("linked", &["open", "fill:0:8388608:4", "fork", "info", "pause", "free", "pause"]);
    let lines = running.until_pause();
    assert_eq!(lines[2], format!("info {} {}", 32 * MIB, 64 * MIB), "the child sees what its parent has");
    assert_eq!(stage.held(), 32 * MIB);
    // The child has the same input: it goes on and ends with it.
    running.go();
    running.until_pause();
    running.kill();
}

#[test]
fn a_process_that_becomes_another_program_begins_anew() {
    let stage = Stage::new(memory_limits());
    let steps = ["open", "fill:0:8388608", "exec:5", "again", "dlsym", "open", "fill:0:8388608", "pause"];
    let mut running = stage.start("dlsym", &steps);
    let lines = running.until_pause();
    assert_eq!(lines[1], "plain 8 2");
    assert_eq!(lines[3], "plain 8 2", "after exec: {lines:?}");
    assert_eq!(stage.region().usage().processes, 1);
    running.kill();
}

#[test]
fn slots_of_processes_that_ended_are_found_free() {
    let stage = Stage::new(memory_limits());
    for _ in 0..5 {
        stage.run("linked", &["open", "fill:0:8388608"]);
    }
    let mut running = stage.start("dlsym", &["open", "pause"]);
    running.until_pause();
    wait_until("one slot", || stage.region().usage().processes == 1);
    running.kill();
}

/// Runs a script where `/proc` is empty; nothing where that needs rights that the test has not.
fn without_proc(command: std::process::Command, script: &str) -> Option<std::process::Output> {
    let rights = ["--map-root-user", "--mount"];
    let possible = std::process::Command::new("unshare")
        .args(rights)
        .args(["mount", "-t", "tmpfs", "none", "/proc"])
        .status();
    if !possible.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut unshare = std::process::Command::new("unshare");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => unshare.env(name, value),
            None => unshare.env_remove(name),
        };
    }
    unshare.args(rights).args(["sh", "-c", &format!("mount -t tmpfs none /proc && {script}")]);
    unshare.arg("sh").arg(command.get_program());
    Some(unshare.output().unwrap())
}

/// Runs a command where nobody else's number means anything; nothing where that needs rights that the test has not.
pub(crate) fn in_other_pid_namespace(command: &std::process::Command) -> Option<std::process::Output> {
    let rights = ["--map-root-user", "--pid", "--fork", "--mount-proc"];
    let possible = std::process::Command::new("unshare").args(rights).arg("true").status();
    if !possible.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut unshare = std::process::Command::new("unshare");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => unshare.env(name, value),
            None => unshare.env_remove(name),
        };
    }
    // Not as its first process, to whom signals of its own do nothing.
    unshare.args(rights).args(["sh", "-c", "\"$@\"; exit $?", "sh"]);
    Some(unshare.arg(command.get_program()).args(command.get_args()).output().unwrap())
}

#[test]
fn whoever_can_not_be_seen_is_not_taken_for_dead() {
    let stage = Stage::new(memory_limits());
    let first = stage.path().join("first");
    let script = format!(
        "{{ sleep 2 | \"$1\" dlsym open fill:0:8388608 pause > {0} & }}; until grep -q pause {0}; do sleep 0.02; done; \"$1\" dlsym open fill:0:8388608",
        first.display()
    );
    let Some(output) = without_proc(stage.program("dlsym", &[]), &script) else {
        eprintln!("SKIPPED: an empty /proc needs the right to mount one");
        return;
    };
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        told.lines().collect::<Vec<_>>(),
        ["open 0 0", "plain 0 2"],
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
