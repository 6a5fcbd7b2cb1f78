//! Which cells a study has, and how long each is looked at.

use crate::{Cell, Mishap, Strategy, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// A first look, in less than 90 seconds.
    Quick,
    /// Every strategy and workload with two and four tenants, in less than eight minutes.
    Default,
    /// Everything.
    Full,
}

/// How each cell is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Seconds of work before anything is counted.
    pub warm_up: f64,
    /// Seconds that are counted, each time.
    pub window: f64,
    /// How often that is repeated in the same processes.
    pub windows: u32,
    /// How often the whole study is gone through, with processes started anew: what changes in minutes is in the spread then.
    pub passes: u32,
}

/// Turns under the limiter come round in up to 2 s where kernels are long, and it takes as long to find out how long they are.
const SLOW_TURNS: (f64, f64) = (2.5, 2.0);

impl Timing {
    /// Whether anybody can measure so; files may say anything.
    pub(crate) fn is_possible(&self) -> bool {
        (0.0..=3600.0).contains(&self.warm_up)
            && self.window > 0.0
            && self.window <= 3600.0
            && (1..=10_000).contains(&self.windows)
            && (1..=100).contains(&self.passes)
    }

    /// How a cell is measured: as all are, or longer where a strategy needs more time to show what it does.
    pub fn of(&self, cell: &Cell) -> Timing {
        let slow = cell.strategy() == Some(Strategy::Limiter) && cell.workloads().contains(&Workload::Burn);
        if !slow {
            return *self;
        }
        Timing { warm_up: self.warm_up.max(SLOW_TURNS.0), window: self.window.max(SLOW_TURNS.1), ..*self }
    }

    /// Seconds that a cell takes beside starting its processes.
    pub fn seconds(&self) -> f64 {
        (self.warm_up + self.window * f64::from(self.windows)) * f64::from(self.passes)
    }
}

const SHARED: [Strategy; 6] = [
    Strategy::TimeSlicing,
    Strategy::Mps,
    Strategy::MpsLimits,
    Strategy::Limiter,
    Strategy::Streams,
    Strategy::GreenContexts,
];

/// What takes a setting of the card, or MIG devices.
const SPECIAL: [Strategy; 5] = [
    Strategy::TimeSlicingShort,
    Strategy::TimeSlicingLong,
    Strategy::Mig,
    Strategy::MigTimeSlicing,
    Strategy::MigMps,
];

