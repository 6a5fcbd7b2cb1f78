//! What a study alone says: which way to share suits which work on that card, and how to ask for it.

use super::args::AdviseOutput;
use crate::failure::Outcome;
use crate::print;
use crate::table::Table;
use carve_study::{Choice, Strategy, Study, Verdict, verdicts};
use std::fmt::Write;

/// Prints it.
pub(crate) fn answer(study: &Study, output: AdviseOutput) -> Outcome {
    let verdicts = verdicts(study);
    match output {
        AdviseOutput::Table => print::out(&text(study, &verdicts)),
        AdviseOutput::Json => print::json(&verdicts),
        AdviseOutput::Yaml => print::yaml(&verdicts),
    }
}

fn text(study: &Study, verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    let day = study.begun.get(..10).unwrap_or(&study.begun);
    let how = if study.card.simulated { "simulated, nothing was measured" } else { "measured" };
    let left = study.left().len();
    let part = if left == 0 { String::new() } else { format!("; {left} cells of it were not run") };
    // Writing into a string does not fail.
    let _ = writeln!(text, "{}, {how} on {day} ({} study{part})\n", study.card.name, study.scope.word());
    if verdicts.is_empty() {
        text.push_str("No kind of work was measured on a card of its own, so nothing can be compared.\n");
        return text;
    }
    let mut table = Table::new(["WORK", "TENANTS TRUST EACH OTHER", "NEIGHBOURS MUST NOT HURT"]);
    for verdict in verdicts {
        table.row([verdict.class.title().to_owned(), verdict.trusting.title(), verdict.isolated.title()]);
    }
    text.push_str(&table.render());
    text.push('\n');
    for verdict in verdicts {
        let _ = writeln!(text, "{verdict}");
    }
    text.push_str(&asking(verdicts));
    text.push_str("With --cluster or --prometheus beside --study, pods of a cluster are advised by it.\n");
    text
}

/// How pods ask for what was chosen.
fn asking(verdicts: &[Verdict]) -> String {
    let mut chosen: Vec<Strategy> = verdicts
        .iter()
        .flat_map(|verdict| [&verdict.trusting, &verdict.isolated])
        .filter_map(|choice| match choice {
            Choice::Share { strategy, .. } => Some(*strategy),
            Choice::DoNotShare { .. } | Choice::NotKnown { .. } => None,
        })
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    let mut text = String::new();
    for strategy in chosen {
        let how = match strategy {
            Strategy::TimeSlicing | Strategy::TimeSlicingShort | Strategy::TimeSlicingLong => {
                "sharing.timeSlicing in the agent's configuration, or a claim whose sharing strategy is TimeSlicing"
            }
            Strategy::Mps => {
                "sharing.mps in the agent's configuration, or a claim whose sharing strategy is MPS"
            }
            Strategy::MpsLimits => {
                "a claim whose sharing strategy is MPS with defaultActiveThreadPercentage and defaultPinnedDeviceMemoryLimit, or a part of a GPU in any dialect"
            }
            Strategy::Limiter => {
                "a part of a GPU in any dialect on nodes whose agents have the limiter; carve run on one machine"
            }
            Strategy::Mig | Strategy::MigTimeSlicing | Strategy::MigMps => {
                "nvidia.com/mig-PROFILE; a SlicePolicy cuts GPUs on demand"
            }
            Strategy::Dedicated | Strategy::Streams | Strategy::GreenContexts => continue,
        };
        let _ = writeln!(text, "How to ask for {}: {how}.", strategy.title());
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}
