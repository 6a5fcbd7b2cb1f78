//! Percentiles, sizes, and one line of the table.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// One measured thing: carve's figure, NVIDIA's, and how many times NVIDIA's is larger.
#[derive(Debug)]
pub(crate) struct Line {
    title: String,
    unit: &'static str,
    ours: f64,
    theirs: f64,
}

impl Line {
    pub(crate) fn new(title: impl Into<String>, unit: &'static str, ours: f64, theirs: f64) -> Self {
        Line { title: title.into(), unit, ours, theirs }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { title, unit, ours, theirs } = self;
        write!(f, "{title:<52} {ours:>8.2} {unit:<3} {theirs:>8.2} {unit:<3} {:>7.2} ×", theirs / ours)
    }
}

/// The time that so many percent stay under.
pub(crate) fn percentile(mut times: Vec<Duration>, percent: usize) -> Duration {
    times.sort();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

/// A field of `/proc/PID/status`, in KiB.
pub(crate) fn status_kib(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok()).expect("the kernel tells the field")
}

/// The size of a program without symbols, in KiB: NVIDIA ships its programs so.
pub(crate) fn program_kib(path: &Path) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let bare = folder.path().join("program");
    let status =
        Command::new("strip").arg("-s").arg("-o").args([bare.as_path(), path]).status().expect("strip runs");
    assert!(status.success(), "strip {}", path.display());
    std::fs::metadata(&bare).expect("the file is there").len() / 1_024
}
