//! The dashboard's page in a real browser, in front of the real program.

use crate::run::{cargo, is_ci, read, run};
use crate::{lab, root};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where browsers are that Debian packages.
const CHROMIUM: &str = "/usr/bin/chromium";

/// Runs the suites of `page-tests` with carve as it is now.
pub(crate) fn page() -> Result<()> {
    run(cargo().args(["build", "--quiet", "--package", "carve"]))?;
    page_of_built()
}

/// The same with carve as it was built last.
pub(crate) fn page_of_built() -> Result<()> {
    if read(Command::new("npm").arg("--version")).is_err() {
        return skipped("npm, which is not here; install Node with npm");
    }
    let Some(chromium) = chromium()? else {
        return skipped(
            "Chromium, which is not here; install it (apt-get install chromium), or name one with CHROMIUM",
        );
    };
    let folder = root().join("page-tests");
    let npm = |words: &[&str]| {
        let mut command = Command::new("npm");
        command.args(words).current_dir(&folder);
        command
    };
    run(&mut npm(&["ci", "--no-audit", "--no-fund", "--loglevel=error"]))
        .context("is npm's registry reachable?")?;
    let tests = |words: &[&str]| {
        let mut tests = npm(&[&["test", "--"], words].concat());
        run(tests.env("CARVE", root().join("target/debug/carve")).env("CHROMIUM", &chromium))
            .inspect_err(|_| tell_pages(&folder.join("test-results")))
    };
    // Both, whatever becomes of the first.
    let untimed = tests(&["--project=untimed", "--workers=2"]);
    let timed = tests(&["--project=timed", "--workers=1"]);
    untimed.and(timed)
}

/// Shows what was on the pages of tests that failed: what ran elsewhere leaves nothing else to read.
fn tell_pages(results: &Path) {
    let folders = std::fs::read_dir(results).into_iter().flatten().flatten();
    for page in folders.map(|folder| folder.path().join("error-context.md")) {
        if let Ok(text) = std::fs::read_to_string(&page) {
            eprintln!("── {}\n{text}", page.display());
        }
    }
}

/// Says what is missing, or fails where nothing may be skipped.
fn skipped(what: &str) -> Result<()> {
    if is_ci() {
        bail!("the page is tried with {what}; CI must not skip");
    }
    eprintln!("SKIPPED: the page is tried with {what}");
    Ok(())
}

/// The one that was named, the one that is here, or the one that Debian has.
fn chromium() -> Result<Option<PathBuf>> {
    if let Some(named) = std::env::var_os("CHROMIUM").filter(|path| !path.is_empty()) {
        return Ok(Some(PathBuf::from(named)));
    }
    if !Path::new(CHROMIUM).exists() && lab::is_possible() && Path::new("/usr/bin/apt-get").exists() {
        eprintln!("installing Debian's chromium …");
        let apt = |words: &[&str]| {
            let mut command = Command::new("apt-get");
            command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
            command
        };
        run(&mut apt(&["-qq", "update"]))?;
        run(&mut apt(&["-qq", "install", "--yes", "--no-install-recommends", "chromium"]))?;
    }
    Ok(Path::new(CHROMIUM).exists().then(|| PathBuf::from(CHROMIUM)))
}
