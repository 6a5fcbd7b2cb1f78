//! Finds what this crate builds, building it first so that a test never runs against an old one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The simulated `libnvidia-ml.so.1`.
#[allow(dead_code, reason = "not every test that includes this file needs both")]
pub(crate) fn library() -> PathBuf {
    folder().join("libcarve_nvml_sim.so")
}

/// The stand-in for `nvidia-smi`.
#[allow(dead_code, reason = "not every test that includes this file needs both")]
pub(crate) fn nvidia_smi() -> PathBuf {
    folder().join("nvidia-smi")
}

/// Tells child processes of a test that everything is built already.
#[allow(dead_code, reason = "not every test that includes this file has children")]
pub(crate) const BUILT: &str = "CARVE_TEST_NVML_SIM_IS_BUILT";

/// Where the test command has built the whole workspace. Tests run beside each other there, and cargo, asked for one package alone, would
/// replace what others are running by one with other features.
const ALL_BUILT: &str = "CARVE_TEST_ALL_IS_BUILT";

fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| package("carve-nvml-sim"))
}

/// Builds a package and answers where its artefacts are: `target/<profile>`, two steps up from the test executable
/// `target/<profile>/deps/NAME`.
#[allow(dead_code, reason = "not every test that includes this file needs another package")]
pub(crate) fn package(name: &str) -> PathBuf {
    build(&["--package", name])
}

/// Builds an example of a package and answers where it is.
#[allow(dead_code, reason = "not every test that includes this file needs an example")]
pub(crate) fn example(package: &str, name: &str) -> PathBuf {
    build(&["--package", package, "--example", name]).join("examples").join(name)
}

fn build(what: &[&str]) -> PathBuf {
    let executable = std::env::current_exe().expect("a test knows its own executable");
    let folder = executable.ancestors().nth(2).expect("tests live in target/<profile>/deps").to_owned();
    if let Some(all) = std::env::var_os(ALL_BUILT) {
        return all.into();
    }
    if std::env::var_os(BUILT).is_some() {
        return folder;
    }
    // Benchmarks are built with their own profile into the folder of the release profile.
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let target = folder.parent().expect("target/<profile> has a parent");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", profile])
        .args(what)
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "{what:?} does not build");
    folder
}
