//! What a study does not say: cells that were skipped, that failed, and that were not run.

use super::braces::names;
use super::{Column, Section, Table};
use crate::{Cell, Outcome, Study};

/// A section for each kind of which there is one.
pub(super) fn sections(study: &Study) -> Vec<Section> {
    let mut sections = Vec::new();
    let skipped = by_reason(study, |outcome| match outcome {
        Outcome::Skipped(why) => Some(why),
        _ => None,
    });
    let failed = by_reason(study, |outcome| match outcome {
        Outcome::Failed(why) => Some(why),
        _ => None,
    });
    if !skipped.is_empty() {
        let text = "Can not be done here. Names are written as a shell would expand them.";
        sections.push(Section::new("Skipped").paragraph(text).table(table(&skipped)));
    }
    if !failed.is_empty() {
        sections.push(Section::new("Failed").paragraph("Was tried and did not work.").table(table(&failed)));
    }
    let left = study.left();
    if !left.is_empty() {
        let text = format!("{} cells of this scope were not run.", left.len());
        sections.push(Section::new("Not run").paragraph(text).list(names(&left)));
    }
    sections
}

/// Reasons in the order in which they were met, each with its cells.
fn by_reason(study: &Study, reason: impl Fn(&Outcome) -> Option<&String>) -> Vec<(String, Vec<Cell>)> {
    let mut groups: Vec<(String, Vec<Cell>)> = Vec::new();
    for record in &study.cells {
        let Some(why) = reason(&record.outcome) else { continue };
        match groups.iter_mut().find(|(known, _)| known == why) {
            Some((_, cells)) => cells.push(record.cell),
            None => groups.push((why.clone(), vec![record.cell])),
        }
    }
    groups
}

fn table(groups: &[(String, Vec<Cell>)]) -> Table {
    let mut table = Table::new(vec![Column::words("why"), Column::numbers("cells"), Column::words("which")]);
    for (why, cells) in groups {
        table.row(vec![why.clone(), cells.len().to_string(), names(cells).join(" ")]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::sections;
    use crate::report::Block;
    use crate::report::example::example;

    #[test]
    fn reasons_are_said_once() {
        let sections = sections(&example());
        let Block::Table(skipped) = &sections[0].blocks[1] else { unreachable!() };
        assert_eq!(skipped.rows().len(), 2, "{skipped:?}");
        let expected = [
            "MIG is off on this card, and turning it on needs a reset",
            "3",
            "light/{mig,mig-time-slicing,mig-mps}/2",
        ];
        assert_eq!(skipped.rows()[1], expected);
        let Block::Table(failed) = &sections[1].blocks[1] else { unreachable!() };
        assert_eq!((failed.rows().len(), failed.rows()[0][2].as_str()), (1, "burn/green-contexts/4"));
        let Block::List(left) = &sections[2].blocks[1] else { unreachable!() };
        assert!(left.contains(&"light+bandwidth/limiter".to_owned()), "{left:?}");
    }
}
