//! The figures of runs as a table for people, as JSON and as CSV.

use crate::failure::Outcome;
use crate::print;
use crate::simulate::runs::{Bounds, Run};
use crate::table::Table;
use carve_placement::Policy;
use carve_simulator::Trace;
use carve_simulator::measured::{Measured, TurnedAway};
use serde_json::{Value, json};
use std::fmt::Write;

/// Mean and spread of some figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    /// Standard deviation of a sample; `None` for a single figure.
    deviation: Option<f64>,
}

impl Spread {
    pub(crate) fn of(figures: &[f64]) -> Option<Self> {
        if figures.is_empty() {
            return None;
        }
        let count = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / count;
        let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
        Some(Spread { mean, deviation: (figures.len() > 1).then(|| (squares / (count - 1.0)).sqrt()) })
    }

    fn shown(self) -> String {
        match self.deviation {
            Some(deviation) => format!("{:.2} ± {deviation:.2}", self.mean),
            None => format!("{:.2}", self.mean),
        }
    }
}

/// A mean and its spread, or a dash where some runs have no such figure.
fn shown(runs: &[&Run], figure: impl Fn(&Measured) -> Option<f64>) -> String {
    let figures: Option<Vec<f64>> = runs.iter().map(|run| figure(&run.figures)).collect();
    figures.and_then(|figures| Spread::of(&figures)).map_or("-".to_owned(), Spread::shown)
}

/// A mean count: whole where it is, with one digit where it is not.
fn mean(runs: &[&Run], count: impl Fn(&Run) -> f64) -> String {
    let mean = runs.iter().map(|run| count(run)).sum::<f64>() / runs.len().max(1) as f64;
    if mean.fract() == 0.0 { format!("{mean:.0}") } else { format!("{mean:.1}") }
}

/// The runs of a policy.
pub(crate) fn of(runs: &[Run], policy: Policy) -> Vec<&Run> {
    runs.iter().filter(|run| run.figures.policy == policy).collect()
}

