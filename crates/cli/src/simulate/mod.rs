//! `carve simulate`: claims of a trace arrive at a fleet under one policy after another, and the figures are printed.

pub(crate) mod args;
mod files;
mod mig;
mod picture;
mod plot;
mod report;
mod runs;
mod through_time;

use crate::failure::{Failure, Outcome};
use args::{Seeds, SimulateArgs, SimulateOutput};
use carve_placement::Policy;
use carve_simulator::arrivals::{self, Sequence};
use carve_simulator::{Trace, readers};

/// Runs, prints, draws.
pub(crate) fn simulate(args: &SimulateArgs) -> Outcome {
    let policies = distinct(&args.policy)?;
    let mut trace = trace(args)?;
    if args.time.events {
        for pod in trace.pods.iter_mut().filter(|pod| pod.deleted.is_none()) {
            let from = pod.created.unwrap_or(0);
            pod.deleted = args.time.duration.map(|lasting| from.saturating_add(lasting));
        }
        return through_time::simulate(args, &trace, &policies);
    }
    if let Some(pod) = trace.pods.iter().find(|pod| !pod.mig.is_empty()) {
        let what = format!(
            "pod '{}' asks for MIG devices ({}), which are only made through time",
            pod.name, pod.mig
        );
        return Err(files::unreadable(&args.trace, what).hint("add --events"));
    }
    let sequences = sequences(args, &trace)?;
    let failed = |error| files::wrong(&args.trace, &error);
    let runs = runs::runs(&trace, &sequences, &policies).map_err(failed)?;
    let bounds = match sequences.first() {
        Some(first) if !args.no_bounds && args.output != SimulateOutput::Csv => {
            Some(runs::bounds(&trace, first)?)
        }
        _ => None,
    };
    match args.output {
        SimulateOutput::Table => report::table(&trace, &policies, &runs, bounds)?,
        SimulateOutput::Json => report::json(&trace, &runs, bounds)?,
        SimulateOutput::Csv => report::csv(&runs)?,
    }
    match &args.plot {
        Some(folder) => plot::plot(folder, args.plot_format, &policies, &runs),
        None => Ok(()),
    }
}

fn distinct(policies: &[Policy]) -> Result<Vec<Policy>, Failure> {
    for (index, policy) in policies.iter().enumerate() {
        if policies[..index].contains(policy) {
            return Err(Failure::new(format!("policy '{policy}' is named twice; name each once")));
        }
    }
    Ok(policies.to_vec())
}

fn trace(args: &SimulateArgs) -> Result<Trace, Failure> {
    let mut trace =
        readers::trace(&files::text(&args.trace)?).map_err(|error| files::wrong(&args.trace, &error))?;
    if trace.pods.is_empty() {
        return Err(files::unreadable(&args.trace, "no pods; nothing would arrive"));
    }
    let beside = || if trace.nodes.is_empty() { files::nodes_beside(&args.trace) } else { None };
    if let Some(path) = args.nodes.clone().or_else(beside) {
        trace.nodes = readers::nodes(&files::text(&path)?).map_err(|error| files::wrong(&path, &error))?;
        if trace.nodes.is_empty() {
            return Err(files::unreadable(&path, "no nodes; a fleet needs one at least"));
        }
    }
    if trace.nodes.is_empty() {
        let failure =
            Failure::new(format!("{} does not say which nodes there are", crate::input::shown(&args.trace)));
        return Err(failure.hint("name a list of nodes by --nodes FILE"));
    }
    Ok(trace)
}

fn sequences(args: &SimulateArgs, trace: &Trace) -> Result<Vec<Sequence>, Failure> {
    let Some(path) = &args.sequence else {
        let seeds = args.seeds.clone().unwrap_or(Seeds((42..=51).collect()));
        return Ok(seeds.0.iter().map(|seed| arrivals::generate(trace, *seed, args.percent)).collect());
    };
    let recorded = arrivals::read(&files::text(path)?, trace).map_err(|error| files::wrong(path, &error))?;
    if recorded.is_empty() {
        return Err(files::unreadable(path, "no sequences; a file of them has two lines for each seed"));
    }
    let Some(seeds) = &args.seeds else { return Ok(recorded) };
    let find = |seed: &u64| {
        recorded.iter().find(|sequence| sequence.seed == *seed).cloned().ok_or_else(|| {
            let known: Vec<String> = recorded.iter().map(|sequence| sequence.seed.to_string()).collect();
            files::unreadable(path, format!("no sequence for seed {seed}; it has {}", known.join(", ")))
        })
    };
    seeds.0.iter().map(find).collect()
}
