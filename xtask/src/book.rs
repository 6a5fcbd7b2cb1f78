//! The book: every page of `docs`, made into something to read in a browser.

use crate::run::run;
use crate::{root, tools};
use anyhow::{Result, ensure};
use std::process::Command;

/// Pinned, so that a test run does not change by itself.
const MDBOOK: &str = "0.5.4";

/// Makes the book in target/book.
pub(crate) fn book() -> Result<()> {
    // Without what serves and watches, which takes longest to compile.
    let tool = tools::from_crates("mdbook", MDBOOK, &["--no-default-features"])?;
    let mut command = Command::new(tool);
    run(command.args(["build", "--dest-dir"]).arg(root().join("target/book")).current_dir(root()))?;
    let first = root().join("target/book/index.html");
    ensure!(first.exists(), "mdbook made no {}", first.display());
    Ok(())
}
