//! What tenants reach that do the same: a table and pictures for each workload.

use super::reading::{
    NOTHING, Row, capital, measured, mebibytes, range_text, rows, spread_text, times, times_text, word, worst,
};
use super::{Column, Section, Table, bars, latency};
use crate::spread::number;
use crate::{Board, Shared, Study, Workload};

/// All workloads of which something was measured.
pub(super) fn section(study: &Study) -> Option<Section> {
    let workloads = measured(study);
    if workloads.is_empty() {
        return None;
    }
    let section = Section::new("Workloads").paragraph(
        "Tenants that all do the same. \"Together\" is what they do in sum; \"of dedicated\" compares that with one \
         tenant that has the card to itself; \"each\" is the slowest and the fastest tenant. Latency, completion and \
         start-up are those of the tenant that has it worst. Busy is the part of the time in which any kernel ran, as \
         the driver reports it: it says nothing of how much of the card that kernel used.",
    );
    Some(workloads.into_iter().fold(section, |section, workload| section.part(part(study, workload))))
}

fn part(study: &Study, workload: Workload) -> Section {
    let (rows, left): (Vec<_>, Vec<_>) =
        rows(study, workload).into_iter().partition(|row| row.outcome.is_some());
    let section = Section::new(capital(workload.title()))
        .picture(bars::picture(study, workload, &rows))
        .picture(latency::picture(study, workload, &rows))
        .table(table(study, workload, &rows));
    match left.len() {
        0 => section,
        1 => section.paragraph("Another one was not run; the end of the report names it."),
        more => section.paragraph(format!("{more} others were not run; the end of the report names them.")),
    }
}

fn table(study: &Study, workload: Workload, rows: &[Row<'_>]) -> Table {
    let unit = workload.unit().word();
    let dedicated = study.dedicated(workload).map(|shared| shared.total.median);
    let mut table = Table::new(vec![
        Column::numbers("tenants"),
        Column::words("strategy"),
        Column::numbers(format!("together, {unit}")),
        Column::numbers("of dedicated"),
        Column::numbers(format!("each, {unit}")),
        Column::numbers(format!("asked for, {unit}")),
        Column::numbers("p50, ms"),
        Column::numbers("p95, ms"),
        Column::numbers("p99, ms"),
        Column::numbers("completion, s"),
        Column::numbers("start-up, s"),
        Column::numbers("allocated by each, MiB"),
        Column::numbers("in use on the card, MiB"),
        Column::numbers("busy, %"),
        Column::numbers("power, W"),
    ]);
    let mut last = None;
    for row in rows {
        if last.replace(row.tenants) != Some(row.tenants) {
            table.group();
        }
        let mut cells = vec![row.tenants.to_string(), row.strategy.title().to_owned()];
        match row.shared {
            Some(shared) => cells.extend(figures(shared, dedicated)),
            None => {
                cells.push(word(row.outcome).to_owned());
                cells.resize(table.columns().len(), NOTHING.to_owned());
            }
        }
        table.row(cells);
    }
    table.without_empty_columns()
}

fn figures(shared: &Shared, dedicated: Option<f64>) -> Vec<String> {
    let ratio = dedicated.and_then(|dedicated| times(shared.total.median, dedicated));
    let arrivals: Vec<f64> = shared.tenants.iter().filter_map(|tenant| tenant.arrivals).collect();
    let board = shared.board.unwrap_or(Board { busy_percent: None, watts: None, memory_mib: None });
    let whole = |value: Option<f64>| value.map_or(NOTHING.to_owned(), |value| format!("{value:.0}"));
    vec![
        shared.total.to_string(),
        ratio.map_or(NOTHING.to_owned(), times_text),
        range_text(shared.tenants.iter().map(|tenant| tenant.rate.median)),
        if arrivals.is_empty() { NOTHING.to_owned() } else { number(arrivals.iter().sum()) },
        spread_text(worst(shared, |tenant| tenant.p50_ms)),
        spread_text(worst(shared, |tenant| tenant.p95_ms)),
        spread_text(worst(shared, |tenant| tenant.p99_ms)),
        spread_text(worst(shared, |tenant| tenant.completion_s)),
        spread_text(worst(shared, |tenant| Some(tenant.start_up_s))),
        mebibytes(shared.tenants.iter().map(|tenant| tenant.memory_mib)),
        mebibytes(board.memory_mib),
        whole(board.busy_percent),
        whole(board.watts),
    ]
}

#[cfg(test)]
mod tests {
    use super::{section, table};
    use crate::report::example::example;
    use crate::report::reading::rows;
    use crate::report::{Block, Table};
    use crate::{Strategy, Workload};

    fn titles(table: &Table) -> Vec<&str> {
        table.columns().iter().map(|column| column.title.as_str()).collect()
    }

    #[test]
    fn a_table_has_the_columns_of_its_workload() {
        let study = example();
        let of = |workload| table(&study, workload, &rows(&study, workload));
        let (light, batch, open) = (of(Workload::Light), of(Workload::Batch), of(Workload::LightOpen));
        assert!(titles(&light).contains(&"p99, ms") && !titles(&light).contains(&"completion, s"));
        assert!(titles(&batch).contains(&"completion, s") && !titles(&batch).contains(&"p99, ms"));
        assert!(titles(&open).contains(&"asked for, requests/s"));
    }

    #[test]
    fn figures_are_those_of_the_study() {
        let study = example();
        let table = table(&study, Workload::Light, &rows(&study, Workload::Light));
        let row = |tenants: &str, strategy: Strategy| {
            table.rows().iter().find(|row| row[0] == tenants && row[1] == strategy.title()).unwrap()
        };
        let alone = row("1", Strategy::Dedicated);
        let dedicated = study.dedicated(Workload::Light).unwrap();
        assert_eq!((alone[2].as_str(), alone[3].as_str()), (dedicated.total.to_string().as_str(), "1.00×"));
        // The example has skipped what needs MIG, and says so in place of figures.
        assert_eq!(row("2", Strategy::Mig)[2], "skipped");
        assert_eq!(row("2", Strategy::MigMps)[3], "–");
    }

    #[test]
    fn each_workload_has_its_part() {
        let section = section(&example()).unwrap();
        assert_eq!(section.parts.len(), 5);
        for part in &section.parts {
            assert!(part.blocks.iter().any(|block| matches!(block, Block::Table(_))), "{}", part.title);
        }
    }
}
