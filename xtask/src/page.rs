//! The dashboard's page in a real browser, in front of the real program.

use crate::run::{cargo, run};
use crate::{lab, root};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where browsers are that Debian packages.
const CHROMIUM: &str = "/usr/bin/chromium";

/// Runs the suites of `page-tests`.
pub(crate) fn page() -> Result<()> {
    let Some(chromium) = chromium()? else {
        if std::env::var("CI").as_deref() == Ok("true") {
            bail!(
                "the page is tried in Chromium, which is not here and can not be installed, and CI must not skip"
            );
        }
        eprintln!(
            "SKIPPED: the page is tried in Chromium; install it (apt-get install chromium), or name one with CHROMIUM"
        );
        return Ok(());
    };
    run(cargo().args(["build", "--quiet", "--package", "carve"]))?;
    let folder = root().join("page-tests");
    let npm = |words: &[&str]| {
        let mut command = Command::new("npm");
        command.args(words).current_dir(&folder);
        command
    };
    run(&mut npm(&["ci", "--no-audit", "--no-fund", "--loglevel=error"]))
        .context("are Node and npm here?")?;
    let mut tests = npm(&["test"]);
    tests.env("CARVE", root().join("target/debug/carve")).env("CHROMIUM", chromium);
    run(&mut tests)
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
