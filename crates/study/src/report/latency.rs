//! A picture of how long requests take, strategy beside strategy.

use super::Picture;
use super::bars::{BOTTOM, END, GROUP, LEFT, RIGHT, ROW, TOP, colour};
use super::canvas::{Canvas, FAINT, INK, RULE, Side, WIDTH, drawn, growing_steps, round_steps, step_text};
use super::reading::{Row, tenants, titled, worst};
use crate::spread::number;
use crate::{Spread, Strategy, Study, Workload};

/// So many times the least and the scale grows by multiples.
const FAR: f64 = 12.0;

struct Pair {
    tenants: u8,
    strategy: Strategy,
    p50: Spread,
    p99: Spread,
}

/// Draws a workload whose requests somebody waits for, where at least one way to share was measured.
pub(super) fn picture(study: &Study, workload: Workload, rows: &[Row<'_>]) -> Option<Picture> {
    let pair = |row: &Row<'_>| {
        let p50 = worst(row.shared?, |tenant| tenant.p50_ms)?;
        let p99 = worst(row.shared?, |tenant| tenant.p99_ms)?;
        Some(Pair { tenants: row.tenants, strategy: row.strategy, p50, p99 })
    };
    let pairs: Vec<Pair> = rows.iter().filter_map(pair).collect();
    if !workload.is_inference() || pairs.iter().all(|pair| pair.strategy == Strategy::Dedicated) {
        return None;
    }
    let title = titled(study, workload.title(), "how long a request takes");
    let alone = study.dedicated(workload).and_then(|shared| worst(shared, |tenant| tenant.p99_ms));
    let svg = draw(&title, &pairs, alone);
    let least = pairs.iter().map(|pair| pair.p99.median).fold(f64::INFINITY, f64::min);
    let most = pairs.iter().map(|pair| pair.p99.median).fold(0.0, f64::max);
    let described = format!(
        "{title}, p50 and p99 of the slowest tenant; p99 from {} to {} ms",
        number(least),
        number(most)
    );
    Some(Picture { name: format!("latency-{workload}"), title: described, svg })
}

/// From milliseconds to a place: even, or growing by multiples where the figures are far apart.
struct Scale {
    steps: Vec<f64>,
    growing: bool,
}

impl Scale {
    fn of(pairs: &[Pair]) -> Self {
        let values =
            || pairs.iter().flat_map(|pair| [pair.p50.low, pair.p99.high, pair.p50.median, pair.p99.median]);
        let least = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let most = values().fold(0.0, f64::max);
        let growing = least.is_finite() && most / least >= FAR;
        Scale { steps: if growing { growing_steps(least, most) } else { round_steps(most) }, growing }
    }

    fn place(&self, value: f64) -> f64 {
        let (first, last) = match self.steps[..] {
            [first, .., last] => (first, last),
            _ => (0.0, 1.0),
        };
        let part =
            if self.growing { (value.max(first) / first).ln() / (last / first).ln() } else { value / last };
        LEFT + part.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }
}

fn draw(title: &str, pairs: &[Pair], alone: Option<Spread>) -> String {
    let groups = pairs.chunk_by(|one, other| one.tenants == other.tenants).count();
    let bottom = TOP + pairs.len() as f64 * ROW + groups as f64 * GROUP;
    let scale = Scale::of(pairs);
    drawn((WIDTH, bottom + BOTTOM), |canvas| {
        canvas.bold((16.0, 24.0), title, 18.0, Side::After, INK);
        legend(canvas);
        for step in &scale.steps {
            let x = scale.place(*step);
            canvas.line((x, TOP), (x, bottom), 1, RULE);
            canvas.words((x, bottom + 14.0), &step_text(*step), 13.0, Side::Around, FAINT);
        }
        let kind = if scale.growing { "milliseconds, each step a multiple" } else { "milliseconds" };
        let below = format!("{kind}; the slowest tenant; whiskers: least and most; the line: p99 alone");
        canvas.words(((LEFT + RIGHT) / 2.0, bottom + 38.0), &below, 13.0, Side::Around, FAINT);
        if let Some(alone) = alone {
            let x = scale.place(alone.median);
            canvas.line((x, TOP), (x, bottom), 2, FAINT);
        }
        let mut y = TOP;
        for group in pairs.chunk_by(|one, other| one.tenants == other.tenants) {
            canvas.bold((16.0, y + GROUP / 2.0), &tenants(group[0].tenants), 14.0, Side::After, INK);
            y += GROUP;
            for pair in group {
                draw_pair(canvas, &scale, pair, y + ROW / 2.0);
                y += ROW;
            }
        }
    })
}

fn draw_pair(canvas: &mut Canvas<'_>, scale: &Scale, pair: &Pair, y: f64) {
    let (p50, p99) = (scale.place(pair.p50.median), scale.place(pair.p99.median));
    let colour = colour(pair.strategy);
    canvas.words((LEFT - 10.0, y), pair.strategy.title(), 13.0, Side::Before, INK);
    canvas.line((p50, y), (p99, y), 3, colour);
    for spread in [pair.p50, pair.p99] {
        canvas.whisker((scale.place(spread.low), scale.place(spread.high)), y, 4.0, INK);
    }
    canvas.disc((p50, y), 5, colour);
    canvas.diamond((p99, y), 7.0, colour);
    let text = format!("{} / {}", number(pair.p50.median), number(pair.p99.median));
    canvas.words((END, y), &text, 13.0, Side::Before, INK);
}

fn legend(canvas: &mut Canvas<'_>) {
    let y = TOP - 10.0;
    canvas.disc((LEFT + 6.0, y), 5, FAINT);
    canvas.words((LEFT + 18.0, y), "p50", 13.0, Side::After, INK);
    canvas.diamond((LEFT + 68.0, y), 7.0, FAINT);
    canvas.words((LEFT + 82.0, y), "p99", 13.0, Side::After, INK);
    canvas.words((END, y), "p50 / p99, ms", 13.0, Side::Before, FAINT);
}

#[cfg(test)]
mod tests {
    use super::picture;
    use crate::Workload;
    use crate::report::example::example;
    use crate::report::reading::rows;

    #[test]
    fn only_what_somebody_waits_for_has_latency() {
        let study = example();
        let of = |workload| picture(&study, workload, &rows(&study, workload));
        let light = of(Workload::Light).unwrap();
        assert!(light.svg.contains("p50") && light.svg.contains("p99"), "{}", light.svg);
        assert_eq!(of(Workload::Batch), None);
    }
}
