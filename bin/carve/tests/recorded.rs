//! What carve printed on a real H200 (driver 580.159.04, MIG off), held against the simulated one.

use std::path::Path;
use std::process::Command;

fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
    std::fs::read_to_string(path).expect("the recording")
}

fn simulated(arguments: &[&str]) -> String {
    let state = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_carve"))
        .args(["--machine", "h200", "--state-dir"])
        .arg(state.path())
        .args(arguments)
        .env_remove("CARVE_NVML")
        .output()
        .expect("carve runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_simulated_h200_has_the_profiles_of_the_real_one() {
    // The evidence differs, and must: one was reported by its own driver, the other carried over from a measurement.
    let real = recorded("h200-profiles.json").replace("\"reported\"", "\"measured\"");
    assert_eq!(simulated(&["mig", "profiles", "-o", "json"]), real);
}

#[test]
fn the_simulated_h200_lists_as_the_real_one_but_for_its_identity() {
    let own = ["\"simulated\"", "\"uuid\"", "\"pciAddress\""];
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !own.iter().any(|key| line.contains(key))).map(str::to_owned).collect()
    };
    assert_eq!(lines(&simulated(&["gpus", "-o", "json"])), lines(&recorded("h200-gpus.json")));
}
