//! What the limiter adds to allocating and freeing: nanoseconds for a pair, with and without it, before a driver that does nothing.
#![allow(unsafe_code, reason = "the memory in which use is counted is mapped")]

#[allow(dead_code, reason = "tests need more of it")]
#[path = "../tests/trial/stage.rs"]
mod stage;

use carve_limiter_abi::{Limits, Region};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The one GPU of the driver.
const UUID: &str = "GPU-11111111-1111-1111-1111-111111111111";
const ROUNDS: usize = 7;

fn compile(folder: &Path, source: &str, result: &str, more: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join(source);
    let mut command = Command::new("gcc");
    command.args(["-O2", "-o"]).arg(folder.join(result)).arg(source).args(more);
    assert!(command.status().expect("gcc is there").success());
}

/// Nanoseconds for a pair.
fn measure(folder: &Path, limiter: Option<&Path>, words: &[&str]) -> f64 {
    let mut command = Command::new(folder.join("pairs"));
    command.args(words).env("LD_LIBRARY_PATH", folder).env_remove("LD_PRELOAD");
    if let Some(limiter) = limiter {
        command.env("LD_PRELOAD", limiter);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().parse::<f64>().unwrap() / 1_000.0
}

fn main() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pairs");
    std::fs::create_dir_all(&folder).unwrap();
    compile(&folder, "driver.c", "libcuda.so.1", &["-shared", "-fPIC"]);
    compile(&folder, "pairs.c", "pairs", &["-ldl"]);
    let limits = Limits { memory: 64 << 30, compute: 0, context: 0, burst: false, pass: false, mps: false };
    let stage = stage::Stage::of(UUID, &limits.to_bytes(), &vec![0; Region::SIZE]);
    stage.region().prepare();
    println!("{:>28} {:>8} {:>8} {:>8}   ns for a pair, the best of {ROUNDS}", "", "bare", "limited", "more");
    for (name, words) in [
        ("async, 1 KiB", ["async", "1024", "4000000", "0"]),
        ("async, 1 MiB", ["async", "1048576", "4000000", "0"]),
        ("async, 64 MiB", ["async", "67108864", "1000000", "0"]),
        ("async, 1 KiB, 1000 held", ["async", "1024", "4000000", "1000"]),
        ("plain, 1 KiB", ["plain", "1024", "1000000", "0"]),
        ("plain, 4 MiB", ["plain", "4194304", "1000000", "0"]),
    ] {
        let (mut bare, mut limited) = (f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            bare = bare.min(measure(&folder, None, &words));
            limited = limited.min(measure(&folder, Some(&stage.library()), &words));
        }
        println!("{name:>28} {bare:>8.1} {limited:>8.1} {:>8.1}", limited - bare);
    }
}
