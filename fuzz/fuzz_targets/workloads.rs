//! No text makes the reader of manifests panic, and what it leaves out it says.
#![no_main]

use carve_formats::workloads::{MOST_FINDINGS, Source, read};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let read = read(&[Source { name: "fuzz", text }]);
    assert!(read.findings.len() <= MOST_FINDINGS + 1);
    assert!(read.workloads.iter().all(|workload| workload.pod.gpus.iter().all(|ask| ask.count > 0)));
});
