//! Runs other programs, and says which one failed and what it printed.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, IsTerminal};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Runs a long build to its end and shows how far it is: one line that counts what it names.
pub(crate) fn follow(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("can not start {shown}"))?;
    let stderr = child.stderr.take().context("a child has its stderr")?;
    let (start, terminal) = (Instant::now(), std::io::stderr().is_terminal());
    let (mut lines, mut said) = (Vec::new(), Instant::now());
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        lines.push(line);
        // Often on a terminal, where the line is written over; now and then in a log.
        if said.elapsed() > Duration::from_secs(if terminal { 1 } else { 30 }) {
            said = Instant::now();
            let (over, end) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
            eprint!("{over}  {} packages after {} s{end}", lines.len(), start.elapsed().as_secs());
        }
    }
    if terminal {
        eprint!("\r\x1b[K");
    }
    let status = child.wait()?;
    if !status.success() {
        let end = lines[lines.len().saturating_sub(15)..].join("\n");
        bail!("{shown} failed ({status}):\n{end}");
    }
    Ok(())
}
