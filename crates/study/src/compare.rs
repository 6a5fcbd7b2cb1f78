//! Two studies, figure by figure: what agrees within its spread, what is better, what is worse.

use crate::evidence::most;
use crate::report::braces::names;
use crate::spread::number;
use crate::{Cell, Figures, Spread, Study};
use serde::Serialize;
use std::cmp::Ordering;
use std::fmt;

/// The job that times of completion are told for.
const PRODUCTS: f64 = 10_000.0;

/// A part so small that it is how a number was written down, not what was measured.
const ROUNDING: f64 = 1e-9;

/// What is compared of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// What the harness takes for a round that does nothing.
    Round,
    /// What a launch of nothing takes.
    Launch,
    /// What all tenants do together.
    Total,
    /// The 99th percentile of the tenant that has the longest.
    WorstP99,
    /// When the last job was done.
    Completion,
    /// What a tenant does beside its neighbour.
    VictimRate,
    /// Whether a neighbour survived a mishap.
    Survived,
}

impl Figure {
    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Figure::Round => "empty round, ns",
            Figure::Launch => "empty launch, µs",
            Figure::Total => "together, a second",
            Figure::WorstP99 => "p99 of the slowest, ms",
            Figure::Completion => "10,000 products, s",
            Figure::VictimRate => "beside it, a second",
            Figure::Survived => "neighbour survived",
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Figure::Total | Figure::VictimRate | Figure::Survived)
    }
}

/// What the second study says of a figure, by the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The same, by the spreads that both print.
    Agrees,
    /// Better, by more than the spreads.
    Better,
    /// Worse, by more than the spreads.
    Worse,
}

impl Change {
    /// For people.
    pub const fn word(self) -> &'static str {
        match self {
            Change::Agrees => "agrees",
            Change::Better => "better",
            Change::Worse => "worse",
        }
    }
}

/// What both studies have of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Both {
    /// Something that was measured.
    Measured {
        /// In the first.
        first: Spread,
        /// In the second.
        second: Spread,
        /// By how much the second differs, in percent of the first; none where the first is nothing.
        percent: Option<f64>,
    },
    /// Something that is so or not.
    YesOrNo {
        /// In the first.
        first: bool,
        /// In the second.
        second: bool,
    },
}

/// One figure of one cell in both studies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Which cell.
    pub cell: Cell,
    /// Which figure of it.
    pub figure: Figure,
    /// What both have of it.
    pub both: Both,
    /// What that means.
    pub change: Change,
}

/// Two studies, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Figures that both have: those that disagree first, then by how far they are apart.
    pub lines: Vec<Line>,
    /// Cells with figures in the first study only.
    pub only_first: Vec<Cell>,
    /// Cells with figures in the second study only.
    pub only_second: Vec<Cell>,
    /// What else is different, so that figures may differ for it: cards, drivers, how long was measured.
    pub differences: Vec<String>,
}

/// Compares a second study with a first.
pub fn compare(first: &Study, second: &Study) -> Comparison {
    let measured = |study: &Study| -> Vec<Cell> {
        study.cells.iter().map(|record| record.cell).filter(|cell| study.figures(cell).is_some()).collect()
    };
    let (cells, others) = (measured(first), measured(second));
    let mut lines: Vec<Line> = cells
        .iter()
        .filter_map(|cell| Some((cell, first.figures(cell)?, second.figures(cell)?)))
        .flat_map(|(cell, before, after)| {
            figures(before, after).map(|(figure, both)| Line::of(*cell, figure, both))
        })
        .collect();
    lines.sort_by(|one, other| {
        other
            .distance()
            .partial_cmp(&one.distance())
            .unwrap_or(Ordering::Equal)
            .then(one.cell.cmp(&other.cell))
    });
    Comparison {
        lines,
        only_first: cells.iter().filter(|cell| !others.contains(cell)).copied().collect(),
        only_second: others.iter().filter(|cell| !cells.contains(cell)).copied().collect(),
        differences: differences(first, second),
    }
}

