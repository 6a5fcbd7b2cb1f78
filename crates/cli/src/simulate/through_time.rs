//! `carve simulate --events`: the trace's own times, with a queue, failures, and nodes that come and go.

use crate::failure::{Failure, Outcome};
use crate::print;
use crate::simulate::args::{Seeds, SimulateArgs, SimulateOutput};
use crate::simulate::files;
use crate::simulate::mig;
use crate::simulate::plot::{self, Band};
use crate::simulate::runs;
use crate::table::Table;
use carve_placement::Policy;
use carve_simulator::Trace;
use carve_simulator::events::{self, Failures, Figures, Growth, Moment, Settings, Waits};
use carve_simulator::filling::Size;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Points in time at which figures are drawn and listed.
const POINTS: u64 = 200;

/// One run.
pub(super) struct Run {
    policy: Policy,
    seed: u64,
    pub(super) figures: Figures,
    /// How things stood, at equal steps from the beginning to its end.
    points: Vec<Moment>,
}

/// Runs, prints, draws.
pub(crate) fn simulate(args: &SimulateArgs, trace: &Trace, policies: &[Policy]) -> Outcome {
    if !trace.pods.iter().any(|pod| pod.deleted.is_some()) {
        let failure =
            files::unreadable(&args.trace, "no pod says how long it lasts, so nothing would ever end");
        return Err(failure.hint(
            "give durations (column duration, deletion_time, or --duration for all), or leave out --events",
        ));
    }
    let seeds = args.seeds.clone().unwrap_or(Seeds(vec![42])).0;
    let growth = growth(args, trace)?;
    let done = runs::all(policies.len() * seeds.len(), |index| {
        let (policy, seed) = (policies[index / seeds.len()], seeds[index % seeds.len()]);
        let failures = args.time.fail_every.map(|every| Failures { every, lasting: args.time.fail_for });
        let queue = !args.time.no_queue;
        let mig = args.time.mig();
        let settings =
            Settings { queue, failures, growth: growth.clone(), mig, ..Settings::new(policy, seed) };
        let run = events::run(trace, &settings).map(|history| {
            let figures = history.figures(trace);
            let points = (0..=POINTS).filter_map(|step| history.at(share(figures.lasted_ms, step)).copied());
            Run { policy, seed, points: points.collect(), figures }
        });
        (run, format!("{policy}, seed {seed}"))
    });
    let done: Result<Vec<Run>, _> = done.into_iter().collect();
    let runs = done.map_err(|error| files::wrong(&args.trace, &error))?;
    match args.output {
        SimulateOutput::Table => print::out(&table(trace, policies, &runs, seeds.len()))?,
        SimulateOutput::Json => print::json(&json!({"runs": runs.iter().map(json).collect::<Vec<_>>()}))?,
        SimulateOutput::Csv => print::out(&csv(&runs))?,
    }
    match &args.plot {
        Some(folder) => {
            let used = |moment: &Moment| 100.0 * moment.used as f64 / moment.capacity.max(1) as f64;
            let bands = |figure: &dyn Fn(&Moment) -> f64| -> Vec<Band> {
                policies.iter().map(|policy| band(*policy, &of(&runs, *policy), figure)).collect()
            };
            let waiting = bands(&|moment| moment.waiting as f64);
            plot::plot_through_time(folder, args.plot_format, bands(&used), waiting)
        }
        None => Ok(()),
    }
}

fn growth(args: &SimulateArgs, trace: &Trace) -> Result<Option<Growth>, Failure> {
    let Some(after) = args.time.add_after else { return Ok(None) };
    let like = match &args.time.add_like {
        Some(name) => trace.nodes.iter().find(|node| node.name == *name),
        None => trace.nodes.iter().rev().max_by_key(|node| node.gpus),
    };
    let like = like.cloned().ok_or_else(|| {
        let first = trace.nodes.first().map_or("", |node| node.name.as_str());
        let name = args.time.add_like.as_deref().unwrap_or_default();
        Failure::new(format!("the trace has no node '{name}' that added ones could be like"))
            .hint(format!("name one of its nodes, such as '{first}'"))
    })?;
    Ok(Some(Growth { like, after, idle: args.time.remove_after, most: args.time.add_most as usize }))
}

