//! Settings of the card that a study changes, and puts back.

use crate::machine::{Machine, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

#[test]
fn mig_is_used_where_it_may_be_and_is_off_again_afterwards() {
    let machine = Machine::with_short_windows();
    let before = machine.gpu();
    // What was skipped is tried again now that it is allowed.
    assert!(machine.outcome("light/mig/2").is_some_and(|outcome| outcome["skipped"].is_string()));
    let cells =
        ["light/mig/2", "light/mig-time-slicing/2", "light/mig-mps/2", "light/time-slicing/2", "fault/mig"];
    for (cell, outcome) in cells.iter().zip(machine.outcomes(&cells, &["--change-settings"])) {
        assert!(outcome["measured"].is_object(), "{cell}: {outcome}");
    }
    assert_eq!(machine.outcome("fault/mig").expect("an outcome")["measured"]["happened"]["survived"], true);
    assert_eq!(machine.gpu(), before);

    // Neither does an interrupt leave it cut.
    machine.change_study(|study| {
        study["timing"]["window"] = json!(600.0);
        study["cells"] = json!([]);
    });
    let child = machine.start(&["--resume", "--change-settings", "--cells", "light/mig/2"]);
    until("tenants", || machine.tenants() == 2);
    assert_ne!(machine.gpu(), before, "it is cut while tenants are there");
    kill_process(Pid::from_child(&child), Signal::INT).expect("a signal");
    let told = Machine::wait(child);
    assert!(told.ended_well && !told.words.contains("warning"), "{}", told.words);
    assert_eq!(machine.gpu(), before);
}

#[test]
fn turns_are_set_and_are_the_drivers_own_again() {
    let machine = Machine::with_short_windows();
    let cells = ["light/time-slicing-short/2", "light/time-slicing-long/2"];
    for (cell, outcome) in cells.iter().zip(machine.outcomes(&cells, &["--change-settings"])) {
        assert!(outcome["measured"].is_object(), "{cell}: {outcome}");
    }
    assert_eq!(machine.turns().as_deref(), Some("0"));
}

#[test]
fn what_a_killed_run_had_cut_is_put_back_by_the_next() {
    let machine = Machine::with_short_windows();
    let before = machine.gpu();
    machine.change_study(|study| {
        study["timing"] = json!({"warm_up": 0.05, "window": 0.5, "windows": 1000, "passes": 1});
        study["cells"] = json!([]);
    });
    let mut child = machine.start(&["--resume", "--change-settings", "--cells", "light/mig/2"]);
    until("tenants", || machine.tenants() == 2);
    kill_process(Pid::from_child(&child), Signal::KILL).expect("a signal");
    child.wait().expect("its end");
    until("tenants end", || machine.tenants() == 0);
    assert_ne!(machine.gpu(), before, "it is cut still");

    let next = machine.bench(&["--resume", "--cells", "light/mig-mps/2"]);
    assert!(next.ended_well && next.words.contains("MIG is as it was"), "{}", next.words);
    assert_eq!(machine.gpu(), before);
    assert_eq!(machine.left_behind(), Vec::<String>::new());
}
