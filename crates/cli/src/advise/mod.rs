//! `carve advise`: which workloads need less of a GPU than they have, what follows for the machines, and what that saves.

pub(crate) mod args;
mod asked;
mod live;
mod scored;
mod show;
mod studied;
mod write;

use crate::args::MachineArgs;
use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::{input, print};
use args::{AdviseArgs, AdviseOutput, Trust};
use carve_advisor::{Advice, Domains, Prices, Settings, Situation, advise, observe, read_cluster, score};
use carve_economics::Hours;
use carve_formats::prometheus::{self, Series};
use carve_gpu_model::{Mechanism, Mechanisms};
use carve_study::Study;
use serde::Serialize;

/// Reads, advises, prints and writes.
pub(crate) fn answer(machine: &MachineArgs, args: &AdviseArgs) -> Outcome {
    let study = args.study.as_deref().map(crate::bench::read).transpose()?;
    if let Some(study) = study.as_ref().filter(|_| is_alone(args)) {
        return studied::answer(study, args.output);
    }
    let prices = prices(args)?;
    let mut situation = cluster(machine, args, &prices)?;
    let series = series(machine, args)?;
    let unmatched = observe(&mut situation, &series);
    let measured = !args.metrics.is_empty() || args.prometheus.is_some() || args.live.is_some();
    if measured && unmatched.series == 0 {
        return Err(Failure {
            code: UNREADABLE,
            ..Failure::new("no series of GPUs among what was recorded")
        }
        .hint(format!(
            "expected one of {}, {}",
            carve_advisor::BUSY_SERIES.join(", "),
            carve_advisor::MEMORY_SERIES.join(", ")
        )));
    }
    if unmatched.nobody > 0 {
        let example = unmatched.example.map(|pod| format!(", such as {pod}")).unwrap_or_default();
        eprintln!(
            "warning: {} of {} series are of pods that the cluster does not have, or of no pod{example}; they are left out",
            unmatched.nobody, unmatched.series
        );
    }
    if let Some(file) = &args.score {
        let past: Advice = serde_json::from_str(&input::read_recorded(file)?).map_err(|error| {
            let what = format!("{}: this is no advice: {error}", input::shown(file));
            Failure { code: UNREADABLE, ..Failure::new(what) }.hint("give what carve advise -o json printed")
        })?;
        let scored = score(&past, &situation);
        return put(args.output, &scored, || scored::table(&scored));
    }
    let advice = advise(&situation, &settings(args, study), &prices);
    put(args.output, &advice, || show::table(&advice, args.patch.is_some()))?;
    match &args.patch {
        Some(folder) => write::write(folder, &advice),
        None => Ok(()),
    }
}

/// Whether nothing of a cluster was given beside a study.
fn is_alone(args: &AdviseArgs) -> bool {
    args.cluster.is_empty()
        && args.metrics.is_empty()
        && args.prometheus.is_none()
        && args.live.is_none()
        && args.score.is_none()
}

fn put(output: AdviseOutput, data: &impl Serialize, table: impl FnOnce() -> String) -> Outcome {
    match output {
        AdviseOutput::Table => print::out(&table()),
        AdviseOutput::Json => print::json(data),
        AdviseOutput::Yaml => print::yaml(data),
    }
}

fn settings(args: &AdviseArgs, study: Option<Study>) -> Settings {
    let offered = args.mechanisms.iter().map(|one| one.mechanism());
    Settings {
        hours: Hours(args.hours),
        window: args.window,
        margin_percent: args.margin,
        mechanisms: offered.fold(Mechanisms::NONE.with(Mechanism::Exclusive), Mechanisms::with),
        study,
        ..Settings::default()
    }
}

fn prices(args: &AdviseArgs) -> Result<Prices, Failure> {
    let Some(file) = &args.prices else { return Ok(Prices::default()) };
    let shown = input::shown(file);
    Prices::read(&input::read(file)?, &shown)
        .map_err(|error| Failure { code: UNREADABLE, ..Failure::new(format!("{shown}: {error}")) })
}

fn cluster(machine: &MachineArgs, args: &AdviseArgs, prices: &Prices) -> Result<Situation, Failure> {
    let domains = match args.trust {
        Trust::Namespace => Domains::Namespaces,
        Trust::Cluster => Domains::Cluster,
    };
    let mut texts = Vec::new();
    for file in &args.cluster {
        texts.push((input::shown(file), input::read_recorded(file)?));
    }
    if args.cluster.is_empty() {
        texts = asked::cluster(&args.asked, machine)?;
    }
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    read_cluster(&texts, prices, domains).map_err(|error| {
        let hint = "kubectl get nodes,pods -A -o json prints what is needed; nodes have GPUs by nvidia.com/gpu in their capacity, \
                    by the label nvidia.com/gpu.count, or by a type of machine that is known to have them";
        Failure { code: UNREADABLE, ..Failure::of(&error) }.hint(hint)
    })
}

fn series(machine: &MachineArgs, args: &AdviseArgs) -> Result<Vec<Series>, Failure> {
    if let Some(time) = args.live {
        return live::series(machine, args, time);
    }
    if let Some(url) = &args.prometheus {
        return asked::prometheus(url, args.since);
    }
    let mut series = Vec::new();
    for file in &args.metrics {
        let shown = input::shown(file);
        let found = prometheus::parse(&input::read_recorded(file)?).map_err(|error| {
            Failure { code: UNREADABLE, ..Failure::new(format!("{shown}: {error}")) }.hint(
                "give what an exporter prints (NAME{LABEL=\"VALUE\"} VALUE TIME), or the JSON that api/v1/query_range answers",
            )
        })?;
        series.extend(found);
    }
    Ok(series)
}
