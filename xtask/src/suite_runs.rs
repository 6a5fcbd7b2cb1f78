//! Whole runs of the suites, one line each in `docs/suite-runs.md`: what passed once may have been lucky.

use crate::root;
use crate::run::read;
use anyhow::{Context, Result};
use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

const PAGE: &str = "docs/suite-runs.md";

/// Runs of this machine, whichever clone they were of.
const REMEMBERED: &str = "suite-runs";

/// Keeps a run in the cache: a clone of CI is gone when its run is.
pub(crate) fn remember(suites: usize, done: &Result<()>, time: Duration) -> Result<()> {
    let git = |words: &[&str]| read(Command::new("git").args(words).current_dir(root()));
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    // The page itself is written between two runs.
    let others = ["status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/docs/suite-runs.md"];
    let changed = !git(&others)?.trim().is_empty();
    let date = read(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M"]))?;
    let commit = format!("{}{}", commit.trim(), if changed { "+" } else { "" });
    let result = done.as_ref().map_err(|error| format!("{error:#}")).copied();
    let row = row(date.trim(), &commit, suites, result, time);
    fs::create_dir_all(crate::cache())?;
    let file = crate::cache().join(REMEMBERED);
    let opened = fs::OpenOptions::new().create(true).append(true).open(&file);
    opened.and_then(|mut file| writeln!(file, "{row}")).with_context(|| file.display().to_string())
}

/// Writes what is kept and not yet there into the page.
pub(crate) fn write_down() -> Result<()> {
    let path = root().join(PAGE);
    let text = fs::read_to_string(&path).context(PAGE)?;
    let kept = fs::read_to_string(crate::cache().join(REMEMBERED)).unwrap_or_default();
    fs::write(&path, page(&text, &kept)).context(PAGE)
}

/// The page with every run that is kept.
fn page(text: &str, kept: &str) -> String {
    let mut text = format!("{}\n", text.trim_end());
    for row in kept.lines().filter(|row| !row.is_empty()) {
        if !text.contains(row) {
            let runs = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| run"));
            let number = runs.count() + 1;
            text.push_str(&format!("| {number} {row}\n"));
        }
    }
    text
}

/// A run without its number.
fn row(date: &str, commit: &str, suites: usize, done: Result<(), String>, time: Duration) -> String {
    let result = match done {
        Ok(()) => "all passed".to_owned(),
        Err(why) => why.lines().next().unwrap_or_default().replace('|', "/"),
    };
    format!("| {date} | {commit} | {suites} | {result} | {:.1} |", time.as_secs_f64() / 60.0)
}

#[cfg(test)]
mod tests {
    use super::{page, row};
    use std::time::Duration;

    const EMPTY: &str =
        "# Runs\n\n| run | when | commit | suites | result | minutes |\n|---:|---|---|---:|---|---:|\n";

    #[test]
    fn runs_are_numbered_and_failures_told_in_one_line() {
        let first = row("2026-01-01 10:00", "abc", 3, Ok(()), Duration::from_secs(90));
        let failed = Err("a | b failed\nmore".to_owned());
        let second = row("2026-01-01 11:00", "abc+", 3, failed, Duration::from_secs(60));
        let written = page(EMPTY, &format!("{first}\n{second}\n"));
        let lines = "| 1 | 2026-01-01 10:00 | abc | 3 | all passed | 1.5 |\n\
                     | 2 | 2026-01-01 11:00 | abc+ | 3 | a / b failed | 1.0 |\n";
        assert_eq!(written, format!("{EMPTY}{lines}"));
    }

    #[test]
    fn what_is_on_the_page_stays_and_is_not_written_twice() {
        let first = row("2026-01-01 10:00", "abc", 3, Ok(()), Duration::from_secs(90));
        let once = page(EMPTY, &first);
        assert_eq!(page(&once, &first), once);
        let elsewhere = row("2026-01-02 10:00", "def", 3, Ok(()), Duration::from_secs(90));
        assert!(page(&once, &elsewhere).starts_with(&once), "what another machine wrote stays");
    }
}
