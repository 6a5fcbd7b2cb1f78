//! Builds the shared object that processes load to be limited.

use crate::root;
use crate::run::{cargo, run};
use anyhow::Result;
use std::path::PathBuf;

/// Builds it, and says where it is.
pub(crate) fn build() -> Result<PathBuf> {
    let folder = root().join("target/limiter");
    let mut command = cargo();
    command.args([
        "rustc",
        "--quiet",
        "--package",
        "carve-limiter",
        "--lib",
        "--release",
        "--crate-type",
        "cdylib",
    ]);
    command.arg("--target-dir").arg(&folder);
    // Without what programs start with, so that it asks no version of the C library for anything; and never unloaded, for programs keep
    // addresses of its functions.
    command.args([
        "--",
        "--cfg",
        "carve_export",
        "-C",
        "link-arg=-nostartfiles",
        "-C",
        "link-arg=-Wl,-z,nodelete",
    ]);
    command.args(["-C", "link-arg=-Wl,-soname,libcarve_limiter.so"]);
    run(&mut command)?;
    Ok(folder.join("release/libcarve_limiter.so"))
}