/// The table, the differences, the bounds.
pub(crate) fn table(trace: &Trace, policies: &[Policy], runs: &[Run], bounds: Option<Bounds>) -> Outcome {
    let seeds = policies.first().map_or(0, |policy| of(runs, *policy).len());
    let gpus: u64 = trace.nodes.iter().map(|node| u64::from(node.gpus)).sum();
    let mut text = format!(
        "{} nodes, {gpus} GPUs, {} pods; {seeds} {}, {} % of all GPUs asked for; figures in % of all GPUs;\nCPU ONLY to EIGHT: how many claims were turned away, by the GPUs they ask for\n\n",
        trace.nodes.len(),
        trace.pods.len(),
        if seeds == 1 { "seed" } else { "seeds" },
        mean_arrived(runs),
    );
    let mut table = Table::new([
        "POLICY",
        "AT 100 %",
        "AT END",
        "FIRST FAILURE",
        "CPU ONLY",
        "PART",
        "ONE",
        "SEVERAL",
        "EIGHT",
        "FREE GPUS",
        "FRAGMENTED",
        "DECISIONS/S",
    ])
    .right([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    for policy in policies {
        let own = of(runs, *policy);
        let away = |count: fn(&TurnedAway) -> u64| mean(&own, |run| count(&run.figures.turned_away) as f64);
        let speed = own.iter().map(|run| run.speed).sum::<f64>() / own.len().max(1) as f64;
        table.row([
            policy.to_string(),
            shown(&own, |run| run.allocated_at_100),
            shown(&own, |run| Some(run.allocated)),
            shown(&own, |run| run.first_failure),
            away(|turned| turned.cpu_only),
            away(|turned| turned.part),
            away(|turned| turned.one),
            away(|turned| turned.several),
            away(|turned| turned.eight),
            mean(&own, |run| run.figures.free_gpus as f64),
            shown(&own, |run| Some(run.fragmentation)),
            format!("{speed:.0}"),
        ]);
    }
    text.push_str(&table.render());
    text.push_str(&differences(policies, runs));
    if let Some(bounds) = bounds {
        text.push_str(&bounded(bounds));
    }
    print::out(&text)
}

fn mean_arrived(runs: &[Run]) -> String {
    let arrived: Vec<f64> = runs.iter().map(|run| run.figures.arrived).collect();
    Spread::of(&arrived).map_or("-".to_owned(), |spread| format!("{:.0}", spread.mean))
}

/// Each policy beside the first, seed by seed.
fn differences(policies: &[Policy], runs: &[Run]) -> String {
    let Some((first, others)) = policies.split_first() else { return String::new() };
    let base = of(runs, *first);
    let mut text = String::new();
    for policy in others {
        let pairs: Vec<f64> = of(runs, *policy)
            .iter()
            .zip(&base)
            .map(|(run, base)| run.figures.allocated - base.figures.allocated)
            .collect();
        let Some(spread) = Spread::of(&pairs) else { continue };
        if text.is_empty() {
            text.push('\n');
        }
        let more = pairs.iter().filter(|pair| **pair > 0.0).count();
        let deviation = spread.deviation.map_or(String::new(), |deviation| format!(" ± {deviation:.2}"));
        let _ = writeln!(
            text,
            "{policy} ends at {:+.2}{deviation} points beside {first} on the same arrivals, higher in {more} of {}.",
            spread.mean,
            pairs.len()
        );
    }
    text
}

fn bounded(bounds: Bounds) -> String {
    let (Some(all), Some(choosing)) = (bounds.accepting_all, bounds.choosing) else {
        return "\nNo bounds: some parts of GPUs are finer than a hundredth, or there are more than 400 kinds of claims.\n"
            .to_owned();
    };
    format!(
        "\nWhat no policy can beat (a linear programme, seed {}):\n  accept all    {all:.2} %   when so much has been asked for, the next claim is turned away, however well all were placed\n  by choosing   {choosing:.2} %   the most that can be in use, with all arrivals known beforehand and any of them turned away\n",
        bounds.seed,
    )
}

/// Every figure of every run.
pub(crate) fn json(trace: &Trace, runs: &[Run], bounds: Option<Bounds>) -> Outcome {
    let run = |run: &Run| {
        let (figures, away) = (&run.figures, &run.figures.turned_away);
        let curve: Vec<Value> = figures
            .curve
            .iter()
            .map(|point| json!({"arrived": point.arrived, "allocated": rounded(point.allocated), "fragmented": rounded(point.fragmentation)}))
            .collect();
        json!({
            "policy": figures.policy.name(),
            "seed": figures.seed,
            "arrivals": figures.arrivals,
            "arrived": rounded(figures.arrived),
            "allocatedAt100": figures.allocated_at_100.map(rounded),
            "allocated": rounded(figures.allocated),
            "firstFailure": figures.first_failure.map(rounded),
            "turnedAway": {"cpuOnly": away.cpu_only, "part": away.part, "one": away.one, "several": away.several, "eight": away.eight},
            "freeGpus": figures.free_gpus,
            "fragmented": rounded(figures.fragmentation),
            "decisionsPerSecond": run.speed.round(),
            "curve": curve,
        })
    };
    let bounds = bounds.map(|bounds| {
        json!({"seed": bounds.seed, "acceptAll": bounds.accepting_all.map(rounded), "byChoosing": bounds.choosing.map(rounded)})
    });
    let gpus: u64 = trace.nodes.iter().map(|node| u64::from(node.gpus)).sum();
    print::json(&json!({
        "nodes": trace.nodes.len(),
        "gpus": gpus,
        "pods": trace.pods.len(),
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
        "bounds": bounds,
    }))
}

/// Four digits after the point: what a single GPU is in a fleet of ten thousand.
fn rounded(figure: f64) -> f64 {
    (figure * 10_000.0).round() / 10_000.0
}

/// One line a run.
pub(crate) fn csv(runs: &[Run]) -> Outcome {
    let mut text = "policy,seed,arrivals,arrived,allocated_at_100,allocated,first_failure,away_cpu_only,away_part,away_one,away_several,away_eight,free_gpus,fragmented,decisions_per_second\n".to_owned();
    let optional = |figure: Option<f64>| figure.map_or(String::new(), |figure| format!("{figure:.4}"));
    for run in runs {
        let (figures, away) = (&run.figures, &run.figures.turned_away);
        let _ = writeln!(
            text,
            "{},{},{},{:.4},{},{:.4},{},{},{},{},{},{},{},{:.4},{:.0}",
            figures.policy,
            figures.seed,
            figures.arrivals,
            figures.arrived,
            optional(figures.allocated_at_100),
            figures.allocated,
            optional(figures.first_failure),
            away.cpu_only,
            away.part,
            away.one,
            away.several,
            away.eight,
            figures.free_gpus,
            figures.fragmentation,
            run.speed,
        );
    }
    print::out(&text)
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_spread_of_the_published_runs_is_the_published_one() {
        let figures = [95.29, 95.32, 95.44, 95.48, 95.49, 95.27, 95.37, 95.47, 95.35, 95.43];
        assert_eq!(Spread::of(&figures).unwrap().shown(), "95.39 ± 0.08");
        assert_eq!(Spread::of(&figures[..1]).unwrap().shown(), "95.29");
        assert_eq!(Spread::of(&[]), None);
    }
}
