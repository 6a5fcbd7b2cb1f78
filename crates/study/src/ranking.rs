//! Strategies in the order of what can be measured of them, beside the order that the talk gives.
//!
//! - Performance isolation: what a tenant keeps of its rate beside its worst neighbour, over the pairs that all ranked
//!   strategies have figures of.
//! - Fault isolation: the part of the mishaps that left the neighbour working, likewise.
//! - Efficiency: how many times of one tenant's work tenants do together; the geometric mean over the cells of kinds of
//!   work that all ranked strategies have figures of.
//! - Flexibility and ease are no figures, and are not ranked.
//!
//! Strategies that differ by less than their spreads have the same rank. Time-slicing gives the cells to rank by, because
//! every card can do it; a strategy that lacks one of them is not ranked, and says so.

use crate::evidence::kept;
use crate::ratio::{list, ratio};
use crate::{Cell, Class, Figures, Mishap, Spread, Strategy, Study, Workload};
use serde::Serialize;
use std::fmt;

/// What strategies are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Property {
    /// How little neighbours' load does.
    PerformanceIsolation,
    /// How little neighbours' mishaps do.
    FaultIsolation,
    /// How much tenants do together.
    Efficiency,
    /// How freely a GPU can be divided.
    Flexibility,
    /// How little there is to set up.
    Ease,
}

/// Strategies with the same rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rank {
    /// Which, from the greatest figure to the least.
    pub strategies: Vec<(Strategy, Spread)>,
}

/// Strategies in the order of a property.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// Which property.
    pub property: Property,
    /// Ranks, the best first; empty where nothing could be ranked.
    pub ranks: Vec<Rank>,
    /// Strategies that lack cells, with the first that they lack.
    pub unranked: Vec<(Strategy, Cell)>,
    /// How many cells each was ranked by.
    pub cells: usize,
}

