//! What a mishap does to a neighbour.

use super::reading::{NOTHING, word};
use super::{Column, Section, Table};
use crate::spread::number;
use crate::{Cell, Figures, Happened, Mishap, Outcome, Strategy, Study};

/// Which strategies keep a neighbour alive, and what exactly happened.
pub(super) fn section(study: &Study) -> Option<Section> {
    let planned = study.scope.cells();
    let tried = |strategy: &Strategy| {
        let of = |cell: &Cell| matches!(cell, Cell::Mishap { strategy: how, .. } if how == strategy);
        study.cells.iter().any(|record| of(&record.cell)) || planned.iter().any(of)
    };
    let strategies: Vec<Strategy> = Strategy::ALL.into_iter().filter(tried).collect();
    let outcome = |strategy: Strategy, mishap: Mishap| study.outcome(&Cell::Mishap { mishap, strategy });
    let happened = |strategy: Strategy, mishap: Mishap| happened(outcome(strategy, mishap));
    let any =
        strategies.iter().any(|strategy| Mishap::ALL.iter().any(|one| happened(*strategy, *one).is_some()));
    if !any {
        return None;
    }
    let mut columns = vec![Column::words("strategy")];
    columns.extend(Mishap::ALL.map(|mishap| Column::words(mishap.title())));
    let mut grid = Table::new(columns);
    let mut details = Table::new(vec![
        Column::words("strategy"),
        Column::words("mishap"),
        Column::words("the offender met"),
        Column::words("the neighbour"),
        Column::numbers("before, requests/s"),
        Column::numbers("after, requests/s"),
        Column::numbers("longest gap, ms"),
        Column::words("a new tenant"),
    ]);
    for strategy in strategies {
        let mut row = vec![strategy.title().to_owned()];
        details.group();
        for mishap in Mishap::ALL {
            let cell = Cell::Mishap { mishap, strategy };
            row.push(match (happened(strategy, mishap), outcome(strategy, mishap)) {
                (Some(happened), _) => short(happened).to_owned(),
                (None, None) if !planned.contains(&cell) => NOTHING.to_owned(),
                (None, outcome) => word(outcome).to_owned(),
            });
            if let Some(happened) = happened(strategy, mishap) {
                details.row(detail(strategy, mishap, happened));
            }
        }
        grid.row(row);
    }
    let section = Section::new("What a mishap does to a neighbour").paragraph(
        "Something goes wrong with one tenant, while a neighbour on the same card answers requests of light inference. Does the neighbour work on?",
    );
    Some(section.table(grid).table(details))
}

fn happened(outcome: Option<&Outcome>) -> Option<&Happened> {
    match outcome {
        Some(Outcome::Measured(Figures::Happened(happened))) => Some(happened),
        _ => None,
    }
}

fn short(happened: &Happened) -> &'static str {
    match (happened.survived, happened.next_works) {
        (true, true) => "works on",
        (true, false) => "works on, but nobody new can start",
        (false, true) => "dies",
        (false, false) => "dies, and nobody new can start",
    }
}

fn detail(strategy: Strategy, mishap: Mishap, happened: &Happened) -> Vec<String> {
    let neighbour = match (&happened.error, happened.survived) {
        (_, true) => "works on".to_owned(),
        (Some(error), false) => format!("dies: {error}"),
        (None, false) => "dies".to_owned(),
    };
    vec![
        strategy.title().to_owned(),
        mishap.title().to_owned(),
        happened.offender.clone(),
        neighbour,
        number(happened.before),
        number(happened.after),
        number(happened.longest_gap_ms),
        if happened.next_works { "starts and works" } else { "can not work" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::section;
    use crate::report::Block;
    use crate::report::example::{empty, example};

    #[test]
    fn each_strategy_says_who_survives() {
        let section = section(&example()).unwrap();
        let tables: Vec<_> = section
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Table(table) => Some(table),
                _ => None,
            })
            .collect();
        let grid = tables[0];
        assert_eq!(grid.rows()[0], ["time-slicing", "works on", "works on", "works on"]);
        assert_eq!(grid.rows()[1][..2], ["MPS", "dies"]);
        let streams = grid.rows().iter().find(|row| row[0] == "streams in one process").unwrap();
        assert_eq!(
            *streams,
            ["streams in one process", "dies, and nobody new can start", "not run", "not run"]
        );
        let details = tables[1];
        let fault = details.rows().iter().find(|row| row[0] == "MPS" && row[1] == "memory fault").unwrap();
        assert!(fault[3].starts_with("dies: CUDA_ERROR_MPS_CLIENT_TERMINATED"), "{fault:?}");
    }

    #[test]
    fn there_is_no_section_where_nothing_was_tried() {
        assert_eq!(section(&empty()), None);
    }
}
