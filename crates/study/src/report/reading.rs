//! Figures of tenants, read as tables and pictures need them.

use crate::spread::number;
use crate::{Cell, Outcome, Shared, Spread, Strategy, Study, Tenant, Workload};
use std::collections::BTreeSet;

/// What stands where there is nothing to say.
pub(super) const NOTHING: &str = "–";

/// A row of a workload's table: how many tenants, how they share, and what came of it; none where it was not run.
pub(super) struct Row<'a> {
    pub(super) tenants: u8,
    pub(super) strategy: Strategy,
    pub(super) outcome: Option<&'a Outcome>,
    pub(super) shared: Option<&'a Shared>,
}

/// Workloads of which something was measured, in the order of tables.
pub(super) fn measured(study: &Study) -> Vec<Workload> {
    let has = |workload: &Workload| Strategy::ALL.iter().any(|how| !study.counts(*workload, *how).is_empty());
    Workload::ALL.into_iter().filter(has).collect()
}

/// All cells of a workload, those that were not run too; fewest tenants first.
pub(super) fn rows(study: &Study, workload: Workload) -> Vec<Row<'_>> {
    let planned = study.scope.cells();
    let known = study.cells.iter().map(|record| &record.cell);
    let cells: BTreeSet<(u8, Strategy)> = known
        .chain(&planned)
        .filter_map(|cell| match cell {
            Cell::Share { workload: what, strategy, tenants } if *what == workload => {
                Some((*tenants, *strategy))
            }
            _ => None,
        })
        .collect();
    let row = |(tenants, strategy)| Row {
        tenants,
        strategy,
        outcome: study.outcome(&Cell::Share { workload, strategy, tenants }),
        shared: study.shared(workload, strategy, tenants),
    };
    cells.into_iter().map(row).collect()
}

/// In place of figures: why there are none.
pub(super) fn word(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Measured(_)) => NOTHING,
        Some(Outcome::Skipped(_)) => "skipped",
        Some(Outcome::Failed(_)) => "failed",
        None => "not run",
    }
}

/// So many tenants, in words.
pub(super) fn tenants(count: u8) -> String {
    if count == 1 { "1 tenant".to_owned() } else { format!("{count} tenants") }
}

/// A figure of the tenant for whom it is greatest.
pub(super) fn worst(shared: &Shared, figure: impl Fn(&Tenant) -> Option<Spread>) -> Option<Spread> {
    shared.tenants.iter().filter_map(figure).max_by(|one, other| one.median.total_cmp(&other.median))
}

/// How many times another figure one is; none where that says nothing.
pub(super) fn times(figure: f64, of: f64) -> Option<f64> {
    let ratio = figure / of;
    (of > 0.0 && ratio.is_finite()).then_some(ratio)
}

/// As people write it.
pub(super) fn times_text(ratio: f64) -> String {
    format!("{ratio:.2}×")
}

/// A figure with its spread, or a dash.
pub(super) fn spread_text(spread: Option<Spread>) -> String {
    spread.map_or(NOTHING.to_owned(), |spread| spread.to_string())
}

/// The least and the most of several figures; one number where they read the same.
pub(super) fn range_text(figures: impl IntoIterator<Item = f64>) -> String {
    let figures: Vec<f64> = figures.into_iter().collect();
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match (number(least), number(most)) {
        _ if figures.is_empty() => NOTHING.to_owned(),
        (least, most) if least == most => least,
        (least, most) => format!("{least}–{most}"),
    }
}

/// Mebibytes, whole.
pub(super) fn mebibytes(figures: impl IntoIterator<Item = u64>) -> String {
    let figures: Vec<u64> = figures.into_iter().collect();
    let text = |value: u64| if value < 100 { value.to_string() } else { number(value as f64) };
    match (figures.iter().min(), figures.iter().max()) {
        (Some(least), Some(most)) if least == most => text(*least),
        (Some(least), Some(most)) => format!("{}–{}", text(*least), text(*most)),
        _ => NOTHING.to_owned(),
    }
}

/// Seconds as people say them.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// The title of a picture. It says where nothing was measured, for pictures are passed on without their page.
pub(super) fn titled(study: &Study, about: &str, what: &str) -> String {
    let simulated = if study.card.simulated { " (simulated)" } else { "" };
    format!("{}: {what}{simulated}", capital(about))
}

/// The same letters, the first one large.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::{capital, duration, mebibytes, range_text, rows, times};
    use crate::report::example::example;
    use crate::{Strategy, Workload};

    #[test]
    fn ranges_are_short_where_they_can_be() {
        assert_eq!(range_text([3.0, 1.0, 2.0]), "1.00–3.00");
        assert_eq!(range_text([1.001, 1.002]), "1.00");
        assert_eq!(range_text([]), "–");
        assert_eq!(mebibytes([1234, 64]), "64–1,234");
        assert_eq!(duration(3725.0), "1 h 2 min");
        assert_eq!(duration(89.6), "1 min 30 s");
        assert_eq!(duration(7.2), "7 s");
        assert_eq!(times(1.0, 0.0), None);
        assert_eq!(capital("small job"), "Small job");
    }

    #[test]
    fn rows_have_what_was_not_run_too() {
        let study = example();
        let rows = rows(&study, Workload::Light);
        assert_eq!((rows[0].tenants, rows[0].strategy), (1, Strategy::Dedicated));
        assert!(rows.iter().any(|row| row.outcome.is_none()));
        assert!(rows.iter().any(|row| row.outcome.is_some() && row.shared.is_none()));
    }
}