fn differences(first: &Study, second: &Study) -> Vec<String> {
    let (a, b) = (&first.card, &second.card);
    let (s, t) = (&first.timing, &second.timing);
    let simulated = |simulated: bool| if simulated { "simulated" } else { "measured" }.to_owned();
    let mig = |on: Option<bool>| on.map_or("none", |on| if on { "on" } else { "off" }).to_owned();
    [
        ("the card", a.name.clone(), b.name.clone()),
        ("figures", simulated(a.simulated), simulated(b.simulated)),
        ("multiprocessors", a.multiprocessors.to_string(), b.multiprocessors.to_string()),
        ("memory, MiB", a.memory_mib.to_string(), b.memory_mib.to_string()),
        ("the driver", a.driver.clone(), b.driver.clone()),
        ("CUDA", a.cuda.clone(), b.cuda.clone()),
        ("MIG", mig(a.mig), mig(b.mig)),
        ("the machine's processors", a.processors.to_string(), b.processors.to_string()),
        ("carve", first.carve.clone(), second.carve.clone()),
        ("seconds of warm-up", s.warm_up.to_string(), t.warm_up.to_string()),
        ("seconds in a window", s.window.to_string(), t.window.to_string()),
        ("windows", s.windows.to_string(), t.windows.to_string()),
        ("passes", s.passes.to_string(), t.passes.to_string()),
    ]
    .into_iter()
    .filter(|(_, first, second)| first != second)
    .map(|(what, first, second)| format!("{what}: {first}, then {second}"))
    .collect()
}

fn figures(before: &Figures, after: &Figures) -> impl Iterator<Item = (Figure, Both)> {
    let pair = |figure, first: Option<Spread>, second: Option<Spread>| {
        let (first, second) = (first?, second?);
        let percent = (first.median != 0.0).then(|| (second.median / first.median - 1.0) * 100.0);
        Some((figure, Both::Measured { first, second, percent }))
    };
    let found = match (before, after) {
        (Figures::Overhead(one), Figures::Overhead(other)) => vec![
            pair(Figure::Round, Some(one.round_ns), Some(other.round_ns)),
            pair(Figure::Launch, Some(one.launch_us), Some(other.launch_us)),
        ],
        (Figures::Shared(one), Figures::Shared(other)) => {
            let of = |figure, of: fn(&crate::Tenant) -> Option<Spread>| {
                pair(figure, most(one, of), most(other, of))
            };
            vec![
                pair(Figure::Total, Some(one.total), Some(other.total)),
                of(Figure::WorstP99, |tenant| tenant.p99_ms),
                // Jobs are as large as a run finds them to fill a window, so that those of two runs differ.
                of(Figure::Completion, |tenant| {
                    let products = tenant.job.filter(|job| *job > 0)? as f64;
                    Some(tenant.completion_s?.times(PRODUCTS / products))
                }),
            ]
        }
        (Figures::Beside(one), Figures::Beside(other)) => vec![
            pair(Figure::VictimRate, Some(one.beside.rate), Some(other.beside.rate)),
            pair(Figure::WorstP99, one.beside.p99_ms, other.beside.p99_ms),
        ],
        (Figures::Happened(one), Figures::Happened(other)) => {
            vec![Some((Figure::Survived, Both::YesOrNo { first: one.survived, second: other.survived }))]
        }
        // Files that people wrote: a cell with figures of another kind.
        _ => Vec::new(),
    };
    found.into_iter().flatten()
}

impl Line {
    fn of(cell: Cell, figure: Figure, both: Both) -> Line {
        let change = match both {
            Both::Measured { first, second, .. } => {
                let apart = (first.median - second.median).abs();
                let same = first.agrees(&second) || apart <= ROUNDING * first.median.abs();
                Change::of(same, (second.median > first.median) == figure.more_is_better())
            }
            Both::YesOrNo { first, second } => Change::of(first == second, second),
        };
        Line { cell, figure, both, change }
    }

