//! Properties with other cases than in the test command, again and again: what is rare is found here, and not in somebody else's change.

use crate::programs::{SEED, TestProgram};
use crate::queue::{Place, SILENT, run_all};
use crate::times::Times;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Cases of each property, unless it says itself how many.
const CASES: &str = "2000";

/// Runs whatever has properties until the time is over or one fails; says with which seed.
pub(crate) fn properties(programs: &[TestProgram], limit: Duration) -> Result<()> {
    let mut found = Vec::new();
    for program in programs {
        if has_properties(&program.sources())? {
            found.push(program);
        }
    }
    let start = Instant::now();
    let mut seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    while start.elapsed() < limit {
        let environment =
            vec![(SEED.to_owned(), seed.to_string()), ("PROPTEST_CASES".to_owned(), CASES.to_owned())];
        let place = || Place { name: "", environment: environment.clone(), complaint: SILENT };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let places: Vec<Place<'_>> = (0..processors).map(|_| place()).collect();
        // What they take with so many cases is nothing to remember.
        let jobs = found.iter().map(|program| program.job()).collect();
        run_all(jobs, &places, &mut Times::forgetful()).with_context(|| format!("with {SEED}={seed}"))?;
        eprintln!("── {} programs passed with {SEED}={seed}", found.len());
        seed += 1;
    }
    Ok(())
}

fn has_properties(path: &Path) -> Result<bool> {
    if path.is_file() {
        let text = fs::read(path).with_context(|| path.display().to_string())?;
        return Ok(String::from_utf8_lossy(&text).contains("proptest!"));
    }
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        if has_properties(&entry?.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}
