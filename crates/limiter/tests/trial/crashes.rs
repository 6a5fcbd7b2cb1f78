//! Processes that are killed at any moment leave nothing that others would have to do without.

use crate::stage::{Stage, memory_limits};
use std::time::Duration;

#[test]
fn whoever_is_killed_leaves_the_whole_limit_to_the_next() {
    let stage = Stage::new(memory_limits());
    // A bystander keeps the first slot, so the dead are not simply followed in theirs.
    let mut bystander = stage.start("dlsym", &["open", "pause", "fill:0:8388608", "free", "pause"]);
    bystander.until_pause();
    for turn in 0..50u64 {
        let mut running = stage.start("dlsym", &["open", "churn"]);
        running.line();
        assert_eq!(running.line(), "churn 0 0");
        std::thread::sleep(Duration::from_micros(turn * 7919 % 20_000));
        running.kill();
        if turn % 10 == 9 {
            assert_eq!(stage.run("dlsym", &["open", "fill:0:8388608"])[1], "plain 8 2", "turn {turn}");
        }
    }
    bystander.go();
    assert_eq!(bystander.until_pause()[0], "plain 8 2", "to one that was there before, too");
    bystander.kill();
}
