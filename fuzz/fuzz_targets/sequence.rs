//! No text makes the reader of arrival sequences panic, and what it accepts stays within its trace.
#![no_main]

use carve_simulator::{arrivals, readers};

const TRACE: &str = r#"{"nodes": [{"name": "a", "gpus": 1}, {"name": "b", "gpus": 2}], "pods": [{"name": "p", "gpus": 1}, {"name": "q", "gpu": 0.5}]}"#;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(trace) = readers::trace(TRACE) else { return };
    for sequence in arrivals::read(text, &trace).into_iter().flatten() {
        assert!(sequence.pods.iter().all(|pod| *pod < trace.pods.len()));
        assert_eq!(sequence.nodes.len(), trace.nodes.len());
    }
});
