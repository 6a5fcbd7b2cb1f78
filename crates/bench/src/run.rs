//! Runs cells one after the other, and keeps what came of each.

use crate::{Bench, CellError};
use carve_study::{Cell, Figures, Outcome, Study};
use std::io;
use std::time::{Duration, Instant};

/// Who looks on: shows what is done, and keeps the study.
pub trait Watch {
    /// A cell begins; so many of so many that were left are done.
    fn begins(&mut self, cell: &Cell, done: usize, of: usize);

    /// A cell has ended, and is part of the study now. An error ends the run.
    fn ended(&mut self, cell: &Cell, study: &Study) -> io::Result<()>;

    /// Something did not go as it should, and the run goes on.
    fn trouble(&mut self, words: &str);
}

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// All cells have an outcome.
    Complete,
    /// The next cell would not have fitted into the time.
    OutOfTime,
    /// Somebody wanted it to end.
    Stopped,
    /// What was measured could not be kept.
    NotKept(io::Error),
}

/// Seconds that a cell is thought to take before any was measured.
const FIRST: f64 = 15.0;

/// Runs what is left of a study, until a moment.
pub fn run(
    bench: &mut Bench<'_>,
    study: &mut Study,
    cells: &[Cell],
    until: Option<Instant>,
    watch: &mut dyn Watch,
) -> Ended {
    let ended = all(bench, study, cells, until, watch);
    let trouble = bench.put_back();
    for words in &trouble {
        watch.trouble(words);
    }
    // Where something could not be put back, the next run tries it by the notes in the folder.
    if trouble.is_empty() {
        let _ = std::fs::remove_dir_all(&bench.folder);
    }
    ended
}

fn all(
    bench: &mut Bench<'_>,
    study: &mut Study,
    cells: &[Cell],
    until: Option<Instant>,
    watch: &mut dyn Watch,
) -> Ended {
    let work = work(study, cells);
    let mut longest = FIRST;
    for (position, (pass, cell)) in work.iter().enumerate() {
        if bench.is_stopped() {
            return Ended::Stopped;
        }
        // One that was tried in this run and can not be done, or failed, is not tried again in a later pass.
        if *pass > 1 && !matches!(study.outcome(cell), Some(Outcome::Measured(_))) {
            continue;
        }
        if until.is_some_and(|until| Instant::now() + Duration::from_secs_f64(longest) > until) {
            return Ended::OutOfTime;
        }
        watch.begins(cell, position, work.len());
        let begun = Instant::now();
        if position == 0 {
            bench.wake();
        }
        let outcome = match bench.cell(cell, *pass, study) {
            Ok(figures) => Outcome::Measured(figures),
            Err(CellError::Stopped) => return Ended::Stopped,
            Err(CellError::NotHere(why)) => Outcome::Skipped(why),
            // Whoever pressed Ctrl-C may have ended a tenant, too; that is no result.
            Err(_) if bench.is_stopped() => return Ended::Stopped,
            Err(error) => Outcome::Failed(error.to_string()),
        };
        let took = begun.elapsed().as_secs_f64();
        longest = if position == 0 { took.max(5.0) } else { longest.max(took) };
        study.seconds += took;
        match *pass {
            1 => study.put(*cell, outcome),
            _ => study.add(*cell, outcome),
        }
        if let Err(error) = watch.ended(cell, study) {
            return Ended::NotKept(error);
        }
    }
    Ended::Complete
}

/// What is left to do, pass after pass. What could not be done may be possible now, because something was installed or allowed meanwhile;
/// to find out costs nothing. What a mishap does is seen once.
fn work(study: &Study, cells: &[Cell]) -> Vec<(u32, Cell)> {
    let is_left = |pass: u32, cell: &Cell| match study.outcome(cell) {
        None | Some(Outcome::Skipped(_)) => pass == 1 || !matches!(cell, Cell::Mishap { .. }),
        Some(Outcome::Failed(_)) => false,
        Some(Outcome::Measured(_)) => study.passes(cell) < pass && !matches!(cell, Cell::Mishap { .. }),
    };
    let passes = 1..=study.timing.passes.max(1);
    passes
        .flat_map(|pass| cells.iter().filter(move |cell| is_left(pass, cell)).map(move |cell| (pass, *cell)))
        .collect()
}

impl Bench<'_> {
    fn cell(&mut self, cell: &Cell, pass: u32, study: &Study) -> Result<Figures, CellError> {
        let tenants = match cell {
            Cell::Overhead => 1,
            Cell::Share { tenants, .. } => u32::from(*tenants),
            Cell::Beside { .. } | Cell::Mishap { .. } => 2,
        };
        if let Some(strategy) = cell.strategy()
            && let Some(why) = self.why_not(strategy, &cell.workloads(), tenants)
        {
            return Err(CellError::NotHere(why));
        }
        let timing = study.timing.of(cell);
        match *cell {
            Cell::Overhead => self.overhead(&timing).map(Figures::Overhead),
            Cell::Share { workload, strategy, .. } => {
                self.share((workload, strategy, tenants), (pass, timing), study).map(Figures::Shared)
            }
            Cell::Beside { victim, aggressor, strategy } => {
                self.beside((victim, aggressor), strategy, (pass, &timing)).map(Figures::Beside)
            }
            Cell::Mishap { mishap, strategy } => self.mishap(mishap, strategy).map(Figures::Happened),
        }
    }
}