    /// First whether they disagree, then how far they are apart.
    fn distance(&self) -> (bool, f64) {
        let apart = match self.both {
            Both::Measured { percent: Some(percent), .. } => percent.abs(),
            Both::Measured { .. } if self.change == Change::Agrees => 0.0,
            Both::YesOrNo { first, second } if first == second => 0.0,
            _ => f64::INFINITY,
        };
        (self.change != Change::Agrees, apart)
    }

    /// As cells of a table: cell, figure, first, second, change, and what that means.
    pub fn row(&self) -> [String; 6] {
        let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let (first, second, by) = match &self.both {
            Both::Measured { first, second, percent } => (
                first.to_string(),
                second.to_string(),
                percent.map_or_else(|| "from nothing".to_owned(), |percent| format!("{percent:+.1} %")),
            ),
            Both::YesOrNo { first, second } => (yes(*first), yes(*second), String::new()),
        };
        [
            self.cell.to_string(),
            self.figure.title().to_owned(),
            first,
            second,
            by,
            self.change.word().to_owned(),
        ]
    }
}

impl Change {
    const fn of(same: bool, better: bool) -> Change {
        match (same, better) {
            (true, _) => Change::Agrees,
            (false, true) => Change::Better,
            (false, false) => Change::Worse,
        }
    }
}

impl Comparison {
    /// What heads the columns of [`Line::row`].
    pub const HEADER: [&'static str; 6] = ["cell", "figure", "first", "second", "change", ""];

    /// How many figures came out so.
    pub fn count(&self, change: Change) -> usize {
        self.lines.iter().filter(|line| line.change == change).count()
    }

    /// The part of the figures that agrees; none where no figure is in both.
    pub fn agrees(&self) -> Option<f64> {
        let all = self.lines.len();
        (all > 0).then(|| self.count(Change::Agrees) as f64 / all as f64)
    }

    /// What came of it, in one sentence.
    pub fn summary(&self) -> String {
        let Some(part) = self.agrees() else {
            return "The two studies have no figure in common.".to_owned();
        };
        format!(
            "Of {} figures that both have, {} agree within their spread ({} %), {} are better and {} worse in the \
             second.",
            self.lines.len(),
            self.count(Change::Agrees),
            number((part * 1000.0).round() / 10.0),
            self.count(Change::Better),
            self.count(Change::Worse),
        )
    }
}

/// With `{:#}` also the figures that agree.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary())?;
        for difference in &self.differences {
            writeln!(f, "Different: {difference}.")?;
        }
        for (cells, which) in [(&self.only_first, "first"), (&self.only_second, "second")] {
            if !cells.is_empty() {
                writeln!(f, "Only in the {which} ({}): {}.", cells.len(), names(cells).join(", "))?;
            }
        }
        let shown = self.lines.iter().filter(|line| f.alternate() || line.change != Change::Agrees);
        let mut rows = vec![Comparison::HEADER.map(str::to_owned)];
        rows.extend(shown.map(Line::row));
        if rows.len() == 1 {
            return Ok(());
        }
        writeln!(f)?;
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        for row in &rows {
            let line: String = row
                .iter()
                .zip(widths)
                .enumerate()
                .map(|(column, (text, width))| match column {
                    2..=4 => format!("{text:>width$}  "),
                    _ => format!("{text:<width$}  "),
                })
                .collect();
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Both, Change, Figure, compare};
    use crate::model::h200;
    use crate::{Card, Figures, Outcome, Scope, Study, simulate};
    use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

    fn study(seed: u64) -> Study {
        simulate(h200(), Scope::Quick, seed, "2026-11-17T12:00:00Z".to_owned(), "0.1.0")
    }