impl Property {
    /// All of them, in the talk's order.
    pub const ALL: [Property; 5] = [
        Property::PerformanceIsolation,
        Property::FaultIsolation,
        Property::Efficiency,
        Property::Flexibility,
        Property::Ease,
    ];

    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Property::PerformanceIsolation => "performance isolation",
            Property::FaultIsolation => "fault isolation",
            Property::Efficiency => "efficiency",
            Property::Flexibility => "flexibility of parts",
            Property::Ease => "ease of setting up",
        }
    }

    /// The talk's order, the best first.
    pub const fn talk(self) -> &'static [Strategy] {
        match self {
            Property::PerformanceIsolation => &[Strategy::Mig, Strategy::Mps, Strategy::TimeSlicing],
            Property::FaultIsolation => &[Strategy::Mig, Strategy::TimeSlicing, Strategy::Mps],
            Property::Efficiency => &[Strategy::Mps, Strategy::TimeSlicing],
            Property::Flexibility => &[Strategy::Mps, Strategy::Mig],
            Property::Ease => &[Strategy::TimeSlicing, Strategy::Mps, Strategy::Mig],
        }
    }

    /// Why it can not be measured; none where it can.
    pub const fn unmeasurable(self) -> Option<&'static str> {
        match self {
            Property::Flexibility => {
                Some("how freely parts are cut is a property of the mechanism, and no figure")
            }
            Property::Ease => Some("how easy something is to set up is a judgement, and no figure"),
            _ => None,
        }
    }

    /// What a figure of it says, as people read it.
    pub fn figure(self, score: &Spread) -> String {
        match self {
            Property::PerformanceIsolation => format!("keeps {:.0} %", score.median * 100.0),
            Property::FaultIsolation => format!("{:.0} % survived", score.median * 100.0),
            _ => format!("{:.2} times", score.median),
        }
    }

    /// The cells of a strategy that it is ranked by.
    fn cells(self, study: &Study, strategy: Strategy) -> Vec<Cell> {
        let measured = |cell: &Cell| study.figures(cell).is_some();
        let mut cells = Vec::new();
        match self {
            Property::PerformanceIsolation => {
                for victim in Workload::ALL {
                    cells.extend(Workload::ALL.map(|aggressor| Cell::Beside { victim, aggressor, strategy }));
                }
            }
            Property::FaultIsolation => {
                cells.extend(Mishap::ALL.map(|mishap| Cell::Mishap { mishap, strategy }))
            }
            Property::Efficiency => {
                for workload in Class::ALL.map(Class::workload) {
                    let counts = study.counts(workload, strategy).into_iter().filter(|tenants| *tenants > 1);
                    cells.extend(counts.map(|tenants| Cell::Share { workload, strategy, tenants }));
                }
                // Without what one tenant does alone there is nothing to compare with.
                cells.retain(|cell| cell.workloads().iter().all(|one| study.dedicated(*one).is_some()));
            }
            Property::Flexibility | Property::Ease => {}
        }
        cells.retain(measured);
        cells
    }

    /// What a strategy reaches over cells; none where it has no figure of one.
    fn score(self, study: &Study, cells: &[Cell]) -> Option<Spread> {
        let scores: Option<Vec<Spread>> = cells
            .iter()
            .map(|cell| match study.figures(cell)? {
                Figures::Beside(beside) => kept(beside),
                Figures::Happened(happened) => {
                    let survived = f64::from(u8::from(happened.survived));
                    Some(Spread { median: survived, low: survived, high: survived, times: 1 })
                }
                Figures::Shared(shared) => {
                    let workload = cell.workloads().first().copied()?;
                    ratio(&shared.total, &study.dedicated(workload)?.total)
                }
                Figures::Overhead(_) => None,
            })
            .collect();
        let scores = scores.filter(|scores| !scores.is_empty())?;
        let count = scores.len() as f64;
        let mean = |of: &dyn Fn(&Spread) -> f64| scores.iter().map(of).sum::<f64>() / count;
        match self {
            Property::PerformanceIsolation => {
                scores.into_iter().min_by(|one, other| one.median.total_cmp(&other.median))
            }
            Property::FaultIsolation => {
                let median = mean(&|one| one.median);
                Some(Spread { median, low: median, high: median, times: 1 })
            }
            _ => {
                let median = mean(&|one| one.median.max(f64::MIN_POSITIVE).ln()).exp();
                let margin = median * mean(&Spread::margin_percent) / 100.0;
                let times = scores.iter().map(|one| one.times).min().unwrap_or(0);
                Some(Spread::around(median, margin, times))
            }
        }
    }
}

/// The same cell under another strategy.
const fn under(cell: Cell, strategy: Strategy) -> Cell {
    match cell {
        Cell::Overhead => Cell::Overhead,
        Cell::Share { workload, tenants, .. } => Cell::Share { workload, strategy, tenants },
        Cell::Beside { victim, aggressor, .. } => Cell::Beside { victim, aggressor, strategy },
        Cell::Mishap { mishap, .. } => Cell::Mishap { mishap, strategy },
    }
}

/// Strategies in the order of each of the talk's five properties.
pub fn ranking(study: &Study) -> Vec<Ranking> {
    Property::ALL.into_iter().map(|property| rank(study, property)).collect()
}

fn rank(study: &Study, property: Property) -> Ranking {
    let basis = property.cells(study, Strategy::TimeSlicing);
    let mut scores = Vec::new();
    let mut unranked = Vec::new();
    let for_pods = |strategy: &Strategy| strategy.mechanism().is_some() && *strategy != Strategy::Dedicated;
    for strategy in Strategy::ALL.into_iter().filter(for_pods) {
        let cells: Vec<Cell> = basis.iter().map(|cell| under(*cell, strategy)).collect();
        match cells.iter().find(|cell| study.figures(cell).is_none()) {
            Some(lacking) => unranked.push((strategy, *lacking)),
            None => scores.extend(property.score(study, &cells).map(|score| (strategy, score))),
        }
    }
    scores.sort_by(|one, other| other.1.median.total_cmp(&one.1.median));
    let mut ranks: Vec<Rank> = Vec::new();
    for (strategy, score) in scores {
        let leader = ranks.last().and_then(|rank| rank.strategies.first());
        match (leader.is_some_and(|(_, leading)| leading.agrees(&score)), ranks.last_mut()) {
            (true, Some(rank)) => rank.strategies.push((strategy, score)),
            _ => ranks.push(Rank { strategies: vec![(strategy, score)] }),
        }
    }
    Ranking { property, ranks, unranked, cells: basis.len() }
}

