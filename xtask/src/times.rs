//! How long everything took: remembered from run to run, so that the slowest begin first, and told at the end.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// How many of the slowest are told.
const TOLD: usize = 10;

/// Times by name: those of earlier runs, and those of this one.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// `None` where nothing is kept.
    file: Option<PathBuf>,
    known: BTreeMap<String, Duration>,
    now: Vec<(String, Duration)>,
}

impl Times {
    /// What earlier runs left in the cache.
    pub(crate) fn remembered() -> Self {
        let file = crate::cache().join("test-times");
        let known = parse(&fs::read_to_string(&file).unwrap_or_default());
        Times { file: Some(file), known, now: Vec::new() }
    }

    /// Knows nothing and keeps nothing.
    pub(crate) fn forgetful() -> Self {
        Times::default()
    }

    /// How long it took the last time.
    pub(crate) fn last(&self, name: &str) -> Option<Duration> {
        self.known.get(name).copied()
    }

    /// Something took so long.
    pub(crate) fn took(&mut self, name: &str, time: Duration) {
        self.known.insert(name.to_owned(), time);
        self.now.push((name.to_owned(), time));
    }

    /// Keeps what is known for the next run.
    pub(crate) fn write(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let lines = self.known.iter().map(|(name, time)| format!("{:.1} {name}\n", time.as_secs_f64()));
        fs::create_dir_all(file.parent().unwrap_or(file))?;
        fs::write(file, lines.collect::<String>()).with_context(|| file.display().to_string())
    }

    /// The slowest of this run.
    pub(crate) fn slowest(&self) -> Vec<(&str, Duration)> {
        let mut all: Vec<(&str, Duration)> =
            self.now.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        all.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        all.truncate(TOLD);
        all
    }
}

/// Lines of seconds and a name; one that is neither is as good as none.
fn parse(text: &str) -> BTreeMap<String, Duration> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let times = lines.filter_map(|(seconds, name)| {
        Some((name.to_owned(), Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?))
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::{Times, parse};
    use std::time::Duration;

    #[test]
    fn times_are_remembered_and_nonsense_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept/times");
        let mut times = Times { file: Some(file.clone()), ..Times::default() };
        times.took("suite of two words", Duration::from_millis(1_500));
        times.write().unwrap();
        let text = std::fs::read_to_string(&file).unwrap() + "x y\n-1 z\nlonely\n";
        let known = parse(&text);
        assert_eq!(
            known.into_iter().collect::<Vec<_>>(),
            [("suite of two words".to_owned(), Duration::from_millis(1_500))]
        );
    }

    #[test]
    fn only_this_run_is_told_and_the_slowest_of_it_first() {
        let mut times = Times::default();
        times.known.insert("earlier".to_owned(), Duration::from_secs(1_000));
        for number in 0..15_u64 {
            times.took(&number.to_string(), Duration::from_secs(number));
        }
        let told: Vec<&str> = times.slowest().into_iter().map(|(name, _)| name).collect();
        assert_eq!(told, ["14", "13", "12", "11", "10", "9", "8", "7", "6", "5"]);
    }
}
