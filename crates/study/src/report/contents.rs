//! What stands in a report, and in which order.

use super::reading::{duration, measured};
use super::{Document, Section, interference, mishaps, missing, start_up, workloads};
use crate::spread::number;
use crate::{Outcome, Study};

impl Document {
    /// The report of a study; `answers` are sections that come before the figures.
    pub fn of(study: &Study, answers: &[Section]) -> Self {
        let mut sections = answers.to_vec();
        sections.extend(workloads::section(study));
        sections.extend(interference::section(study));
        sections.extend(mishaps::section(study));
        sections.extend(start_up::section(study));
        sections.extend(start_up::overhead(study));
        sections.extend(missing::sections(study));
        Document {
            title: format!("Ways to share a GPU, {}: {}", measured_word(study), study.card.name),
            notices: notices(study),
            facts: facts(study),
            sections,
        }
    }
}

fn measured_word(study: &Study) -> &'static str {
    if study.card.simulated { "simulated" } else { "measured" }
}

fn notices(study: &Study) -> Vec<String> {
    let mut notices = Vec::new();
    if study.card.simulated {
        notices.push(
            "Simulated: nothing here was measured. All figures come from a model of the card, and show what a report \
             looks like, not what a card does."
                .to_owned(),
        );
    }
    let (left, all) = (study.left().len(), study.scope.cells().len());
    if left > 0 {
        notices.push(format!(
            "{left} of {all} cells were not run. What is missing is named at the end; what follows is drawn from the rest."
        ));
    }
    if left == 0 && measured(study).is_empty() {
        notices.push(
            "No workload was measured: every cell was skipped or failed, for reasons named below.".to_owned(),
        );
    }
    notices
}

fn facts(study: &Study) -> Vec<(String, String)> {
    let card = &study.card;
    let timing = &study.timing;
    let mig = match card.mig {
        Some(true) => "on",
        Some(false) => "off",
        None => "not on this card",
    };
    let simulated = if card.simulated { " (simulated)" } else { "" };
    let count =
        |kind: fn(&Outcome) -> bool| study.cells.iter().filter(|record| kind(&record.outcome)).count();
    let cells = format!(
        "{} {}, {} skipped, {} failed, {} not run",
        count(|outcome| matches!(outcome, Outcome::Measured(_))),
        measured_word(study),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        study.left().len(),
    );
    let facts = [
        ("Card", format!("{}{simulated}", card.name)),
        ("Size", format!("{} MiB, {} multiprocessors", number(card.memory_mib as f64), card.multiprocessors)),
        ("Driver", card.driver.clone()),
        ("CUDA", card.cuda.clone()),
        ("MIG", mig.to_owned()),
        ("Machine", format!("{} processors", card.processors)),
        ("Begun", study.begun.clone()),
        ("Took", duration(study.seconds)),
        ("Scope", study.scope.word().to_owned()),
        ("Cells", cells),
        (
            "Each cell",
            format!(
                "{} × {} of {} s, after {} s of warm-up",
                plural(timing.passes, "pass", "passes"),
                plural(timing.windows, "window", "windows"),
                timing.window,
                timing.warm_up
            ),
        ),
        (
            "Figures",
            "medians; ± is what lies between the least and the most, as far as another run may be away"
                .to_owned(),
        ),
        ("carve", study.carve.clone()),
    ];
    facts.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn plural(count: u32, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use crate::report::example::{balanced, empty, example, example_of};
    use crate::report::{Document, Section, html, markdown, pictures};
    use crate::{Cell, Outcome, Scope};
    use std::collections::BTreeSet;

    #[test]
    fn answers_come_first_and_what_is_missing_last() {
        let document = Document::of(&example(), &[Section::new("Answer").paragraph("MPS.")]);
        let titles: Vec<&str> = document.sections.iter().map(|section| section.title.as_str()).collect();
        let expected = [
            "Answer",
            "Workloads",
            "Who hurts whom",
            "What a mishap does to a neighbour",
            "Start-up",
            "What measuring costs",
            "Skipped",
            "Failed",
            "Not run",
        ];
        assert_eq!(titles, expected);
    }

    #[test]
    fn a_simulated_card_is_called_so_in_every_format() {
        let mut study = example();
        let told = "nothing here was measured";
        assert!(!html(&study).contains(told) && !markdown(&study, "p").contains(told));
        study.card.simulated = true;
        assert!(html(&study).contains(told) && markdown(&study, "p").contains(told));
        for picture in pictures(&study) {
            assert!(picture.svg.contains("(simulated)"), "{}", picture.name);
            assert!(picture.title.contains("(simulated)"), "{}", picture.title);
        }
    }

    #[test]
    fn cells_that_are_left_are_counted_at_the_top() {
        let mut study = example();
        let all = study.scope.cells().len();
        let notice = Document::of(&study, &[]).notices.remove(0);
        assert!(
            notice.starts_with(&format!("{} of {all} cells were not run", study.left().len())),
            "{notice}"
        );
        for cell in study.left() {
            study.put(cell, Outcome::Skipped("no time".to_owned()));
        }
        assert!(Document::of(&study, &[]).notices.is_empty());
    }

    #[test]
    fn a_study_without_any_cell_has_a_report() {
        let study = empty();
        let page = html(&study);
        assert!(page.contains("cells were not run") && page.contains("Not run"), "{page}");
        assert!(markdown(&study, "p").starts_with("# Ways to share a GPU"));
        assert!(pictures(&study).is_empty());
        let mut skipped = empty();
        for cell in skipped.scope.cells() {
            skipped.put(cell, Outcome::Skipped("no GPU".to_owned()));
        }
        assert!(html(&skipped).contains("No workload was measured"));
    }

    #[test]
    fn a_study_without_what_others_are_compared_with_has_a_report() {
        let mut study = example();
        study.cells.retain(|record| !matches!(record.cell, Cell::Share { tenants: 1, .. }));
        let page = html(&study);
        assert!(page.contains("Light inference"), "{page}");
        assert!(!page.contains("NaN") && !page.contains("inf×"));
    }

    #[test]
    fn pictures_are_well_formed_and_named_once() {
        for (scope, least) in [(Scope::Quick, 5), (Scope::Default, 10), (Scope::Full, 20)] {
            let pictures = pictures(&example_of(scope));
            assert!(pictures.len() >= least, "{}", pictures.len());
            let names: BTreeSet<&str> = pictures.iter().map(|picture| picture.name.as_str()).collect();
            assert_eq!(names.len(), pictures.len());
            for picture in &pictures {
                assert_eq!(balanced(&picture.svg), Ok(()), "{}", picture.name);
                assert!(picture.svg.contains("<text") && !picture.svg.contains("NaN"), "{}", picture.name);
            }
        }
    }
}
