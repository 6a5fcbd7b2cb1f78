//! What follows from a study, before its figures: what suits which work, the order of strategies, and what became of the talk's findings.

use crate::report::{Column, Section, Table};
use crate::{Evidence, Slowness, Study, Verdict, findings, ranking, verdicts};

/// Sections that come before the figures; none where nothing was measured.
pub(crate) fn answers(study: &Study) -> Vec<Section> {
    let verdicts = verdicts(study);
    if verdicts.is_empty() {
        return Vec::new();
    }
    vec![answer(&verdicts), order(study), talk(study)]
}

fn answer(verdicts: &[Verdict]) -> Section {
    let mut table = Table::new(vec![
        Column::words("work"),
        Column::words("where tenants trust each other"),
        Column::words("where neighbours must not hurt"),
    ]);
    for verdict in verdicts {
        let title = verdict.class.title().to_owned();
        table.row(vec![title, verdict.trusting.title(), verdict.isolated.title()]);
    }
    let mut section = Section::new("Which way to share is right").table(table).paragraph(
        "Sharing must gain at least 5 %; of inference, p99 may be half as long again as on a card of its own; of jobs, none may be done later than \
         if all ran one after the other. Neighbours do not hurt where every mishap that was tried left them working and where the worst neighbour \
         leaves at least 80 % of the rate. What differs by less than the spreads counts as the same, and then the simpler way wins.",
    );
    for verdict in verdicts {
        let part = Section::new(sentence(verdict.class.title()))
            .paragraph(format!("Where tenants trust each other: {}.", verdict.trusting))
            .paragraph(format!("Where neighbours must not hurt: {}.", verdict.isolated))
            .table(evidence(&verdict.evidence));
        section = section.part(part);
    }
    section
}

/// What was measured, in figures that compare.
fn evidence(all: &[Evidence]) -> Table {
    let slower = all.first().map_or("", |one| match one.by {
        Slowness::P99 => "p99 of the slowest, × of alone",
        Slowness::Completion => "slowest job, × of alone",
        Slowness::Rate => "slowest, times slower",
    });
    let mut table = Table::new(vec![
        Column::words("way to share"),
        Column::numbers("tenants"),
        Column::numbers("together, × of one alone"),
        Column::numbers(slower),
        Column::numbers("least of most"),
        Column::words("keeps beside its worst neighbour"),
        Column::words("neighbours' mishaps"),
        Column::words("for pods"),
    ]);
    let mut tenants = None;
    let mut sorted: Vec<&Evidence> = all.iter().collect();
    sorted.sort_by_key(|one| one.tenants);
    for one in sorted {
        if tenants.replace(one.tenants).is_some_and(|before| before != one.tenants) {
            table.group();
        }
        let harm =
            one.harm.map(|harm| format!("{:.0} % ({})", harm.kept.median * 100.0, harm.aggressor.title()));
        let ended: Vec<&str> =
            one.survivals.iter().filter(|one| !one.survived).map(|one| one.mishap.title()).collect();
        let mishaps = match (one.survivals.len(), ended.is_empty()) {
            (0, _) => "not tried".to_owned(),
            (_, true) => "works on".to_owned(),
            (_, false) => format!("ended by {}", ended.join(", ")),
        };
        table.row(vec![
            one.strategy.title().to_owned(),
            one.tenants.to_string(),
            one.gain.to_string(),
            format!("{:.2}", one.slowdown.median),
            format!("{:.0} %", one.fairness * 100.0),
            harm.unwrap_or_else(|| "not measured".to_owned()),
            mishaps,
            if one.for_pods { "yes" } else { "inside one program" }.to_owned(),
        ]);
    }
    table
}

fn sentence(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn order(study: &Study) -> Section {
    let mut table =
        Table::new(vec![Column::words("property"), Column::words("the talk"), Column::words("here")]);
    for ranking in ranking(study) {
        let talk: Vec<&str> = ranking.property.talk().iter().map(|strategy| strategy.title()).collect();
        table.row(vec![ranking.property.title().to_owned(), talk.join(" > "), ranking.sentence()]);
    }
    Section::new("In which order").table(table)
}

fn talk(study: &Study) -> Section {
    let mut table = Table::new(vec![
        Column::words("the talk's finding"),
        Column::words(if study.card.simulated { "in the model" } else { "here" }),
        Column::words("figures"),
    ]);
    for finding in findings(study) {
        table.row(vec![finding.claim.to_owned(), finding.result.to_string(), finding.ours]);
    }
    Section::new("The talk's findings")
        .paragraph(
            "The talk is \u{201c}Which GPU Sharing Strategy Is Right for You?\u{201d} (KubeCon North America 2024), which measured on a GeForce RTX 4090 and, for \
             MIG, on an A100. Its claims are told in our words.",
        )
        .table(table)
}

#[cfg(test)]
mod tests {
    use super::answers;
    use crate::report::example::{empty, example};
    use crate::report::{Block, html, markdown};

    #[test]
    fn every_class_and_every_claim_has_its_row() {
        let study = example();
        let sections = answers(&study);
        let rows =
            |at: usize| match &sections[at].blocks.iter().find(|block| matches!(block, Block::Table(_))) {
                Some(Block::Table(table)) => table.rows().len(),
                _ => 0,
            };
        assert_eq!(rows(0), crate::verdicts(&study).len());
        assert_eq!((rows(1), rows(2)), (crate::ranking(&study).len(), crate::findings(&study).len()));
        for page in [markdown(&study, "pictures"), html(&study)] {
            assert!(
                page.contains("Which way to share is right") && page.contains("In which order"),
                "{page}"
            );
        }
    }

    #[test]
    fn nothing_follows_from_nothing() {
        assert_eq!(answers(&empty()), Vec::new());
    }
}
