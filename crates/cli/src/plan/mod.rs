//! `carve plan`: where the pods of manifests land on given machines, what stays pending, and what it costs.

pub(crate) mod args;
mod data;
mod show;
mod write;

use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::{input, print};
use args::{PlanArgs, PlanOutput};
use carve_economics::Hours;
use carve_fleet_plan::{Settings, plan, pools};
use carve_formats::Severity;
use carve_formats::workloads::{Finding, Manifests, Source, Workload, read};
use carve_gpu_model::{Mechanism, Mechanisms};

/// Reads, plans, prints and writes.
pub(crate) fn answer(args: &PlanArgs) -> Outcome {
    let pools = pools(&args.nodes).map_err(|error| {
        Failure::of(&error)
            .hint("types are those of the price list, presets and PRODUCT:COUNT (docs/reference/machines.md)")
    })?;
    let mut texts = Vec::new();
    for file in &args.files {
        texts.push((input::shown(file), input::read(file)?));
    }
    let sources: Vec<Source<'_>> = texts.iter().map(|(name, text)| Source { name, text }).collect();
    let manifests = read(&sources);
    for finding in &manifests.findings {
        tell(finding, &sources);
    }
    if manifests.has_errors() {
        let errors =
            manifests.findings.iter().filter(|one| one.diagnostic.severity == Severity::Error).count();
        let what = if errors == 1 { "1 error" } else { &format!("{errors} errors") };
        return Err(Failure::new(format!("{what} in the manifests; nothing is planned")));
    }
    if manifests.workloads.is_empty() {
        return Err(Failure { code: UNREADABLE, ..Failure::new(nothing(&manifests)) });
    }
    let by_id = |workload: &&Workload| workload.pod.gpus.iter().any(|ask| !ask.uuids.wanted.is_empty());
    for workload in manifests.workloads.iter().filter(by_id) {
        let name = show::title(workload);
        eprintln!("warning: {name} names GPUs by id; planned machines have none, so that is left out");
    }
    let offered = args.mechanisms.iter().map(|one| one.mechanism());
    let mechanisms = offered.fold(Mechanisms::NONE.with(Mechanism::Exclusive), Mechanisms::with);
    let settings = Settings { hours: Hours(args.hours), shares: args.shares, mechanisms };
    let planned = plan(&manifests.workloads, &pools, settings).map_err(|error| Failure::of(&error))?;
    match args.output {
        PlanOutput::Table => print::out(&show::table(&planned, &manifests.workloads))?,
        PlanOutput::Json => print::json(&data::data(&planned, &manifests.workloads))?,
    }
    match &args.write {
        Some(folder) => write::write(folder, &planned, &manifests.workloads),
        None => Ok(()),
    }
}

/// One finding on stderr: place, message, hint.
fn tell(finding: &Finding, sources: &[Source<'_>]) {
    let diagnostic = &finding.diagnostic;
    let name = sources.get(finding.source.0).map_or("", |source| source.name);
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let place = match diagnostic.at {
        Some(at) => format!("{name}:{at}"),
        None => name.to_owned(),
    };
    let object = match finding.object.as_str() {
        "" => String::new(),
        object => format!(" {object}:"),
    };
    let path = match diagnostic.path.as_str() {
        "" => String::new(),
        path => format!(" (in {path})"),
    };
    eprintln!("{place}: {severity}:{object} {}{path}", diagnostic.message);
    if let Some(hint) = &diagnostic.hint {
        eprintln!("  hint: {hint}");
    }
}

fn nothing(manifests: &Manifests) -> String {
    let others: Vec<String> =
        manifests.others.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    match others.is_empty() {
        true => "no pods to plan: the manifests are empty".to_owned(),
        false => {
            format!("no pods to plan: the manifests hold {} and nothing that makes pods", others.join(", "))
        }
    }
}
