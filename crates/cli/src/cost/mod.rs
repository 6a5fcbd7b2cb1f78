//! `carve cost`: what machines with GPUs cost, and who pays for it, by the books that agents keep.

pub(crate) mod args;
mod asked;
mod show;

use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::{input, print};
use args::{CostArgs, CostOutput};
use carve_economics::{By, CostReport, Covered, LedgerDocument, Window};
use std::time::SystemTime;

/// Asks or reads, sums up and prints.
pub(crate) fn answer(args: &CostArgs) -> Outcome {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    Window::parse(&args.since, now).map_err(|error| Failure::new(format!("--since: {error}")))?;
    let mut covered = Covered::default();
    let mut silent = Vec::new();
    let mut asked = 0;
    if args.ledger.is_empty() {
        for (from, answer) in asked::ledgers(args)? {
            asked += 1;
            match answer.and_then(|text| take(&mut covered, &text)) {
                Ok(()) => {}
                Err(why) => silent.push(format!("{from}: {why}")),
            }
        }
    }
    for file in &args.ledger {
        take(&mut covered, &input::read_recorded(file)?).map_err(|why| Failure {
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
    if silent.is_empty() {
        return Ok(());
    }
    let what = format!(
        "{} of {asked} agents did not tell, so their machines are missing:\n  {}",
        silent.len(),
        silent.join("\n  ")
    );
    Err(Failure::new(what)
        .hint("carve explain and kubectl logs of these agents say more; --port and --selector must fit them"))
}

/// Takes in a document: one ledger or a list of them.
fn take(covered: &mut Covered, text: &str) -> Result<(), String> {
    let documents = LedgerDocument::read_all(text).map_err(|error| error.to_string())?;
    documents.iter().try_for_each(|document| covered.take(document)).map_err(|error| error.to_string())
}
