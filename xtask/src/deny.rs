//! What the crates behind carve are: their licences, where they come from, and whether anything is known against them.

use crate::run::{read, run};
use crate::{root, tools};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// Pinned, so that a test run does not change by itself.
const CARGO_DENY: &str = "0.20.2";

/// Each has a lock file of its own.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// How much is said of what is allowed, but not liked: crates in two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// All of it.
    All,
    /// What is wrong.
    Wrong,
}

/// Checks every workspace against deny.toml.
pub(crate) fn deny(words: Words) -> Result<()> {
    let tool = tools::from_crates("cargo-deny", CARGO_DENY, &[])?;
    let advisories = fetch_advisories(&tool);
    if let Err(why) = &advisories {
        eprintln!(
            "SKIPPED: known vulnerabilities of crates, for their database can not be reached ({})",
            last_line(&format!("{why:#}"))
        );
    }
    for manifest in WORKSPACES {
        run(&mut check(&tool, manifest, advisories.is_ok(), words))
            .with_context(|| format!("the crates of {manifest} are not as deny.toml wants them"))?;
    }
    Ok(())
}

fn fetch_advisories(tool: &Path) -> Result<()> {
    let mut command = Command::new(tool);
    // A prompt for a password would wait for ever.
    command.args(["fetch", "db"]).current_dir(root()).env("GIT_TERMINAL_PROMPT", "0");
    read(&mut command).map(drop)
}

fn check(tool: &Path, manifest: &str, advisories: bool, words: Words) -> Command {
    let mut command = Command::new(tool);
    command.current_dir(root()).args(["--manifest-path", manifest, "--config", "deny.toml", "--locked"]);
    if words == Words::Wrong {
        command.args(["--log-level", "error"]);
    }
    command.args(["check", "--hide-inclusion-graph"]);
    // Each workspace has crates that the other has not.
    command.args(["--allow", "license-exception-not-encountered"]);
    if manifest != WORKSPACES[0] {
        command.args(["--allow", "license-not-encountered"]);
    }
    command.args(["bans", "licenses", "sources"]);
    if advisories {
        command.arg("advisories");
    }
    command
}

/// The part of a long message that says why.
fn last_line(text: &str) -> &str {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no reason was given")
}

#[cfg(test)]
mod tests {
    use super::{WORKSPACES, Words, check, last_line};
    use std::path::Path;

    fn words_of(manifest: &str, advisories: bool) -> Vec<String> {
        let command = check(Path::new("cargo-deny"), manifest, advisories, Words::Wrong);
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn an_allowed_licence_that_no_crate_has_is_found_in_the_workspace_that_is_shipped() {
        let [shipped, fuzz] = WORKSPACES.map(|manifest| words_of(manifest, true));
        let lenient = |words: &[String]| words.iter().any(|word| word == "license-not-encountered");
        assert!(!lenient(&shipped) && lenient(&fuzz));
    }

    #[test]
    fn advisories_are_asked_for_only_where_they_are() {
        let asked = |advisories| words_of("Cargo.toml", advisories).contains(&"advisories".to_owned());
        assert!(asked(true) && !asked(false));
    }

    #[test]
    fn the_reason_is_the_last_line() {
        assert_eq!(
            last_line("x failed: [ERROR] long\nCloning…\nfatal: no such host\n\n"),
            "fatal: no such host"
        );
        assert_eq!(last_line(" \n"), "no reason was given");
    }
}
