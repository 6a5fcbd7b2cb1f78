//! `carve bench` as processes on simulated libraries: cells of every kind, going on, ending early and by force, and a card that is left
//! as it was.

#[path = "../../../../crates/nvml-sim/tests/support/built.rs"]
mod built;
mod cells;
mod endings;
mod machine;
mod resuming;
mod settings;
