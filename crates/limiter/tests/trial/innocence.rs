//! What the limiter must not change: programs that have nothing to do with CUDA, and what a process is.

use crate::stage::{Stage, finish, memory_limits, on_simulated_gpu, programs};
use carve_limiter_abi::{Limits, Region};
use std::process::Command;

/// What a shell tells about itself: umask, signals, environment, open files, working folder.
const ABOUT: &str = "umask; trap; grep -E 'Sig(Blk|Ign|Cgt)|Threads|NoNewPrivs' /proc/self/status; env | grep -v -E '^(LD_PRELOAD|_)='; pwd; ls /proc/self/fd | wc -l";

#[test]
fn a_process_stays_what_it_is() {
    let stage = Stage::new(memory_limits());
    let told = |mut command: Command| {
        finish({
            command.args(["-c", ABOUT]);
            command
        })
    };
    assert_eq!(told(stage.command("sh".as_ref())), told(on_simulated_gpu("sh".as_ref())));
    assert_eq!(stage.region().usage().processes, 0, "who does not use CUDA takes no slot");
}

fn runs_quietly(stage: &Stage, why: &str) {
    for arguments in [&["sh", "-c", "true"][..], &["ls", "/"], &["true"]] {
        let mut command = stage.command(arguments[0].as_ref());
        let limited = command.args(&arguments[1..]).output().unwrap();
        let bare = Command::new(arguments[0]).args(&arguments[1..]).output().unwrap();
        assert_eq!(limited, bare, "{why}: {arguments:?}");
    }
}

/// How a CUDA program fares that takes 16 blocks of 8 MiB.
fn fares(stage: &Stage) -> Vec<String> {
    finish(stage.program("dlsym", &["try-open", "fill:0:8388608:16"]))
}

#[test]
fn without_limits_everything_runs() {
    let stage = Stage::new(memory_limits());
    std::fs::remove_dir_all(stage.path().join("limits")).unwrap();
    std::fs::remove_dir_all(stage.path().join("usage")).unwrap();
    runs_quietly(&stage, "no limits");
    assert_eq!(fares(&stage), ["open 0 0", "plain 16 0"]);
}

#[test]
fn limits_that_a_later_agent_wrote_are_held() {
    let stage = Stage::new(memory_limits());
    let mut later = memory_limits().to_bytes().to_vec();
    later[8..12].copy_from_slice(&7u32.to_le_bytes());
    later[12..16].copy_from_slice(&192u32.to_le_bytes());
    later.extend([0xff; 64]);
    std::fs::write(stage.file("limits"), later).unwrap();
    runs_quietly(&stage, "later limits");
    assert_eq!(fares(&stage), ["open 0 0", "plain 8 2"]);
}

#[test]
fn where_use_can_not_be_counted_cuda_is_refused_unless_it_may_pass() {
    let usage = [vec![0; Region::SIZE], b"another file".to_vec(), Vec::new()];
    for usage in usage {
        for (pass, expected) in [(false, &["open 800 0"][..]), (true, &["open 0 0", "plain 16 0"])] {
            let stage = Stage::with_files(&Limits { pass, ..memory_limits() }.to_bytes(), &usage);
            runs_quietly(&stage, "no usage");
            let steps = ["try-open", "fill:0:8388608:16"];
            let lines = finish(stage.program("dlsym", &steps[..expected.len()]));
            assert_eq!(lines, expected, "{} bytes, pass {pass}", usage.len());
        }
    }
}

#[test]
fn limits_that_can_not_be_read_refuse_cuda_and_disturb_nobody_else() {
    let whole = memory_limits().to_bytes();
    for length in [0, 7, 40, 127] {
        let stage = Stage::with_files(&whole[..length], &vec![0; Region::SIZE]);
        stage.region().prepare();
        runs_quietly(&stage, "limits that are cut off");
        assert_eq!(finish(stage.program("dlsym", &["try-open"])), ["open 800 0"], "{length} bytes");
    }
}

#[test]
fn it_can_be_asked_for_without_a_driver() {
    let stage = Stage::new(memory_limits());
    let mut command = stage.command(&programs().join("program"));
    command.args(["dlsym", "try-open"]).env("LD_LIBRARY_PATH", stage.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("libcuda.so.1"), "as without the limiter");
}
