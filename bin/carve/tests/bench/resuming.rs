//! Studies go on where they ended, and are not mixed up.

use crate::machine::Machine;

#[test]
fn what_was_measured_is_not_measured_again() {
    let machine = Machine::with_short_windows();
    let first = machine.outcomes(&["light/dedicated/1"], &[]);
    let told = machine.bench(&["--resume", "--cells", "light/dedicated/1,batch/dedicated/1"]);
    assert!(told.ended_well && told.words.contains("batch/dedicated/1"), "{}", told.words);
    assert!(!told.words.contains("light/dedicated/1"), "{}", told.words);
    assert_eq!(machine.outcome("light/dedicated/1").as_ref(), first.first());
    assert!(machine.outcome("batch/dedicated/1").is_some());

    // Whoever does not say that it goes on might write over it.
    let before = machine.study();
    let refused = machine.bench(&["--quick", "--cells", "overhead"]);
    assert!(!refused.ended_well && refused.words.contains("is there already"), "{}", refused.words);
    assert!(refused.words.contains("--resume") && refused.words.contains("--dir"), "{}", refused.words);
    assert_eq!(machine.study(), before);

    machine.change_study(|study| study["card"]["name"] = "NVIDIA A100-SXM4-40GB".into());
    let before = machine.study();
    let refused = machine.bench(&["--resume", "--cells", "overhead"]);
    assert!(!refused.ended_well, "{}", refused.words);
    assert!(refused.words.contains("of another card (NVIDIA A100-SXM4-40GB)"), "{}", refused.words);
    assert!(refused.words.contains("--dir"), "{}", refused.words);
    assert_eq!(machine.study(), before);
    assert!(machine.left_behind().is_empty());
}

#[test]
fn too_little_time_is_said_and_cells_are_left() {
    let machine = Machine::new();
    let told = machine.bench(&["--quick", "--for", "1s", "--cells", "overhead,light/dedicated/1"]);
    assert!(told.ended_well, "{}", told.words);
    assert!(
        told.words.contains("the time is up") && told.words.contains("2 cells are left"),
        "{}",
        told.words
    );
    assert!(!machine.has_study() && machine.left_behind().is_empty());
}
