//! Findings on studies of a model, and on studies in which a figure was changed.

use super::{Check, Finding, findings};
use crate::model::h200;
use crate::{Card, Figures, Outcome, Scope, Shared, Study, simulate};
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};

fn study() -> Study {
    simulate(h200(), Scope::Full, 1, String::new(), "0.1.0")
}

fn finding(study: &Study, id: &str) -> Finding {
    findings(study).into_iter().find(|one| one.id == id).unwrap()
}

fn alter(study: &mut Study, name: &str, how: impl Fn(&mut Shared)) {
    let cell = name.parse().unwrap();
    let mut figures = study.figures(&cell).unwrap().clone();
    let Figures::Shared(shared) = &mut figures else { panic!("{figures:?}") };
    how(shared);
    study.put(cell, Outcome::Measured(figures));
}

#[test]
fn a_modelled_h200_repeats_what_was_measured_on_one() {
    let study = study();
    let all = findings(&study);
    let confirmed = |id: &str| all.iter().any(|one| one.id == id && one.result == Check::Confirmed);
    for id in [
        "light-mps",
        "light-mps-overhead",
        "mps-start-up",
        "heavy-time-slicing",
        "heavy-mps",
        "batch-time-slicing",
        "batch-mps",
        "burn-memory",
        "burn-limits",
        "fault-mps",
        "fault-time-slicing",
        "mig-memory",
        "mig-faults",
        "ranking-efficiency",
    ] {
        assert!(confirmed(id), "{}", finding(&study, id));
    }
    // Equal tenants have nothing of limits, as on the card itself.
    for id in ["light-time-slicing", "heavy-limits"] {
        let one = finding(&study, id);
        assert!(
            matches!(&one.result, Check::NotConfirmed(figure) if figure.contains("times as long")),
            "{one}"
        );
    }
    assert!(matches!(finding(&study, "ranking-ease").result, Check::CouldNotBeTested(_)));
}

#[test]
fn what_was_skipped_could_not_be_tested_and_says_why() {
    let card = Card { mig: None, ..h200() };
    let study = simulate(card, Scope::Full, 1, String::new(), "0.1.0");
    for id in ["mig-performance", "mig-memory", "mig-faults"] {
        let one = finding(&study, id);
        assert!(
            matches!(&one.result, Check::CouldNotBeTested(why) if why.contains("this card has no MIG")),
            "{one}"
        );
        assert!(one.ours.is_empty());
    }
    let isolation = finding(&study, "ranking-fault-isolation");
    assert!(matches!(&isolation.result, Check::Partly(why) if why.contains("MIG against")), "{isolation}");
    let empty = Study::new("", String::new(), h200(), Scope::Quick, Scope::Quick.timing());
    assert!(findings(&empty).iter().all(|one| matches!(one.result, Check::CouldNotBeTested(_))));
}

#[test]
fn a_small_study_takes_the_number_of_tenants_that_it_has() {
    let quick = simulate(h200(), Scope::Quick, 1, String::new(), "0.1.0");
    let one = finding(&quick, "batch-mps");
    assert_eq!(one.result, Check::Confirmed);
    assert!(one.ours.starts_with("two jobs under MPS take "), "{one}");
    let burn = finding(&quick, "burn-memory");
    assert!(
        matches!(&burn.result, Check::CouldNotBeTested(why) if why == "burn/time-slicing/2 was not run"),
        "{burn}"
    );
}

#[test]
fn what_is_within_the_spread_is_no_difference_and_what_is_not_says_by_what() {
    let mut study = study();
    let turns = study.shared(crate::Workload::Light, crate::Strategy::TimeSlicing, 2).unwrap().total;
    alter(&mut study, "light/mps/2", |shared| shared.total = turns);
    assert!(matches!(finding(&study, "light-mps-overhead").result, Check::NoDifference(_)));
    alter(&mut study, "light/mps/2", |shared| {
        shared.total.median = turns.median * 0.5;
        shared.total.low = turns.low * 0.5;
        shared.total.high = turns.high * 0.5;
    });
    let one = finding(&study, "light-mps-overhead");
    assert!(matches!(&one.result, Check::NotConfirmed(figure) if figure.contains("under MPS")), "{one}");
    alter(&mut study, "burn/mps-limits/2", |shared| shared.tenants[0].memory_mib /= 3);
    let one = finding(&study, "burn-limits");
    assert!(
        matches!(&one.result, Check::NotConfirmed(figure) if figure.contains("33 % of the most")),
        "{one}"
    );
    alter(&mut study, "batch/time-slicing/4", |shared| {
        for tenant in &mut shared.tenants {
            tenant.completion_s.iter_mut().for_each(|one| {
                (one.median, one.low, one.high) = (one.median / 3.0, one.low / 3.0, one.high / 3.0);
            });
        }
    });
    assert!(matches!(finding(&study, "batch-time-slicing").result, Check::NotConfirmed(_)));
    alter(&mut study, "batch/mps/4", |shared| shared.board = None);
    assert!(matches!(finding(&study, "batch-mps").result, Check::Partly(_)));
}

#[test]
fn what_a_model_says_is_not_said_of_a_card() {
    let mut study = study();
    let one = finding(&study, "batch-mps");
    assert!(one.simulated && one.to_string().contains("in a model, not on a card: confirmed"), "{one}");
    study.card.simulated = false;
    let one = finding(&study, "batch-mps");
    assert!(!one.simulated && !one.to_string().contains("model"), "{one}");
}

#[test]
fn ids_are_unique() {
    let study = study();
    let mut ids: Vec<&str> = findings(&study).iter().map(|one| one.id).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn a_result_is_never_without_figures(seed in any::<u64>()) {
        for one in findings(&simulate(h200(), Scope::Default, seed, String::new(), "0.1.0")) {
            let tested = !matches!(one.result, Check::CouldNotBeTested(_));
            prop_assert!(tested != one.ours.is_empty(), "{}", one);
            prop_assert!(one.result == Check::Confirmed || one.result.why().is_some_and(|why| !why.is_empty()));
        }
    }
}
