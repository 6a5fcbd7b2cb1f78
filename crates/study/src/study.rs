//! A study: which card, how it was measured, and what came of each cell.

use crate::{Cell, Class, Figures, Scope, Shared, Strategy, Timing, Workload};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What is written into the file first, so that later versions know what they read.
const VERSION: u32 = 1;

/// The card that was measured, and what it was in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// As the driver names it.
    pub name: String,
    /// Mebibytes.
    pub memory_mib: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// The driver's version.
    pub driver: String,
    /// The newest CUDA that it serves.
    pub cuda: String,
    /// Whether MIG is on; none where the card has no MIG.
    pub mig: Option<bool>,
    /// Processors of the machine.
    pub processors: u32,
    /// Whether nothing was measured: figures come from a model.
    pub simulated: bool,
}

/// What came of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Figures.
    Measured(Figures),
    /// It can not be done here, and why.
    Skipped(String),
    /// It was tried and did not work.
    Failed(String),
}

/// A cell with what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Which.
    pub cell: Cell,
    /// How often it was gone through.
    #[serde(default = "once")]
    pub passes: u32,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

fn once() -> u32 {
    1
}

/// A study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    version: u32,
    /// carve's version.
    pub carve: String,
    /// When it was begun, as RFC 3339 writes times.
    pub begun: String,
    /// The card.
    pub card: Card,
    /// How much was to be measured.
    pub scope: Scope,
    /// How each cell was.
    pub timing: Timing,
    /// Seconds that measuring took so far.
    pub seconds: f64,
    /// What came of the cells so far, in the order in which they were measured.
    pub cells: Vec<Record>,
}

/// A text that is no study.
#[derive(Debug, Error)]
pub enum StudyError {
    /// It can not be read as one.
    #[error("this is no study: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// Its cells could not be measured so.
    #[error(
        "this study would be measured in {} passes of {} windows of {} s after {} s; expected 1 to 100 passes, 1 to 10000 windows, and \
         times up to an hour",
        .0.passes, .0.windows, .0.window, .0.warm_up
    )]
    Timing(Timing),
    /// Of a time after this program's.
    #[error("this study is of version {0}, and this carve reads version {VERSION}; take a newer carve")]
    Newer(u32),
}

impl Study {
    /// One in which nothing was measured yet.
    pub fn new(carve: &str, begun: String, card: Card, scope: Scope, timing: Timing) -> Self {
        Study {
            version: VERSION,
            carve: carve.to_owned(),
            begun,
            card,
            scope,
            timing,
            seconds: 0.0,
            cells: Vec::new(),
        }
    }

    /// From its JSON.
    pub fn read(text: &str) -> Result<Self, StudyError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_str(text)?;
        if version > VERSION {
            return Err(StudyError::Newer(version));
        }
        let study: Study = serde_json::from_str(text)?;
        if !study.timing.is_possible() {
            return Err(StudyError::Timing(study.timing));
        }
        Ok(study)
    }

    /// As JSON.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// What came of a cell; none where it was not run.
    pub fn outcome(&self, cell: &Cell) -> Option<&Outcome> {
        self.cells.iter().find(|record| record.cell == *cell).map(|record| &record.outcome)
    }

    /// What was measured in a cell.
    pub fn figures(&self, cell: &Cell) -> Option<&Figures> {
        match self.outcome(cell)? {
            Outcome::Measured(figures) => Some(figures),
            Outcome::Skipped(_) | Outcome::Failed(_) => None,
        }
    }

    /// What was measured of tenants that do the same.
    pub fn shared(&self, workload: Workload, strategy: Strategy, tenants: u8) -> Option<&Shared> {
        match self.figures(&Cell::Share { workload, strategy, tenants })? {
            Figures::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// What one tenant does that has the card to itself.
    pub fn dedicated(&self, workload: Workload) -> Option<&Shared> {
        self.shared(workload, Strategy::Dedicated, 1)
    }

    /// Cells of the scope that were not run yet.
    pub fn left(&self) -> Vec<Cell> {
        self.scope.cells().into_iter().filter(|cell| self.outcome(cell).is_none()).collect()
    }

    /// How often a cell was gone through.
    pub fn passes(&self, cell: &Cell) -> u32 {
        self.cells.iter().find(|record| record.cell == *cell).map_or(0, |record| record.passes)
    }

    /// Adds what came of another pass over a cell. What fails in any pass has failed.
    pub fn add(&mut self, cell: Cell, outcome: Outcome) {
        let Some(record) = self.cells.iter_mut().find(|record| record.cell == cell) else {
            self.cells.push(Record { cell, passes: 1, outcome });
            return;
        };
        record.passes = record.passes.saturating_add(1);
        record.outcome = match (record.outcome.clone(), outcome) {
            (Outcome::Measured(before), Outcome::Measured(later)) => Outcome::Measured(before.join(later)),
            (Outcome::Failed(why), Outcome::Measured(_)) => Outcome::Failed(why),
            (_, later) => later,
        };
    }

    /// Puts what came of a cell in, in place of what came of it before.
    pub fn put(&mut self, cell: Cell, outcome: Outcome) {
        match self.cells.iter_mut().find(|record| record.cell == cell) {
            Some(record) => *record = Record { cell, passes: 1, outcome },
            None => self.cells.push(Record { cell, passes: 1, outcome }),
        }
    }

    /// How many tenants a workload was measured with under a strategy.
    pub fn counts(&self, workload: Workload, strategy: Strategy) -> Vec<u8> {
        let mut counts: Vec<u8> = self
            .cells
            .iter()
            .filter_map(|record| match record.cell {
                Cell::Share { workload: what, strategy: how, tenants }
                    if what == workload && how == strategy =>
                {
                    matches!(record.outcome, Outcome::Measured(_)).then_some(tenants)
                }
                _ => None,
            })
            .collect();
        counts.sort_unstable();
        counts
    }

    /// Classes of which something was measured.
    pub fn classes(&self) -> Vec<Class> {
        Class::ALL.into_iter().filter(|class| self.dedicated(class.workload()).is_some()).collect()
    }
}