fn of(runs: &[Run], policy: Policy) -> Vec<&Run> {
    runs.iter().filter(|run| run.policy == policy).collect()
}

fn band(policy: Policy, runs: &[&Run], figure: &dyn Fn(&Moment) -> f64) -> Band {
    // Runs end at different times; past its end, a run stands as it ended.
    let last = runs.iter().map(|run| run.figures.lasted_ms).max().unwrap_or(0);
    let points = (0..=POINTS).map(|step| {
        let ms = share(last, step);
        let figures: Vec<f64> = runs.iter().filter_map(|run| at(run, ms)).map(figure).collect();
        (ms as f64 / 3_600_000.0, plot::spread(&figures))
    });
    Band { policy, points: points.collect() }
}

/// So many of all steps of a time.
fn share(ms: u64, step: u64) -> u64 {
    (u128::from(ms) * u128::from(step) / u128::from(POINTS)) as u64
}

fn at(run: &Run, ms: u64) -> Option<&Moment> {
    // A point stands for the step up to the next.
    let step = (u128::from(ms) * u128::from(POINTS)).checked_div(u128::from(run.figures.lasted_ms));
    let step = step.unwrap_or(u128::from(POINTS)).min(u128::from(POINTS));
    run.points.get(step as usize)
}

pub(super) fn mean(runs: &[&Run], figure: impl Fn(&Figures) -> f64) -> f64 {
    runs.iter().map(|run| figure(&run.figures)).sum::<f64>() / runs.len().max(1) as f64
}

/// A time for people.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds > 0.0 && seconds < 10.0 => format!("{seconds:.2} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.1} min", seconds / 60.0),
        seconds if seconds < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        seconds => format!("{:.1} d", seconds / 86_400.0),
    }
}

pub(super) fn count(mean: f64) -> String {
    if mean.fract() == 0.0 { format!("{mean:.0}") } else { format!("{mean:.1}") }
}

/// Sizes as the tables name them.
fn named(size: Size) -> &'static str {
    match size {
        Size::CpuOnly => "CPU only",
        Size::Part => "part",
        Size::One => "one",
        Size::Several(gpus) if gpus < 8 => "several",
        Size::Several(_) => "eight",
    }
}

