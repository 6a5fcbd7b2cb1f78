//! Builds the shared object that processes load to be limited.

use crate::root;
use crate::run::{BUILD_FOLDER, cargo, is_ci, run};
use anyhow::{Context, Result, bail};
use carve_lab::{Places, debian_package};
use std::path::{Path, PathBuf};

/// Where it is built.
const FOLDER: &str = "target/limiter";

/// Builds it, and says where it is.
pub(crate) fn build() -> Result<PathBuf> {
    build_into(FOLDER, &[])
}

/// Where it is once it was built.
pub(crate) fn built() -> PathBuf {
    library(&root().join(FOLDER))
}

fn library(folder: &Path) -> PathBuf {
    folder.join("release").join(LIBRARY)
}

/// Builds also one that ends processes at the points that a test names. It has a folder of its own, so that it is never taken for the other.
pub(crate) fn build_both() -> Result<PathBuf> {
    build_into("target/limiter-faults", &["--features", "fault-points"])?;
    build()
}

/// What it is called.
pub(crate) const LIBRARY: &str = "libcarve_limiter.so";

/// What of the workspace it is made of, for `cargo rustc`.
pub(crate) const CARGO: [&str; 7] =
    ["--quiet", "--package", "carve-limiter", "--lib", "--release", "--crate-type", "cdylib"];

/// Without what programs start with, so that it asks no version of the C library for anything; and never unloaded, for programs keep
/// addresses of its functions.
pub(crate) const RUSTC: [&str; 8] = [
    "--cfg",
    "carve_export",
    "-C",
    "link-arg=-nostartfiles",
    "-C",
    "link-arg=-Wl,-z,nodelete",
    "-C",
    "link-arg=-Wl,-soname,libcarve_limiter.so",
];

fn build_into(folder: &str, more: &[&str]) -> Result<PathBuf> {
    let folder = root().join(folder);
    let mut command = cargo();
    // Both would take turns in a folder that others share.
    command.env_remove(BUILD_FOLDER);
    command.arg("rustc").args(CARGO).args(more).arg("--target-dir").arg(&folder);
    run(command.arg("--").args(RUSTC))?;
    Ok(library(&folder))
}

/// Another allocator that programs load before everything else, for the test that both get on. Bookworm's, because later ones need a newer C
/// library.
const ALLOCATOR: (&str, &str, &str) = ("bookworm", "libjemalloc2", "lib/x86_64-linux-gnu/libjemalloc.so.2");

/// Fetches it. Where that is not possible the test is skipped, and CI must not skip.
pub(crate) fn allocator() -> Result<Option<PathBuf>> {
    let (suite, package, library) = ALLOCATOR;
    let fetched = debian_package(&Places::usual(), suite, package).and_then(|folder| {
        let path = folder.join(library);
        if path.exists() { Ok(path) } else { bail!("{} is not in the package {package}", path.display()) }
    });
    match fetched {
        Ok(path) => Ok(Some(path)),
        Err(error) if is_ci() => {
            Err(error).context("the limiter is tested beside jemalloc, and CI must not skip")
        }
        Err(error) => {
            eprintln!("SKIPPED: the limiter beside jemalloc: {error:#}");
            Ok(None)
        }
    }
}