    fn alter(study: &mut Study, name: &str, how: impl Fn(&mut Figures)) {
        let cell = name.parse().unwrap();
        let mut figures = study.figures(&cell).unwrap().clone();
        how(&mut figures);
        study.put(cell, Outcome::Measured(figures));
    }

    #[test]
    fn what_is_better_depends_on_the_figure() {
        let first = study(1);
        let mut second = first.clone();
        alter(&mut second, "light/mps/2", |figures| {
            let Figures::Shared(shared) = figures else { panic!("{figures:?}") };
            for figure in [&mut shared.total, shared.tenants[1].p99_ms.as_mut().unwrap()] {
                (figure.median, figure.low, figure.high) =
                    (figure.median * 2.0, figure.low * 2.0, figure.high * 2.0);
            }
        });
        alter(&mut second, "fault/time-slicing", |figures| {
            let Figures::Happened(happened) = figures else { panic!("{figures:?}") };
            happened.survived = false;
        });
        let comparison = compare(&first, &second);
        let first_three: Vec<(String, Figure, Change)> = comparison
            .lines
            .iter()
            .take(3)
            .map(|line| (line.cell.to_string(), line.figure, line.change))
            .collect();
        // What survives or not comes before any percentage.
        assert_eq!(first_three[0], ("fault/time-slicing".to_owned(), Figure::Survived, Change::Worse));
        assert!(
            first_three.contains(&("light/mps/2".to_owned(), Figure::Total, Change::Better)),
            "{first_three:?}"
        );
        assert!(
            first_three.contains(&("light/mps/2".to_owned(), Figure::WorstP99, Change::Worse)),
            "{first_three:?}"
        );
        assert_eq!((comparison.count(Change::Better), comparison.count(Change::Worse)), (1, 2));
        assert!(comparison.differences.is_empty());
        let text = comparison.to_string();
        assert_eq!(text.lines().count(), 1 + 1 + 1 + 3, "{text}");
        assert!(text.contains("+100.0 %  better"), "{text}");
        assert!(format!("{comparison:#}").lines().count() > 20);
    }

    #[test]
    fn what_is_in_one_only_and_what_else_differs_is_said() {
        let first = study(1);
        let mut second =
            simulate(Card { driver: "590.1".to_owned(), ..h200() }, Scope::Quick, 1, String::new(), "0.1.0");
        second.timing.windows = 9;
        second.put("light/mps/2".parse().unwrap(), Outcome::Skipped("there is no daemon".to_owned()));
        second.put(
            "light/mps/4".parse().unwrap(),
            first.outcome(&"light/mps/2".parse().unwrap()).unwrap().clone(),
        );
        let comparison = compare(&first, &second);
        assert_eq!(comparison.only_first, ["light/mps/2".parse().unwrap()]);
        assert_eq!(comparison.only_second, ["light/mps/4".parse().unwrap()]);
        assert_eq!(comparison.differences, ["the driver: 580.159.04, then 590.1", "windows: 2, then 9"]);
        let nothing =
            compare(&first, &Study::new("", String::new(), h200(), Scope::Quick, Scope::Quick.timing()));
        assert_eq!(nothing.agrees(), None);
        assert!(nothing.summary().contains("no figure in common"));
    }

    proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
            #[test]
            fn a_study_agrees_with_itself_and_mostly_with_another_run(seed in any::<u64>()) {
                let one = study(seed);
                let same = compare(&one, &one);
                prop_assert_eq!(same.agrees(), Some(1.0));
                let read = Study::read(&one.json()).unwrap();
                prop_assert_eq!(compare(&one, &read).agrees(), Some(1.0));
                let other = compare(&one, &study(seed.wrapping_add(1)));
                prop_assert!(other.agrees().unwrap() > 0.6, "{}", other);
                for line in &other.lines {
                    if let Both::Measured { percent: Some(percent), .. } = line.both {
                        prop_assert!(percent.abs() < 5.0, "{:?}", line);
                    }
                }
            }
        }
}