fn table(trace: &Trace, policies: &[Policy], runs: &[Run], seeds: usize) -> String {
    let gpus: u64 = trace.nodes.iter().map(|node| u64::from(node.gpus)).sum();
    let mut text = format!(
        "{} nodes, {gpus} GPUs, {} pods at their own times; {seeds} {}; utilisation in % of the GPUs that were there\n\n",
        trace.nodes.len(),
        trace.pods.len(),
        if seeds == 1 { "seed" } else { "seeds" },
    );
    let mut table = Table::new([
        "POLICY",
        "MEAN WAIT",
        "95 %",
        "WORST",
        "FINISHED",
        "TURNED AWAY",
        "INTERRUPTED",
        "LEFT WAITING",
        "UTILISATION",
        "NODE HOURS",
    ])
    .right([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let mut changes = mig::Changes::new();
    let mut sizes = Table::new(["POLICY", "SIZE", "PODS", "MEAN WAIT", "95 %", "WORST"]).right([2, 3, 4, 5]);
    for policy in policies {
        let own = of(runs, *policy);
        table.row([
            policy.to_string(),
            time(mean(&own, |figures| figures.waits.mean)),
            time(mean(&own, |figures| figures.waits.p95)),
            time(mean(&own, |figures| figures.waits.worst)),
            count(mean(&own, |figures| figures.finished as f64)),
            count(mean(&own, |figures| figures.turned_away as f64)),
            count(mean(&own, |figures| figures.interrupted as f64)),
            count(mean(&own, |figures| figures.waiting as f64)),
            format!("{:.2}", mean(&own, |figures| figures.utilisation)),
            format!("{:.1}", mean(&own, |figures| figures.node_hours)),
        ]);
        for (size, waits) in by_size(&own) {
            let over =
                |figure: fn(&Waits) -> f64| waits.iter().map(figure).sum::<f64>() / waits.len().max(1) as f64;
            sizes.row([
                policy.to_string(),
                match size {
                    Size::Several(gpus) => format!("{gpus} GPUs"),
                    other => named(other).to_owned(),
                },
                count(over(|waits| waits.count as f64)),
                time(over(|waits| waits.mean)),
                time(over(|waits| waits.p95)),
                time(over(|waits| waits.worst)),
            ]);
        }
        for (devices, waits) in mig::by_devices(&own) {
            let over =
                |figure: fn(&Waits) -> f64| waits.iter().map(figure).sum::<f64>() / waits.len().max(1) as f64;
            sizes.row([
                policy.to_string(),
                format!("MIG {devices}"),
                count(over(|waits| waits.count as f64)),
                time(over(|waits| waits.mean)),
                time(over(|waits| waits.p95)),
                time(over(|waits| waits.worst)),
            ]);
        }
        changes.row(*policy, &own);
    }
    text.push_str(&table.render());
    text.push('\n');
    text.push_str(&sizes.render());
    text.push_str(&changes.render());
    text
}

fn by_size(runs: &[&Run]) -> BTreeMap<Size, Vec<Waits>> {
    let mut all: BTreeMap<Size, Vec<Waits>> = BTreeMap::new();
    for (size, waits) in runs.iter().flat_map(|run| &run.figures.waits_by_size) {
        all.entry(*size).or_default().push(*waits);
    }
    all
}

fn json(run: &Run) -> Value {
    let figures = &run.figures;
    let waits = |waits: &Waits| json!({"pods": waits.count, "mean": waits.mean, "p95": waits.p95, "worst": waits.worst});
    let sizes: Vec<Value> = figures
        .waits_by_size
        .iter()
        .map(|(size, of)| {
            let mut value = waits(of);
            value["size"] = named(*size).into();
            if let Size::Several(gpus) = size {
                value["gpus"] = (*gpus).into();
            }
            value
        })
        .collect();
    let points: Vec<Value> = run
        .points
        .iter()
        .map(|moment| {
            json!({
                "second": moment.at_ms as f64 / 1000.0,
                "usedGpus": moment.used as f64 / 1000.0,
                "gpus": moment.capacity / 1000,
                "nodes": moment.nodes,
                "waiting": moment.waiting,
            })
        })
        .collect();
    let mut value = json!({
        "policy": run.policy.name(),
        "seed": run.seed,
        "arrived": figures.arrived,
        "finished": figures.finished,
        "turnedAway": figures.turned_away,
        "running": figures.running,
        "waiting": figures.waiting,
        "interrupted": figures.interrupted,
        "waitSeconds": waits(&figures.waits),
        "waitSecondsBySize": sizes,
        "utilisation": figures.utilisation,
        "nodeHours": figures.node_hours,
        "seconds": figures.lasted_ms as f64 / 1000.0,
        "throughTime": points,
    });
    if let Some(of) = &figures.mig {
        value["mig"] = mig::json(of, waits);
    }
    value
}

fn csv(runs: &[Run]) -> String {
    let mut text = "policy,seed,arrived,finished,turned_away,running,waiting,interrupted,wait_mean,wait_p95,wait_worst,utilisation,node_hours,seconds,".to_owned();
    text.push_str(mig::COLUMNS);
    text.push('\n');
    for run in runs {
        let figures = &run.figures;
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{:.3},{},{},{:.4},{:.4},{},{}",
            run.policy,
            run.seed,
            figures.arrived,
            figures.finished,
            figures.turned_away,
            figures.running,
            figures.waiting,
            figures.interrupted,
            figures.waits.mean,
            figures.waits.p95,
            figures.waits.worst,
            figures.utilisation,
            figures.node_hours,
            figures.lasted_ms as f64 / 1000.0,
            mig::cells(figures.mig.as_ref()),
        );
    }
    text
}
