//! Where carve answers otherwise than NVIDIA's programs, on purpose, and why; anything else is a failure.

use crate::answers::Told;
use std::collections::BTreeSet;

/// A place where the two answer differently.
#[derive(Debug)]
pub(crate) struct Difference {
    scenario: String,
    place: String,
    theirs: Option<String>,
    ours: Option<String>,
}

/// A difference that is meant. `*` stands for anything, in every field; an absent answer reads `(nothing)`.
pub(crate) struct Intended {
    pub(crate) scenario: &'static str,
    pub(crate) place: &'static str,
    pub(crate) theirs: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) why: &'static str,
}

const NOTHING: &str = "(nothing)";

/// Where two tables differ.
pub(crate) fn between(scenario: &str, theirs: &Told, ours: &Told) -> Vec<Difference> {
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
pub(crate) fn check(found: &[Difference], intended: &[Intended]) {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| NOTHING.to_owned());
    let fit = |difference: &Difference, row: &Intended| {
        fits(row.scenario, &difference.scenario)
            && fits(row.place, &difference.place)
            && fits(row.theirs, &text(&difference.theirs))
            && fits(row.ours, &text(&difference.ours))
    };
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
    for row in intended.iter().filter(|row| !found.iter().any(|one| fit(one, row))) {
        report += &format!("no such difference any more: [{}] {} ({})\n", row.scenario, row.place, row.why);
    }
    assert!(report.is_empty(), "\n{report}");
    for row in intended {
        let times = found.iter().filter(|one| fit(one, row)).count();
        println!("{times:>5} × [{}] {}: {}", row.scenario, row.place, row.why);
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
