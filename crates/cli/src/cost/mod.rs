//! `carve cost`: what machines with GPUs cost, and who pays for it, by the books that agents keep.

pub(crate) mod args;
mod show;

use crate::args::MachineArgs;
use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::{input, print};
use args::{CostArgs, CostOutput};
use carve_controller::Agents;
use carve_economics::{By, CostReport, Covered, LedgerDocument, Step, Window};
use std::time::SystemTime;

/// Asks or reads, sums up and prints.
pub(crate) fn answer(machine: &MachineArgs, args: &CostArgs) -> Outcome {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    Window::parse(&args.since, now).map_err(|error| Failure::new(format!("--since: {error}")))?;
    let mut covered = Covered::default();
    let hint = "or give --agent URL, or --ledger FILE with what agents answer under /api/v1/ledger";
    let path = Agents::ledger_path(&args.since, Step::All);
    let asked = match args.ledger.is_empty() {
        true => args.agents.ask(&args.asked, machine, &path, hint)?,
        false => Vec::new(),
    };
    let count = asked.len();
    for (from, answer) in asked {
        covered.take_answer(&from, answer);
    }
    for file in &args.ledger {
        let documents = LedgerDocument::read_all(&input::read_recorded(file)?);
        let taken = documents.and_then(|all| all.iter().try_for_each(|one| covered.take(one)));
        taken.map_err(|why| Failure {
            code: UNREADABLE,
            ..Failure::new(format!("{}: {why}", input::shown(file)))
        })?;
    }
    let report = CostReport::of(&covered, By::from(args.by));
    match args.output {
        CostOutput::Table => print::out(&show::table(&report)),
        CostOutput::Csv => print::out(&show::csv(&report)),
        CostOutput::Json => print::json(&report),
        CostOutput::Yaml => print::yaml(&report),
    }?;
    if report.missing.is_empty() {
        return Ok(());
    }
    let what = format!(
        "{} of {count} agents did not tell, so their machines are missing:\n  {}",
        report.missing.len(),
        report.missing.join("\n  ")
    );
    Err(Failure::new(what)
        .hint("kubectl logs of these agents says more; --port and --selector must fit them"))
}
