//! No text makes the reader of machine descriptions panic, and what it accepts can be simulated.
#![no_main]

use carve_gpu_host::{GpuHost, Machine, SimulatedHost};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(machine) = Machine::parse(text) {
        assert!(SimulatedHost::new(machine).gpus().is_ok());
    }
});
