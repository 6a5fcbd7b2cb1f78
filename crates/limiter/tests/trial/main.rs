//! Programs under the limiter, on simulated GPUs: every way to the driver, every kind of memory, crashes, forks, and what must not change.
#![allow(unsafe_code, reason = "the memory in which use is counted is mapped")]

mod crashes;
mod faults;
mod graphs;
mod hooks;
mod innocence;
mod memory;
mod object;
mod processes;
mod rare;
mod stage;
mod ways;
