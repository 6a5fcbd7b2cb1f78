//! Runs programs, and says which one failed.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Runs a program with its output shown; fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("can not start {shown}"))?;
    if !status.success() {
        bail!("{shown} failed ({status})");
    }
    Ok(())
}

/// Runs tests with their output shown; what failed is said once more by `between` and then by the tests themselves, because the end is what people read.
pub(crate) fn run_tests(command: &mut Command, between: impl FnOnce()) -> Result<()> {
    let shown = format!("{command:?}");
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("can not start {shown}"))?;
    let mut said = Vec::new();
    for line in BufReader::new(child.stdout.take().context("its output is ours")?).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        said.push(line);
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(());
    }
    between();
    eprintln!("── what failed\n{}", failures(&said).join("\n"));
    bail!("{shown} failed ({status})");
}

/// How much of a test's own words is said again.
const LAST_LINES: usize = 60;

/// What failing tests said, by the blocks in which cargo's test programs show it.
fn failures(said: &[String]) -> Vec<&str> {
    let mut lines: Vec<&str> = Vec::new();
    let mut block: Option<Vec<&str>> = None;
    for line in said {
        let begins = line.starts_with("---- ") && line.ends_with(" stdout ----");
        if begins || line == "failures:" {
            lines.extend(last_lines(&block.take().unwrap_or_default()));
        }
        match &mut block {
            Some(block) => block.push(line),
            None if begins => block = Some(vec![line]),
            None => {}
        }
    }
    lines.extend(last_lines(&block.unwrap_or_default()));
    lines
}

/// The title of a block and its end.
fn last_lines<'a>(block: &[&'a str]) -> Vec<&'a str> {
    let skipped = block.len().saturating_sub(LAST_LINES).max(1);
    block.iter().take(1).chain(block.iter().skip(skipped)).copied().collect()
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

#[cfg(test)]
mod tests {
    use super::{LAST_LINES, failures};

    #[test]
    fn what_failed_is_found_among_everything_else() {
        let long: Vec<String> = (0..LAST_LINES * 2).map(|line| format!("line {line}")).collect();
        let mut said: Vec<String> =
            ["test one ... ok", "failures:", "", "---- two stdout ----"].map(String::from).to_vec();
        said.extend(long);
        said.extend(["---- three stdout ----", "why", "failures:", "    two", "    three"].map(String::from));
        let found = failures(&said);
        assert_eq!(found[0], "---- two stdout ----");
        assert_eq!(found[LAST_LINES], format!("line {}", LAST_LINES * 2 - 1));
        assert_eq!(found[LAST_LINES + 1..], ["---- three stdout ----", "why"]);
    }
}
