//! Cells of every kind have an outcome, and figures that make sense.

use crate::machine::{Machine, limiter};
use serde_json::Value;

/// Whether every spread in some figures is one of numbers above 0, and in order. Answers how many there are.
fn spreads(figures: &Value) -> usize {
    let number = |name: &str| figures[name].as_f64();
    match (number("low"), number("median"), number("high"), figures["times"].as_u64()) {
        (Some(low), Some(median), Some(high), Some(times)) => {
            assert!(0.0 < low && low <= median && median <= high && times > 0, "{figures}");
            1
        }
        _ => match figures {
            Value::Object(fields) => fields.values().map(spreads).sum(),
            Value::Array(elements) => elements.iter().map(spreads).sum(),
            Value::Number(number) => {
                assert!(number.as_f64().is_some_and(|number| number >= 0.0), "{number}");
                0
            }
            _ => 0,
        },
    }
}

fn measured<'a>(outcome: &'a Value, kind: &str) -> &'a Value {
    let figures = &outcome["measured"][kind];
    assert!(figures.is_object(), "{outcome}");
    figures
}

#[test]
fn tenants_of_every_kind_share_in_every_way() {
    let machine = Machine::with_short_windows();
    let shared = [
        ("light/dedicated/1", 1),
        ("light/time-slicing/2", 2),
        ("light/mps/2", 2),
        ("light/mps-limits/2", 2),
        ("light/streams/2", 2),
        ("heavy/dedicated/1", 1),
        ("batch/dedicated/1", 1),
        ("batch/streams/2", 2),
        ("burn/time-slicing/2", 2),
        ("bandwidth/mps/2", 2),
    ];
    let names = shared.map(|(cell, _)| cell);
    for ((cell, count), outcome) in shared.iter().zip(machine.outcomes(&names, &[])) {
        let figures = measured(&outcome, "shared");
        let tenants = figures["tenants"].as_array().expect("tenants");
        assert_eq!(tenants.len(), *count, "{cell}");
        // Together, and of each tenant what it does and when it was ready; beside that what its kind has.
        let of_each = match cell.split('/').next() {
            Some("light" | "heavy") => 5,
            Some("batch") => 3,
            _ => 2,
        };
        // And when its daemon listened, where it has one.
        let daemon = usize::from(cell.contains("/mps"));
        assert_eq!(spreads(figures), 1 + daemon + count * of_each, "{cell}: {figures}");
        assert!(tenants.iter().all(|tenant| tenant["memory_mib"].is_u64()), "{cell}");
        assert!(
            figures["board"]["memory_mib"].as_u64().is_some_and(|memory| memory > 0),
            "{cell}: {figures}"
        );
    }
    let memory = |cell: &str, which: usize| {
        let outcome = machine.outcome(cell).expect("an outcome");
        measured(&outcome, "shared")["tenants"][which]["memory_mib"].as_u64().expect("a number")
    };
    // One takes nine tenths of what it finds; so much is not there twice.
    assert!(memory("burn/time-slicing/2", 0) + memory("burn/time-slicing/2", 1) < 141 * 1024);
    assert!(memory("light/dedicated/1", 0) > 0);
    let overhead = &machine.outcomes(&["overhead"], &[])[0];
    assert_eq!(spreads(measured(overhead, "overhead")), 2);
    let beside = &machine.outcomes(&["light+burn/time-slicing"], &[])[0];
    assert_eq!(spreads(measured(beside, "beside")), 4, "rates, and what the slowest requests take: {beside}");
    // Requests that come when they like: as many as what is known of one tenant alone says.
    let open = &machine.outcomes(&["light-open/time-slicing/2"], &[])[0];
    let tenants = measured(open, "shared")["tenants"].as_array().expect("tenants");
    let arrivals = |tenant: &Value| tenant["arrivals"].as_f64().is_some_and(|rate| rate > 0.0);
    assert!(tenants.len() == 2 && tenants.iter().all(arrivals), "{open}");
    assert!(machine.processes().is_empty() && machine.left_behind().is_empty());
}

#[test]
fn the_limiter_divides_as_people_use_it() {
    if limiter().is_none() {
        return;
    }
    let machine = Machine::with_short_windows();
    let outcomes = machine.outcomes(&["light/limiter/2", "fault/limiter"], &[]);
    assert_eq!(spreads(measured(&outcomes[0], "shared")), 11, "{}", outcomes[0]);
    assert_eq!(measured(&outcomes[1], "happened")["survived"], true, "{}", outcomes[1]);
    assert!(machine.processes().is_empty() && machine.left_behind().is_empty());
}

#[test]
fn what_can_not_be_done_says_why() {
    let machine = Machine::with_short_windows();
    let cells =
        ["light/mig/2", "light/time-slicing-short/2", "torch-light/dedicated/1", "light/green-contexts/2"];
    let outcomes = machine.outcomes(&cells, &[]);
    for (outcome, why) in
        outcomes.iter().zip(["--change-settings", "--change-settings", "no-python has no torch"])
    {
        assert!(outcome["skipped"].as_str().is_some_and(|told| told.contains(why)), "{outcome}");
    }
    // The simulated library does not divide multiprocessors.
    let told = outcomes[3]["failed"].as_str().unwrap_or_default();
    assert!(told.contains("divide the multiprocessors") && told.contains("NOT_SUPPORTED"), "{}", outcomes[3]);
}

/// What a neighbour has of a mishap: whether it lives, and a word of what the offender met.
fn mishaps(expected: &[(&str, bool, &str)]) {
    let machine = Machine::with_short_windows();
    let names: Vec<&str> = expected.iter().map(|(cell, _, _)| *cell).collect();
    for ((cell, survives, met), outcome) in expected.iter().zip(machine.outcomes(&names, &[])) {
        let happened = measured(&outcome, "happened");
        assert_eq!(happened["survived"], *survives, "{cell}: {happened}");
        assert!(happened["offender"].as_str().is_some_and(|told| told.contains(met)), "{cell}: {happened}");
        assert_eq!(happened["error"].is_string(), !survives, "{cell}: {happened}");
        assert_eq!(
            happened["after"].as_f64().is_some_and(|rate| rate > 0.0),
            *survives,
            "{cell}: {happened}"
        );
        assert_eq!(happened["next_works"], true, "{cell}: {happened}");
        if *cell != "kill/streams" {
            assert!(happened["before"].as_f64().is_some_and(|rate| rate > 0.0), "{cell}: {happened}");
        }
    }
    assert!(machine.processes().is_empty() && machine.left_behind().is_empty());
}

#[test]
fn neighbours_under_time_slicing_have_a_fault_and_a_kill_behind_them() {
    mishaps(&[
        ("fault/time-slicing", true, "ILLEGAL_ADDRESS"),
        ("out-of-memory/time-slicing", false, "was refused"),
        ("kill/time-slicing", true, "was killed"),
    ]);
}

#[test]
fn neighbours_that_share_a_server_or_a_process_share_its_fate() {
    mishaps(&[
        ("fault/mps", false, "ILLEGAL_ADDRESS"),
        ("fault/streams", false, "ILLEGAL_ADDRESS"),
        ("kill/streams", false, "was killed"),
    ]);
}