impl Scope {
    /// In JSON and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Scope::Quick => "quick",
            Scope::Default => "default",
            Scope::Full => "full",
        }
    }

    /// How each of its cells is measured.
    pub const fn timing(self) -> Timing {
        match self {
            Scope::Quick => Timing { warm_up: 0.2, window: 0.4, windows: 2, passes: 2 },
            Scope::Default => Timing { warm_up: 0.3, window: 0.5, windows: 2, passes: 2 },
            Scope::Full => Timing { warm_up: 0.5, window: 1.0, windows: 3, passes: 2 },
        }
    }

    /// Its cells, in the order in which they are measured: what others are compared with comes first.
    pub fn cells(self) -> Vec<Cell> {
        let mut cells = vec![Cell::Overhead];
        let (workloads, counts): (&[Workload], &[u8]) = match self {
            Scope::Quick => (&[Workload::Light, Workload::Heavy, Workload::Batch], &[2]),
            Scope::Default => (&[Workload::Light, Workload::Heavy, Workload::Batch, Workload::Burn], &[2, 4]),
            Scope::Full => (
                &[
                    Workload::Light,
                    Workload::Heavy,
                    Workload::Batch,
                    Workload::Burn,
                    Workload::Bandwidth,
                    Workload::LightOpen,
                    Workload::HeavyOpen,
                    Workload::TorchLight,
                    Workload::TorchHeavy,
                    Workload::TorchBatch,
                    Workload::TorchBurn,
                    Workload::CupyBatch,
                ],
                &[2, 4, 8],
            ),
        };
        let dedicated =
            |workload: Workload| Cell::Share { workload, strategy: Strategy::Dedicated, tenants: 1 };
        cells.extend(workloads.iter().map(|workload| dedicated(*workload)));
        match self {
            Scope::Quick => {
                let shared = [Strategy::TimeSlicing, Strategy::Mps, Strategy::MpsLimits, Strategy::Limiter];
                grid(&mut cells, workloads, &shared, counts);
                cells.extend(
                    [Strategy::TimeSlicing, Strategy::Mps]
                        .map(|strategy| Cell::Mishap { mishap: Mishap::Fault, strategy }),
                );
            }
            Scope::Default => {
                grid(&mut cells, workloads, &SHARED, counts);
                cells.push(dedicated(Workload::LightOpen));
                let open = [Strategy::TimeSlicing, Strategy::Mps, Strategy::MpsLimits];
                grid(&mut cells, &[Workload::LightOpen], &open, &[2]);
                let between = [Strategy::TimeSlicing, Strategy::Mps, Strategy::MpsLimits, Strategy::Limiter];
                beside(
                    &mut cells,
                    &between,
                    &[Workload::Light],
                    &[Workload::Heavy, Workload::Burn, Workload::Bandwidth],
                );
                let neighbours = [
                    Strategy::TimeSlicing,
                    Strategy::Mps,
                    Strategy::MpsLimits,
                    Strategy::Limiter,
                    Strategy::Streams,
                ];
                mishaps(&mut cells, &neighbours);
                grid(&mut cells, &[Workload::Light], &SPECIAL, &[2]);
            }
            Scope::Full => {
                grid(&mut cells, workloads, &SHARED, counts);
                let between = [Strategy::TimeSlicing, Strategy::Mps, Strategy::MpsLimits, Strategy::Limiter];
                let all =
                    [Workload::Light, Workload::Heavy, Workload::Batch, Workload::Burn, Workload::Bandwidth];
                beside(&mut cells, &between, &all, &all);
                mishaps(&mut cells, &SHARED);
                let mig =
                    [Workload::Light, Workload::Heavy, Workload::Batch, Workload::Burn, Workload::Bandwidth];
                grid(&mut cells, &mig, &SPECIAL, counts);
                beside(&mut cells, &[Strategy::Mig], &all, &all);
                mishaps(&mut cells, &[Strategy::Mig]);
            }
        }
        // One process can not be of two minds about a Python package.
        cells.retain(|cell| {
            !(cell.strategy().is_some_and(Strategy::is_one_process)
                && cell.workloads().iter().any(|workload| workload.package().is_some()))
        });
        let mut seen = BTreeSet::new();
        cells.retain(|cell| seen.insert(*cell));
        cells
    }
}

fn grid(cells: &mut Vec<Cell>, workloads: &[Workload], strategies: &[Strategy], counts: &[u8]) {
    for workload in workloads {
        for strategy in strategies {
            cells.extend(counts.iter().map(|tenants| Cell::Share {
                workload: *workload,
                strategy: *strategy,
                tenants: *tenants,
            }));
        }
    }
}

fn beside(cells: &mut Vec<Cell>, strategies: &[Strategy], victims: &[Workload], aggressors: &[Workload]) {
    for strategy in strategies {
        for victim in victims {
            cells.extend(aggressors.iter().map(|aggressor| Cell::Beside {
                victim: *victim,
                aggressor: *aggressor,
                strategy: *strategy,
            }));
        }
    }
}

fn mishaps(cells: &mut Vec<Cell>, strategies: &[Strategy]) {
    for strategy in strategies {
        cells.extend(Mishap::ALL.map(|mishap| Cell::Mishap { mishap, strategy: *strategy }));
    }
}

#[cfg(test)]
mod tests {
    use super::Scope;
    use crate::Cell;

    #[test]
    fn a_file_can_not_ask_for_the_impossible() {
        let study = crate::simulate(crate::model::h200(), Scope::Quick, 1, String::new(), "0.1.0");
        assert!(crate::Study::read(&study.json()).is_ok());
        for (field, value) in [
            ("window", "1e300"),
            ("window", "0"),
            ("warm_up", "-1"),
            ("windows", "0"),
            ("passes", "4294967295"),
        ] {
            let mut text: serde_json::Value = serde_json::from_str(&study.json()).unwrap();
            text["timing"][field] = serde_json::from_str(value).unwrap();
            let told = crate::Study::read(&text.to_string());
            assert!(matches!(told, Err(crate::StudyError::Timing(_))), "{field}: {value}");
        }
    }

    #[test]
    fn a_larger_scope_has_the_cells_of_the_smaller() {
        let (quick, default, full) = (Scope::Quick.cells(), Scope::Default.cells(), Scope::Full.cells());
        assert!(quick.iter().all(|cell| default.contains(cell)), "{quick:?}");
        assert!(default.iter().all(|cell| full.contains(cell)));
        assert_eq!(full[0], Cell::Overhead);
    }
}
