//! Runs programs, and says which one failed.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// Runs a program with its output shown; fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("can not start {shown}"))?;
    if !status.success() {
        bail!("{shown} failed ({status})");
    }
    Ok(())
}

/// Runs a program and answers what it wrote to stdout.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("can not start {shown}"))?;
    if !output.status.success() {
        bail!("{shown} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The cargo that runs us, without what it told us about ourselves: build scripts that look at such variables would see
/// others than in a build by hand, and everything behind them would be built anew each time the two take turns.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::root());
    for (name, _) in std::env::vars_os() {
        let ours = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name == "CARGO_PRIMARY_PACKAGE"
        });
        if ours {
            command.env_remove(&name);
        }
    }
    // A clean clone never builds incrementally, and what it would keep for that is twice the size of what it builds.
    if std::env::var("CI").as_deref() == Ok("true") {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}
