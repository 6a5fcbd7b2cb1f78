//! Runs other programs, and says which one failed and what it printed.

use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};

/// Runs a program to its end with its output kept for the error.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("can not start {shown}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stdout.lines().chain(stderr.lines()).collect();
    let end = lines[lines.len().saturating_sub(15)..].join("\n");
    bail!("{shown} failed ({}):\n{end}", output.status);
}

/// Runs a program to its end with its output shown.
pub(crate) fn show(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("can not start {shown}"))?;
    if !status.success() {
        bail!("{shown} failed ({status})");
    }
    Ok(())
}
