//! A picture of what tenants do together, strategy beside strategy, compared with one tenant alone.

use super::Picture;
use super::canvas::{FAINT, INK, RULE, Side, WIDTH, drawn, round_steps, step_text};
use super::reading::{Row, tenants, times, times_text, titled};
use crate::{Strategy, Study, Workload};
use plotters::style::RGBColor;

/// Where bars begin, and where the longest may end.
pub(super) const LEFT: f64 = 200.0;
pub(super) const RIGHT: f64 = WIDTH - 120.0;
/// Where the column of numbers ends: beside the bars no line crosses them.
pub(super) const END: f64 = WIDTH - 16.0;
/// How high a row is, and the line above a group of them.
pub(super) const ROW: f64 = 23.0;
pub(super) const GROUP: f64 = 28.0;
/// Where the first group begins, and how much stays below the last.
pub(super) const TOP: f64 = 58.0;
pub(super) const BOTTOM: f64 = 58.0;

/// The colour of a strategy in all pictures: relatives are of one hue, and hues are apart for any colour vision.
/// Names stand beside them, so that nobody depends on it.
pub(super) const fn colour(strategy: Strategy) -> RGBColor {
    match strategy {
        Strategy::Dedicated => RGBColor(120, 120, 120),
        Strategy::TimeSlicing => RGBColor(0, 114, 178),
        Strategy::TimeSlicingShort => RGBColor(86, 180, 233),
        Strategy::TimeSlicingLong => RGBColor(60, 90, 130),
        Strategy::Mps => RGBColor(213, 94, 0),
        Strategy::MpsLimits => RGBColor(240, 150, 80),
        Strategy::Limiter => RGBColor(0, 158, 115),
        Strategy::Streams => RGBColor(204, 121, 167),
        Strategy::GreenContexts => RGBColor(150, 90, 150),
        Strategy::Mig => RGBColor(230, 159, 0),
        Strategy::MigTimeSlicing => RGBColor(180, 140, 50),
        Strategy::MigMps => RGBColor(140, 100, 40),
    }
}

/// Draws a workload, where at least one way to share it was measured and the card alone too.
pub(super) fn picture(study: &Study, workload: Workload, rows: &[Row<'_>]) -> Option<Picture> {
    let dedicated = study.dedicated(workload)?.total.median;
    let mut bars = Vec::new();
    for row in rows.iter().filter(|row| row.strategy != Strategy::Dedicated) {
        let Some(shared) = row.shared else { continue };
        let total = shared.total;
        let (Some(middle), Some(low), Some(high)) =
            (times(total.median, dedicated), times(total.low, dedicated), times(total.high, dedicated))
        else {
            continue;
        };
        bars.push(Bar { tenants: row.tenants, strategy: row.strategy, middle, low, high });
    }
    if bars.is_empty() {
        return None;
    }
    let title = titled(study, workload.title(), "what all tenants do together");
    let svg = draw(&title, &bars);
    Some(Picture { name: format!("together-{workload}"), title: described(&title, &bars), svg })
}

struct Bar {
    tenants: u8,
    strategy: Strategy,
    middle: f64,
    low: f64,
    high: f64,
}

/// The picture in words, for those who can not see it.
fn described(title: &str, bars: &[Bar]) -> String {
    let best = bars.iter().max_by(|one, other| one.middle.total_cmp(&other.middle));
    best.map_or(title.to_owned(), |best| {
        format!(
            "{title}, as a multiple of one tenant alone; the most is {} with {} under {}",
            times_text(best.middle),
            tenants(best.tenants),
            best.strategy.title()
        )
    })
}

fn draw(title: &str, bars: &[Bar]) -> String {
    let groups = bars.chunk_by(|one, other| one.tenants == other.tenants).count();
    let bottom = TOP + bars.len() as f64 * ROW + groups as f64 * GROUP;
    let steps = round_steps(bars.iter().map(|bar| bar.high).fold(1.0, f64::max));
    let most = steps.last().copied().unwrap_or(1.0);
    let place = |value: f64| LEFT + (value / most).clamp(0.0, 1.0) * (RIGHT - LEFT);
    drawn((WIDTH, bottom + BOTTOM), |canvas| {
        canvas.bold((16.0, 24.0), title, 18.0, Side::After, INK);
        for step in &steps {
            let x = place(*step);
            canvas.line((x, TOP), (x, bottom), 1, RULE);
            canvas.words((x, bottom + 14.0), &format!("{}×", step_text(*step)), 13.0, Side::Around, FAINT);
        }
        let below = "times what one tenant does that has the card to itself; whiskers: least and most";
        canvas.words(((LEFT + RIGHT) / 2.0, bottom + 38.0), below, 13.0, Side::Around, FAINT);
        let mut y = TOP;
        for group in bars.chunk_by(|one, other| one.tenants == other.tenants) {
            canvas.bold((16.0, y + GROUP / 2.0), &tenants(group[0].tenants), 14.0, Side::After, INK);
            y += GROUP;
            for bar in group {
                let middle = y + ROW / 2.0;
                canvas.words((LEFT - 10.0, middle), bar.strategy.title(), 13.0, Side::Before, INK);
                canvas.rectangle((LEFT, y + 3.0), (place(bar.middle), y + ROW - 3.0), colour(bar.strategy));
                canvas.whisker((place(bar.low), place(bar.high)), middle, 4.0, INK);
                canvas.words((END, middle), &times_text(bar.middle), 13.0, Side::Before, INK);
                y += ROW;
            }
        }
        canvas.words((END, TOP - 10.0), "median", 13.0, Side::Before, FAINT);
        let alone = place(1.0);
        canvas.line((alone, TOP), (alone, bottom), 2, INK);
        canvas.words((alone, TOP - 10.0), "alone", 13.0, Side::Around, INK);
    })
}

#[cfg(test)]
mod tests {
    use super::{colour, picture};
    use crate::report::example::example;
    use crate::report::reading::rows;
    use crate::{Strategy, Workload};
    use std::collections::BTreeSet;

    #[test]
    fn every_strategy_has_a_colour_of_its_own() {
        let colours: BTreeSet<_> =
            Strategy::ALL.map(|one| (colour(one).0, colour(one).1, colour(one).2)).into();
        assert_eq!(colours.len(), Strategy::ALL.len());
    }

    #[test]
    fn every_bar_has_its_name_and_its_number() {
        let study = example();
        let rows = rows(&study, Workload::Light);
        let drawn = picture(&study, Workload::Light, &rows).unwrap();
        let shown = rows.iter().filter(|row| row.shared.is_some() && row.strategy != Strategy::Dedicated);
        let dedicated = study.dedicated(Workload::Light).unwrap().total.median;
        for row in shown {
            let number = format!("\n{:.2}×\n", row.shared.unwrap().total.median / dedicated);
            assert!(drawn.svg.contains(row.strategy.title()), "{}", row.strategy);
            assert!(drawn.svg.contains(&number), "{number}");
        }
    }

    #[test]
    fn there_is_no_picture_without_something_to_compare_with() {
        let mut study = example();
        study.cells.retain(|record| record.cell.strategy() != Some(Strategy::Dedicated));
        assert_eq!(picture(&study, Workload::Light, &rows(&study, Workload::Light)), None);
    }
}