impl Ranking {
    /// A strategy's rank, 0 for the best, and its figure; none where it is not ranked.
    pub fn place(&self, strategy: Strategy) -> Option<(usize, Spread)> {
        self.ranks.iter().enumerate().find_map(|(place, rank)| {
            rank.strategies.iter().find(|(one, _)| *one == strategy).map(|(_, score)| (place, *score))
        })
    }

    /// The order with its figures, or why there is none.
    pub fn sentence(&self) -> String {
        if let Some(why) = self.property.unmeasurable() {
            return format!("not ranked: {why}");
        }
        if self.ranks.is_empty() {
            return "not ranked: nothing of it was measured under time-slicing, by whose cells strategies are ranked"
                .to_owned();
        }
        let ranks: Vec<String> = self
            .ranks
            .iter()
            .map(|rank| {
                let each = |(strategy, score): &(Strategy, Spread)| {
                    format!("{} ({})", strategy.title(), self.property.figure(score))
                };
                rank.strategies.iter().map(each).collect::<Vec<_>>().join(" = ")
            })
            .collect();
        let mut text = ranks.join(" > ");
        if !self.unranked.is_empty() {
            let names: Vec<String> = self.unranked.iter().map(|(one, _)| one.word().to_owned()).collect();
            text.push_str(&format!("; not ranked, for cells that they lack: {}", list(&names)));
        }
        text
    }
}

impl fmt::Display for Ranking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property.title(), self.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::{Property, ranking};
    use crate::model::h200;
    use crate::{Scope, Strategy, Study, simulate};

    #[test]
    fn a_modelled_h200_has_an_order_by_what_was_measured() {
        let all = ranking(&simulate(h200(), Scope::Full, 1, String::new(), "0.1.0"));
        let place = |property: usize, strategy| all[property].place(strategy).map(|(place, _)| place);
        assert_eq!(place(0, Strategy::Mig), Some(0), "{}", all[0]);
        assert!(place(1, Strategy::TimeSlicing) > place(1, Strategy::Mig), "{}", all[1]);
        assert!(place(1, Strategy::Mps) > place(1, Strategy::TimeSlicing), "{}", all[1]);
        assert!(place(2, Strategy::Mps) < place(2, Strategy::TimeSlicing), "{}", all[2]);
        // It can not have eight tenants, and so lacks cells that others have.
        assert!(all[2].unranked.iter().any(|(one, _)| *one == Strategy::Mig), "{}", all[2]);
        assert!(all[2].sentence().contains("MPS ("), "{}", all[2]);
        for unmeasurable in &all[3..] {
            assert!(unmeasurable.ranks.is_empty());
            assert!(unmeasurable.sentence().starts_with("not ranked: how "), "{unmeasurable}");
        }
        assert!(
            all.iter()
                .flat_map(|one| &one.ranks)
                .flat_map(|rank| &rank.strategies)
                .all(|(one, _)| one.mechanism().is_some())
        );
    }

    #[test]
    fn nothing_measured_ranks_nobody() {
        let empty = Study::new("", String::new(), h200(), Scope::Quick, Scope::Quick.timing());
        for one in ranking(&empty) {
            assert!(one.ranks.is_empty(), "{one}");
            assert!(one.sentence().starts_with("not ranked"));
        }
        assert_eq!(Property::Efficiency.talk(), [Strategy::Mps, Strategy::TimeSlicing]);
    }
}
