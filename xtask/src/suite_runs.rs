//! Whole runs of the suites, one line each in `docs/suite-runs.md`: what passed once may have been lucky.

use crate::root;
use crate::run::read;
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;
use std::time::Duration;

const PAGE: &str = "docs/suite-runs.md";

/// Adds a run.
pub(crate) fn record(suites: usize, done: &Result<()>, time: Duration) -> Result<()> {
    let git = |words: &[&str]| read(Command::new("git").args(words).current_dir(root()));
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.trim().is_empty();
    let date = read(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M"]))?;
    let path = root().join(PAGE);
    let text = fs::read_to_string(&path).context(PAGE)?;
    let result = done.as_ref().map_err(|error| format!("{error:#}")).copied();
    let line = line(
        &text,
        date.trim(),
        &format!("{}{}", commit.trim(), if changed { "+" } else { "" }),
        suites,
        result,
        time,
    );
    fs::write(&path, format!("{}\n{line}\n", text.trim_end())).context(PAGE)
}

/// The next line of the page's table.
fn line(
    text: &str,
    date: &str,
    commit: &str,
    suites: usize,
    done: Result<(), String>,
    time: Duration,
) -> String {
    let number = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains(':') && !line.contains("---"))
        .count()
        + 1;
    let result = match done {
        Ok(()) => "all passed".to_owned(),
        Err(why) => why.lines().next().unwrap_or_default().replace('|', "/"),
    };
    format!("| {number} | {date} | {commit} | {suites} | {result} | {:.1} |", time.as_secs_f64() / 60.0)
}

#[cfg(test)]
mod tests {
    use super::line;
    use std::time::Duration;

    #[test]
    fn runs_are_counted_and_failures_told_in_one_line() {
        let page =
            "# Runs\n\n| run | when | commit | suites | result | minutes |\n|---:|---|---|---:|---|---:|\n";
        let first = line(page, "2026-01-01 10:00", "abc", 3, Ok(()), Duration::from_secs(90));
        assert_eq!(first, "| 1 | 2026-01-01 10:00 | abc | 3 | all passed | 1.5 |");
        let failed = Err("a | b failed\nmore".to_owned());
        let second =
            line(&format!("{page}{first}\n"), "2026-01-01 11:00", "abc+", 3, failed, Duration::from_secs(60));
        assert_eq!(second, "| 2 | 2026-01-01 11:00 | abc+ | 3 | a / b failed | 1.0 |");
    }
}
