//! Who hurts whom: what a tenant keeps beside a neighbour that does something else.

use super::reading::{NOTHING, capital, times, times_text, word};
use super::{Column, Section, Table, heat};
use crate::{Beside, Cell, Figures, Outcome, Strategy, Study, Workload};
use std::collections::BTreeSet;

/// What one neighbour does to one tenant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Harm {
    /// What is left of its rate, in percent.
    pub(super) kept: f64,
    /// How many times as long 99 of 100 of its requests take.
    pub(super) p99: Option<f64>,
}

/// All that is known of one strategy.
pub(super) struct Matrix<'a> {
    pub(super) strategy: Strategy,
    /// Who is looked at.
    pub(super) victims: Vec<Workload>,
    /// Beside whom.
    pub(super) aggressors: Vec<Workload>,
    pub(super) study: &'a Study,
}

impl<'a> Matrix<'a> {
    /// Of a strategy of which at least one pair was measured.
    pub(super) fn of(study: &'a Study, strategy: Strategy) -> Option<Self> {
        let planned = study.scope.cells();
        let pairs: Vec<(Workload, Workload, bool)> = study
            .cells
            .iter()
            .map(|record| (&record.cell, matches!(record.outcome, Outcome::Measured(_))))
            .chain(planned.iter().map(|cell| (cell, false)))
            .filter_map(|(cell, measured)| match cell {
                Cell::Beside { victim, aggressor, strategy: how } if *how == strategy => {
                    Some((*victim, *aggressor, measured))
                }
                _ => None,
            })
            .collect();
        if !pairs.iter().any(|(_, _, measured)| *measured) {
            return None;
        }
        let victims: BTreeSet<Workload> = pairs.iter().map(|(victim, _, _)| *victim).collect();
        let aggressors: BTreeSet<Workload> = pairs.iter().map(|(_, aggressor, _)| *aggressor).collect();
        Some(Matrix {
            strategy,
            victims: victims.into_iter().collect(),
            aggressors: aggressors.into_iter().collect(),
            study,
        })
    }

    fn cell(&self, victim: Workload, aggressor: Workload) -> Cell {
        Cell::Beside { victim, aggressor, strategy: self.strategy }
    }

    /// What was measured of a pair.
    pub(super) fn harm(&self, victim: Workload, aggressor: Workload) -> Option<Harm> {
        match self.study.figures(&self.cell(victim, aggressor))? {
            Figures::Beside(Beside { alone, beside }) => Some(Harm {
                kept: times(beside.rate.median, alone.rate.median)? * 100.0,
                p99: beside
                    .p99_ms
                    .zip(alone.p99_ms)
                    .and_then(|(with, without)| times(with.median, without.median)),
            }),
            _ => None,
        }
    }

    /// Why nothing was measured of a pair; a dash where it was never meant to be.
    pub(super) fn why_not(&self, victim: Workload, aggressor: Workload) -> &'static str {
        let cell = self.cell(victim, aggressor);
        match self.study.outcome(&cell) {
            None if !self.study.scope.cells().contains(&cell) => NOTHING,
            outcome => word(outcome),
        }
    }

    /// The pair in which least is kept.
    fn worst(&self) -> Option<(Workload, Workload, Harm)> {
        let pairs =
            self.victims.iter().flat_map(|victim| self.aggressors.iter().map(move |other| (*victim, *other)));
        let harms = pairs.filter_map(|(victim, other)| Some((victim, other, self.harm(victim, other)?)));
        harms.min_by(|one, other| one.2.kept.total_cmp(&other.2.kept))
    }

    fn table(&self) -> Table {
        let mut columns = vec![Column::words("who is looked at")];
        columns.extend(self.aggressors.iter().map(|one| Column::numbers(format!("beside {}", one.title()))));
        let mut table = Table::new(columns);
        for victim in &self.victims {
            let mut row = vec![victim.title().to_owned()];
            row.extend(self.aggressors.iter().map(|aggressor| match self.harm(*victim, *aggressor) {
                Some(harm) => harm_text(harm),
                None => self.why_not(*victim, *aggressor).to_owned(),
            }));
            table.row(row);
        }
        table
    }
}

fn harm_text(harm: Harm) -> String {
    let p99 = harm.p99.map_or(String::new(), |ratio| format!(", p99 {}", times_text(ratio)));
    format!("{:.0} %{p99}", harm.kept)
}

/// A matrix for each strategy of which something was measured.
pub(super) fn section(study: &Study) -> Option<Section> {
    let matrices: Vec<Matrix<'_>> =
        Strategy::ALL.into_iter().filter_map(|strategy| Matrix::of(study, strategy)).collect();
    if matrices.is_empty() {
        return None;
    }
    let mut worst = Table::new(vec![
        Column::words("strategy"),
        Column::words("hurt most"),
        Column::words("by"),
        Column::numbers("keeps of its rate"),
        Column::numbers("p99"),
    ]);
    for matrix in &matrices {
        if let Some((victim, aggressor, harm)) = matrix.worst() {
            worst.row(vec![
                matrix.strategy.title().to_owned(),
                victim.title().to_owned(),
                aggressor.title().to_owned(),
                format!("{:.0} %", harm.kept),
                harm.p99.map_or(NOTHING.to_owned(), times_text),
            ]);
        }
    }
    let section = Section::new("Who hurts whom")
        .paragraph(
            "One tenant beside another that does something else. The percentage is what it keeps of the rate that it \
             has under the same strategy and limits without a neighbour; p99 is how many times as long 99 of 100 of \
             its requests take. The worst of each strategy first, then all of it.",
        )
        .table(worst.without_empty_columns());
    Some(matrices.iter().fold(section, |section, matrix| {
        let part = Section::new(capital(matrix.strategy.title()));
        section.part(part.picture(Some(heat::picture(matrix))).table(matrix.table()))
    }))
}

#[cfg(test)]
mod tests {
    use super::{Matrix, section};
    use crate::report::Block;
    use crate::report::example::example;
    use crate::{Strategy, Workload};

    #[test]
    fn a_matrix_has_shares_of_what_is_reached_alone() {
        let study = example();
        let matrix = Matrix::of(&study, Strategy::TimeSlicing).unwrap();
        let harm = matrix.harm(Workload::Light, Workload::Burn).unwrap();
        assert!((harm.kept - 42.0).abs() < 0.01, "{harm:?}");
        assert!((harm.p99.unwrap() - 3.0).abs() < 0.01, "{harm:?}");
        assert_eq!(matrix.harm(Workload::Burn, Workload::Light), None);
        assert_eq!(matrix.why_not(Workload::Burn, Workload::Light), "–");
        assert!(Matrix::of(&study, Strategy::Mig).is_none());
    }

    #[test]
    fn the_worst_of_each_strategy_comes_first() {
        let section = section(&example()).unwrap();
        let Some(Block::Table(worst)) = section.blocks.get(1) else { unreachable!("{section:?}") };
        assert_eq!(
            worst.rows()[0],
            ["time-slicing", "light inference", "GPU-intensive job", "42 %", "3.00×"]
        );
        assert_eq!(section.parts.len(), worst.rows().len());
    }

    #[test]
    fn pairs_that_were_not_measured_say_why() {
        let study = example();
        let matrix = Matrix::of(&study, Strategy::Limiter).unwrap();
        assert_eq!(matrix.why_not(Workload::Light, Workload::Bandwidth), "not run");
        assert!(matrix.table().rows()[0].contains(&"not run".to_owned()));
    }
}
