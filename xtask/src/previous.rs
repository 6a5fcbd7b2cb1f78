//! The release before this one, built once from its commit into the cache: what people upgrade from.

use crate::run::{cargo, is_ci, read, run};
use crate::{cache, limiter, root};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program, the chart and the limiter's library of the release before; `None` (said aloud) where the repository does not reach back to it.
pub(crate) fn for_tests() -> Result<Option<PathBuf>> {
    let commit = commit()?;
    let known = Command::new("git")
        .args(["cat-file", "-e", &format!("{commit}^{{commit}}")])
        .current_dir(root())
        .stderr(Stdio::null())
        .status();
    if known.is_ok_and(|status| status.success()) {
        return build(&commit).map(Some);
    }
    if is_ci() {
        bail!("the commit {commit} of the release before is not in this repository, and CI must not skip");
    }
    eprintln!(
        "SKIPPED: the upgrade from the release before, whose commit {commit} is not in this repository"
    );
    Ok(None)
}

/// The commit that Cargo.toml names.
fn commit() -> Result<String> {
    let text = read(cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
    let told: Value = serde_json::from_str(&text)?;
    let commit = told["metadata"]["previous-release"]["commit"].as_str();
    Ok(commit.context("Cargo.toml names no previous-release under workspace.metadata")?.to_owned())
}

fn build(commit: &str) -> Result<PathBuf> {
    let folder = cache().join("previous").join(commit);
    if folder.exists() {
        return Ok(folder);
    }
    eprintln!("building the release before, {commit}");
    let new = folder.with_extension("new");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    let source = new.join("source");
    fs::create_dir_all(&source)?;
    let tar = new.join("source.tar");
    let mut archive = Command::new("git");
    run(archive.args(["archive", "--output"]).arg(&tar).arg(commit).current_dir(root()))?;
    run(Command::new("tar").arg("xf").arg(&tar).arg("-C").arg(&source))?;
    let target = new.join("target");
    let cargo_there = |words: &[&str], after: &[&str]| -> Result<()> {
        let mut command = cargo();
        command.current_dir(&source).env("CARGO_INCREMENTAL", "0");
        command.args(words).arg("--target-dir").arg(&target);
        if !after.is_empty() {
            command.arg("--").args(after);
        }
        run(&mut command)
    };
    cargo_there(&["build", "--quiet", "--locked", "--package", "carve"], &[])?;
    cargo_there(&[&["rustc"][..], &limiter::CARGO].concat(), &limiter::RUSTC)?;
    let keep = |from: &Path, name: &str| -> Result<()> {
        fs::rename(from, new.join(name)).with_context(|| from.display().to_string())
    };
    keep(&target.join("debug/carve"), "carve")?;
    keep(&target.join("release").join(limiter::LIBRARY), limiter::LIBRARY)?;
    // Some of its files are links to others of the repository.
    run(Command::new("cp").arg("-rL").arg(source.join("charts/carve")).arg(new.join("chart")))?;
    fs::remove_dir_all(&source)?;
    fs::remove_dir_all(&target)?;
    fs::remove_file(&tar)?;
    // Half of it is never taken for the whole.
    fs::rename(&new, &folder)?;
    Ok(folder)
}
