//! How long tenants take to start, and what measuring itself costs.

use super::reading::{NOTHING, measured, worst};
use super::{Column, Section, Table};
use crate::spread::number;
use crate::{Cell, Figures, Spread, Strategy, Study, Workload};
use std::collections::BTreeSet;

/// Start-up by strategy, of programs of our own and of those in Python, which mostly load packages.
pub(super) fn section(study: &Study) -> Option<Section> {
    let (python, own): (Vec<Workload>, Vec<Workload>) =
        measured(study).into_iter().partition(|workload| workload.package().is_some());
    if python.is_empty() && own.is_empty() {
        return None;
    }
    let mut section = Section::new("Start-up").paragraph(
        "Seconds from the start of a process until it is ready to work, of the tenant that takes longest: the median of \
         all workloads, and in brackets the least and the most of them.",
    );
    if !own.is_empty() {
        section = section.table(table(study, &own));
    }
    if !python.is_empty() {
        section = section
            .paragraph("Programs in Python, which load their packages first:")
            .table(table(study, &python));
    }
    Some(section)
}

fn table(study: &Study, workloads: &[Workload]) -> Table {
    let of =
        |strategy: Strategy| workloads.iter().flat_map(move |workload| study.counts(*workload, strategy));
    let counts: BTreeSet<u8> = Strategy::ALL.into_iter().flat_map(of).collect();
    let mut columns = vec![Column::words("strategy")];
    columns.extend(counts.iter().map(|count| Column::numbers(super::reading::tenants(*count))));
    let mut table = Table::new(columns);
    for strategy in Strategy::ALL.into_iter().filter(|strategy| of(*strategy).next().is_some()) {
        let mut row = vec![strategy.title().to_owned()];
        row.extend(counts.iter().map(|count| {
            let seconds = |workload: &Workload| {
                let shared = study.shared(*workload, strategy, *count)?;
                worst(shared, |tenant| Some(tenant.start_up_s)).map(|spread| spread.median)
            };
            let all: Vec<f64> = workloads.iter().filter_map(seconds).collect();
            Spread::of(&all).map_or(NOTHING.to_owned(), |spread| {
                match (number(spread.low), number(spread.high)) {
                    (low, high) if low == high => low,
                    (low, high) => format!("{} ({low}–{high})", number(spread.median)),
                }
            })
        }));
        table.row(row);
    }
    table
}

/// What measuring costs, so that nobody takes it for the card's.
pub(super) fn overhead(study: &Study) -> Option<Section> {
    let Some(Figures::Overhead(overhead)) = study.figures(&Cell::Overhead) else { return None };
    let mut points = vec![
        format!(
            "One round of the loop that only looks at the clock and writes down how long it took: {}.",
            with_unit(overhead.round_ns, "ns")
        ),
        format!(
            "From the launch of a kernel that does nothing until it is known to be done: {}.",
            with_unit(overhead.launch_us, "µs")
        ),
    ];
    let request = study
        .dedicated(Workload::Light)
        .and_then(|shared| worst(shared, |tenant| tenant.p50_ms))
        .filter(|request| request.median > 0.0);
    if let Some(request) = request {
        let part = overhead.round_ns.median / (request.median * 1e6) * 100.0;
        points.push(format!(
            "A request of light inference takes {} ms: {} % of that is measuring.",
            number(request.median),
            if part < 0.001 { "less than 0.001".to_owned() } else { number(part) }
        ));
    }
    Some(Section::new("What measuring costs").list(points))
}

fn with_unit(spread: Spread, unit: &str) -> String {
    format!("{} {unit} (±{:.1} %)", number(spread.median), spread.margin_percent())
}

#[cfg(test)]
mod tests {
    use super::{overhead, section};
    use crate::report::Block;
    use crate::report::example::{empty, example};

    #[test]
    fn start_up_is_that_of_the_slowest_tenant() {
        let section = section(&example()).unwrap();
        let Some(Block::Table(table)) = section.blocks.get(1) else { unreachable!("{section:?}") };
        let titles: Vec<&str> = table.columns().iter().map(|column| column.title.as_str()).collect();
        assert_eq!(titles, ["strategy", "1 tenant", "2 tenants", "4 tenants"]);
        assert_eq!(table.rows()[0], ["dedicated", "0.300", "–", "–"]);
        assert_eq!(table.rows()[1][0], "time-slicing");
        // The example's second tenant of four takes 30 ms longer than the first, the fourth 90.
        assert_eq!(table.rows()[1][3], "0.390");
    }

    #[test]
    fn measuring_costs_what_the_study_says() {
        let Block::List(points) = overhead(&example()).unwrap().blocks.remove(0) else { unreachable!() };
        assert!(points[0].contains("45.0 ns (±8.0 %)") && points[1].contains("6.20 µs (±"), "{points:?}");
        assert!(points[2].contains("measuring"), "{points:?}");
        assert_eq!(overhead(&empty()), None);
    }
}
