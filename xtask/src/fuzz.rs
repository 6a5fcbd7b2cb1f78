//! Runs every fuzz target for a bounded number of cases.

use crate::run::{BUILD_FOLDER, is_ci, read, run};
use crate::{cache, root, tools};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

/// Cases per target in the test command: enough to find a careless index, few enough to wait for.
pub(crate) const RUNS: u64 = 10_000;

/// Pinned, so that a test run does not change by itself.
const CARGO_FUZZ: &str = "0.13.2";

/// Runs every target under `fuzz/`.
pub(crate) fn fuzz(runs: u64) -> Result<()> {
    let tool = tools::from_crates("cargo-fuzz", CARGO_FUZZ, &[])?;
    let list = read(Command::new(&tool).args(["fuzz", "list"]).current_dir(root()))?;
    for target in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let seeds = root().join("fuzz/seeds").join(target);
        let corpus = root().join("fuzz/corpus").join(target);
        fs::create_dir_all(&corpus)?;
        // Without a sanitizer the targets build on the pinned stable compiler; coverage still guides them.
        let mut command = Command::new(&tool);
        command.args(["fuzz", "run", "--sanitizer", "none", target]).arg(&corpus);
        if seeds.exists() {
            command.arg(&seeds);
        }
        command.args([
            "--",
            &format!("-runs={runs}"),
            "-seed=1",
            "-max_len=4096",
            "-timeout=10",
            "-verbosity=0",
        ]);
        // Coverage flags are unstable options of the compiler.
        command.env("RUSTC_BOOTSTRAP", "1").current_dir(root());
        if is_ci() {
            command.env(BUILD_FOLDER, cache().join("build-fuzz"));
        }
        run(&mut command).with_context(|| format!("fuzz target {target}"))?;
        eprintln!("{target}: {runs} cases");
    }
    Ok(())
}
