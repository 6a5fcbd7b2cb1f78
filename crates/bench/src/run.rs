//! Runs cells one after the other, and keeps what came of each.

use crate::{Bench, CellError};
use carve_study::{Cell, Figures, Outcome, Study};
use std::io;
use std::time::Instant;

/// Who looks on: shows what is done, and keeps the study.
pub trait Watch {
    /// A cell begins; so many of so many were done before it.
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
    for words in bench.put_back() {
        watch.trouble(&words);
    }
    let _ = std::fs::remove_dir_all(&bench.folder);
    ended
}

fn all(
    bench: &mut Bench<'_>,
    study: &mut Study,
    cells: &[Cell],
    until: Option<Instant>,
    watch: &mut dyn Watch,
) -> Ended {
    // What could not be done may be possible now, because something was installed or allowed meanwhile; to find out costs nothing.
    let is_left = |cell: &Cell| matches!(study.outcome(cell), None | Some(Outcome::Skipped(_)));
    let left: Vec<Cell> = cells.iter().copied().filter(is_left).collect();
    let before = cells.len() - left.len();
    let mut longest = FIRST;
    for (position, cell) in left.iter().enumerate() {
        if bench.is_stopped() {
            return Ended::Stopped;
        }
        if until.is_some_and(|until| Instant::now() + std::time::Duration::from_secs_f64(longest) > until) {
            return Ended::OutOfTime;
        }
        watch.begins(cell, before + position, cells.len());
        let begun = Instant::now();
        if position == 0 {
            bench.wake();
        }
        let outcome = match bench.cell(cell, study) {
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
        study.put(*cell, outcome);
        if let Err(error) = watch.ended(cell, study) {
            return Ended::NotKept(error);
        }
    }
    Ended::Complete
}

impl Bench<'_> {
    fn cell(&mut self, cell: &Cell, study: &Study) -> Result<Figures, CellError> {
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
        match *cell {
            Cell::Overhead => self.overhead(&study.timing).map(Figures::Overhead),
            Cell::Share { workload, strategy, .. } => {
                self.share((workload, strategy, tenants), study).map(Figures::Shared)
            }
            Cell::Beside { victim, aggressor, strategy } => {
                self.beside((victim, aggressor), strategy, &study.timing).map(Figures::Beside)
            }
            Cell::Mishap { mishap, strategy } => self.mishap(mishap, strategy).map(Figures::Happened),
        }
    }
}
