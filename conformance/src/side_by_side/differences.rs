//! Where carve answers otherwise than NVIDIA's programs, on purpose, and why; anything else is a failure.

use super::Told;
use std::collections::BTreeSet;

/// A place where the two answer differently.
#[derive(Debug, Clone)]
pub struct Difference {
    scenario: String,
    place: String,
    theirs: Option<String>,
    ours: Option<String>,
}

/// A difference that is meant. `*` stands for anything, in every field; an absent answer reads `(nothing)`.
#[derive(Debug, Clone, Copy)]
pub struct Intended {
    /// In which states of a node.
    pub scenario: &'static str,
    /// What was asked.
    pub place: &'static str,
    /// What NVIDIA's program answers.
    pub theirs: &'static str,
    /// What carve answers.
    pub ours: &'static str,
    /// Why that is meant.
    pub why: &'static str,
}

const NOTHING: &str = "(nothing)";

/// Where two tables differ.
pub fn between(scenario: &str, theirs: &Told, ours: &Told) -> Vec<Difference> {
    let places: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    places
        .into_iter()
        .filter(|place| theirs.get(*place) != ours.get(*place))
        .map(|place| Difference {
            scenario: scenario.to_owned(),
            place: place.clone(),
            theirs: theirs.get(place).cloned(),
            ours: ours.get(place).cloned(),
        })
        .collect()
}

/// Fails unless every difference stands in the table and everything in the table was found.
#[allow(clippy::panic, reason = "the panic is the test's failure")]
pub fn check(found: &[Difference], intended: &[Intended]) {
    let mut report = unexpected(found, intended);
    for row in intended.iter().filter(|row| !found.iter().any(|one| fit(one, row))) {
        report += &format!("no such difference any more: [{}] {} ({})\n", row.scenario, row.place, row.why);
    }
    assert!(report.is_empty(), "\n{report}");
    tell_used(found, intended);
}

/// Fails unless every difference stands in the table, of which only some states of a node were tried.
#[allow(clippy::panic, reason = "the panic is the test's failure")]
pub fn check_some(found: &[Difference], intended: &[Intended]) {
    let report = unexpected(found, intended);
    assert!(report.is_empty(), "\n{report}");
    tell_used(found, intended);
}

fn text(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or(NOTHING)
}

fn fit(difference: &Difference, row: &Intended) -> bool {
    fits(row.scenario, &difference.scenario)
        && fits(row.place, &difference.place)
        && fits(row.theirs, text(&difference.theirs))
        && fits(row.ours, text(&difference.ours))
}

/// Every difference that no row of the table is about.
fn unexpected(found: &[Difference], intended: &[Intended]) -> String {
    let mut report = String::new();
    for one in found.iter().filter(|one| !intended.iter().any(|row| fit(one, row))) {
        report += &format!(
            "[{}] {}\n  NVIDIA {}\n  carve  {}\n",
            one.scenario,
            one.place,
            text(&one.theirs),
            text(&one.ours)
        );
    }
    report
}

fn tell_used(found: &[Difference], intended: &[Intended]) {
    for row in intended {
        let times = found.iter().filter(|one| fit(one, row)).count();
        if times > 0 {
            println!("{times:>5} × [{}] {}: {}", row.scenario, row.place, row.why);
        }
    }
}

/// Whether a pattern with `*` fits a whole text.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| fits(rest, &text[at..]))
        }),
    }
}
