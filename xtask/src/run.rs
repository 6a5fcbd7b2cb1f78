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

/// What is worth saying again of everything that a test program said: what its failing tests said, or its last lines where it ended without
/// a word about them.
pub(crate) fn what_failed(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let failed = failures(&lines);
    if failed.is_empty() {
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    } else {
        failed.join("\n")
    }
}

/// How much of a test's own words is said again.
const LAST_LINES: usize = 60;

/// What failing tests said, by the blocks in which cargo's test programs show it.
fn failures<'a>(said: &[&'a str]) -> Vec<&'a str> {
    let mut lines: Vec<&str> = Vec::new();
    let mut block: Option<Vec<&str>> = None;
    for line in said {
        let begins = line.starts_with("---- ") && line.ends_with(" stdout ----");
        if begins || *line == "failures:" {
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

/// The cargo that runs us, without what it told us about ourselves.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::root());
    forget_ourselves(&mut command);
    // A clean clone never builds incrementally, and what it would keep for that is twice the size of what it builds.
    if is_ci() {
        command.env("CARGO_INCREMENTAL", "0").env(BUILD_FOLDER, crate::cache().join("build"));
    }
    command
}

/// Where cargo keeps what it builds on the way.
pub(crate) const BUILD_FOLDER: &str = "CARGO_BUILD_BUILD_DIR";

/// Whether every run has a clone of its own, and nothing may be skipped.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").as_deref() == Ok("true")
}

/// Clones of CI share what they build of other people's crates. What is ours is built anew: cargo holds it against times of files, which a
/// copy of the repository may have from anywhere.
pub(crate) fn forget_earlier_clones() -> Result<()> {
    if !is_ci() {
        return Ok(());
    }
    // This very program runs from the usual folder, so cargo is told of another one.
    let elsewhere = crate::cache().join("no-target");
    run(cargo().args(["clean", "--quiet", "--workspace", "--target-dir"]).arg(elsewhere))
}

/// Takes away what cargo told us about ourselves: build scripts that look at such variables would see others than in a build by hand, and
/// everything behind them would be built anew each time the two take turns.
pub(crate) fn forget_ourselves(command: &mut Command) {
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
}

#[cfg(test)]
mod tests {
    use super::{LAST_LINES, what_failed};

    #[test]
    fn what_failed_is_found_among_everything_else() {
        let long: String = (0..LAST_LINES * 2).map(|line| format!("line {line}\n")).collect();
        let before = "test one ... ok\nfailures:\n\n---- two stdout ----\n";
        let after = "---- three stdout ----\nwhy\nfailures:\n    two\n    three\n";
        let said = what_failed(&format!("{before}{long}{after}"));
        let found: Vec<&str> = said.lines().collect();
        assert_eq!(found[0], "---- two stdout ----");
        assert_eq!(found[LAST_LINES], format!("line {}", LAST_LINES * 2 - 1));
        assert_eq!(found[LAST_LINES + 1..], ["---- three stdout ----", "why"]);
    }

    #[test]
    fn a_program_that_dies_without_a_word_is_shown_by_its_end() {
        let long: String = (0..LAST_LINES * 2).map(|line| format!("line {line}\n")).collect();
        let said = what_failed(&long);
        assert_eq!(said.lines().count(), LAST_LINES);
        assert!(said.ends_with(&format!("line {}", LAST_LINES * 2 - 1)));
    }
}
