//! What the model shows, and what no model may show.

use super::{Model, Setting, settle, simulate};
use crate::{Beside, Card, Cell, Figures, Outcome, Scope, Shared, Strategy, Study, Workload};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

pub(crate) fn h200() -> Card {
    Card {
        name: "NVIDIA H200".to_owned(),
        memory_mib: 143_771,
        multiprocessors: 132,
        driver: "580.159.04".to_owned(),
        cuda: "13.0".to_owned(),
        mig: Some(false),
        processors: 16,
        simulated: true,
    }
}

fn study() -> Study {
    simulate(h200(), Scope::Full, 1, "2026-11-17T12:00:00Z".to_owned(), "0.1.0")
}

fn shared(workload: Workload, strategy: Strategy, tenants: u8) -> Shared {
    match Model::new(h200(), Scope::Full.timing(), 1).outcome(&Cell::Share { workload, strategy, tenants }) {
        Outcome::Measured(Figures::Shared(shared)) => shared,
        other => panic!("{workload}/{strategy}/{tenants}: {other:?}"),
    }
}

fn gain(workload: Workload, strategy: Strategy, tenants: u8) -> f64 {
    shared(workload, strategy, tenants).total.median / shared(workload, Strategy::Dedicated, 1).total.median
}

fn kept(victim: Workload, aggressor: Workload, strategy: Strategy) -> f64 {
    let cell = Cell::Beside { victim, aggressor, strategy };
    match Model::new(h200(), Scope::Full.timing(), 1).outcome(&cell) {
        Outcome::Measured(Figures::Beside(Beside { alone, beside })) => {
            beside.rate.median / alone.rate.median
        }
        other => panic!("{cell}: {other:?}"),
    }
}

fn near(value: f64, expected: f64, part: f64) {
    assert!((value / expected - 1.0).abs() <= part, "{value} is not within {part} of {expected}");
}

#[test]
fn pytorch_alone_and_shared_is_as_it_was_measured() {
    let rate = |workload, strategy, tenants| shared(workload, strategy, tenants).tenants[0].rate.median;
    near(rate(Workload::TorchLight, Strategy::Dedicated, 1), 281.0, 0.05);
    near(rate(Workload::TorchLight, Strategy::TimeSlicing, 2), 254.0, 0.06);
    near(rate(Workload::TorchHeavy, Strategy::Dedicated, 1), 299.0, 0.05);
    near(rate(Workload::TorchHeavy, Strategy::TimeSlicing, 2), 172.0, 0.05);
    near(rate(Workload::TorchHeavy, Strategy::Mps, 2), 195.0, 0.05);
    near(rate(Workload::TorchHeavy, Strategy::MpsLimits, 2), 173.0, 0.07);
    near(rate(Workload::TorchBatch, Strategy::Dedicated, 1), 394.0 * 50.0, 0.05);
    near(rate(Workload::TorchBatch, Strategy::TimeSlicing, 4), 292.0 * 50.0, 0.05);
    near(rate(Workload::TorchBurn, Strategy::Dedicated, 1), 657.0, 0.05);
    near(rate(Workload::TorchBurn, Strategy::TimeSlicing, 2), 315.0, 0.05);
    near(rate(Workload::TorchBurn, Strategy::Mps, 2), 330.0, 0.05);
    near(rate(Workload::TorchBurn, Strategy::MpsLimits, 2), 319.0, 0.05);
}

#[test]
fn carves_own_workloads_are_as_they_were_measured() {
    let total = |workload, strategy, tenants| shared(workload, strategy, tenants).total.median;
    for (workload, strategy, tenants, measured) in [
        (Workload::Light, Strategy::Dedicated, 1, 842.0),
        (Workload::Light, Strategy::TimeSlicing, 2, 1_489.0),
        (Workload::Light, Strategy::TimeSlicing, 4, 1_971.0),
        (Workload::Light, Strategy::Mps, 2, 1_617.0),
        (Workload::Light, Strategy::Mps, 4, 2_985.0),
        (Workload::Heavy, Strategy::Dedicated, 1, 542.0),
        (Workload::Heavy, Strategy::TimeSlicing, 2, 509.0),
        (Workload::Heavy, Strategy::Mps, 2, 623.0),
        (Workload::Heavy, Strategy::Mps, 4, 637.0),
        (Workload::Batch, Strategy::Dedicated, 1, 19_183.0),
        (Workload::Batch, Strategy::TimeSlicing, 4, 57_180.0),
        (Workload::Batch, Strategy::Mps, 4, 75_941.0),
        (Workload::Burn, Strategy::Dedicated, 1, 361.0),
        (Workload::Burn, Strategy::TimeSlicing, 2, 333.0),
        (Workload::Burn, Strategy::Mps, 2, 397.0),
    ] {
        let modelled = total(workload, strategy, tenants);
        let off = (modelled / measured - 1.0).abs();
        assert!(off <= 0.12, "{workload}/{strategy}/{tenants}: {modelled} instead of {measured}");
    }
}

#[test]
fn small_jobs_lose_a_quarter_in_turns_and_little_at_once() {
    for workload in [Workload::Batch, Workload::TorchBatch] {
        let each = gain(workload, Strategy::TimeSlicing, 4) / 4.0;
        assert!((0.68..0.82).contains(&each), "{workload}: {each}");
        let each = gain(workload, Strategy::Mps, 4) / 4.0;
        assert!(each > 0.9, "{workload}: {each}");
    }
}

#[test]
fn light_inference_gains_at_once_and_heavy_is_shared_fairly() {
    assert!(gain(Workload::Light, Strategy::Mps, 2) > 1.85);
    assert!(gain(Workload::Light, Strategy::Mps, 4) > gain(Workload::Light, Strategy::TimeSlicing, 4) * 1.3);
    for strategy in [Strategy::TimeSlicing, Strategy::Mps, Strategy::MpsLimits, Strategy::Limiter] {
        let total = gain(Workload::Heavy, strategy, 2);
        assert!((0.9..1.4).contains(&total), "{strategy}: {total}");
        let tenants = shared(Workload::Heavy, strategy, 2).tenants;
        near(tenants[0].rate.median, tenants[1].rate.median, 0.03);
    }
    assert!(gain(Workload::Heavy, Strategy::Mps, 2) > gain(Workload::Heavy, Strategy::TimeSlicing, 2) * 1.05);
    assert!(gain(Workload::Burn, Strategy::Mps, 4) < 1.15);
}

#[test]
fn parts_of_their_own_keep_neighbours_away() {
    let kept = |strategy| kept(Workload::Light, Workload::Burn, strategy);
    let (turns, at_once, limits) =
        (kept(Strategy::TimeSlicing), kept(Strategy::Mps), kept(Strategy::MpsLimits));
    assert!(turns < 0.7, "{turns}");
    assert!(at_once < 0.9 && limits > 0.95, "{at_once} {limits}");
    assert!(kept(Strategy::Mig) > 0.95);
    assert!(kept(Strategy::Limiter) > turns);
}

#[test]
fn burning_takes_memory_by_who_comes_first() {
    let of = |strategy| {
        shared(Workload::Burn, strategy, 2).tenants.iter().map(|one| one.memory_mib).collect::<Vec<_>>()
    };
    assert!(of(Strategy::TimeSlicing)[0] > 5 * of(Strategy::TimeSlicing)[1]);
    assert_eq!(of(Strategy::MpsLimits)[0], of(Strategy::MpsLimits)[1]);
}

#[test]
fn every_cell_of_the_full_scope_has_an_outcome() {
    let study = study();
    assert!(study.left().is_empty());
    assert!(study.card.simulated);
    let skipped: Vec<_> =
        study.cells.iter().filter(|one| !matches!(one.outcome, Outcome::Measured(_))).collect();
    assert!(!skipped.is_empty());
    for record in skipped {
        assert!(matches!(record.cell, Cell::Share { strategy: Strategy::Mig, tenants: 8, .. }), "{record:?}");
        assert!(
            matches!(&record.outcome, Outcome::Skipped(why) if why.contains("7 MIG devices")),
            "{record:?}"
        );
    }
    assert!(Study::read(&study.json()).unwrap() == study);
}

#[test]
fn a_card_without_mig_says_so() {
    let card = Card {
        name: "NVIDIA GeForce RTX 4090".to_owned(),
        mig: None,
        memory_mib: 24_564,
        multiprocessors: 128,
        ..h200()
    };
    let study = simulate(card, Scope::Full, 1, String::new(), "0.1.0");
    let skipped = study.outcome(&"light/mig/2".parse().unwrap());
    assert_eq!(skipped, Some(&Outcome::Skipped("this card has no MIG".to_owned())));
    assert!(study.dedicated(Workload::Light).is_some());
}

#[test]
fn a_mishap_reaches_who_shares_a_server_or_a_process() {
    let study = study();
    let survived = |name: &str| match study.figures(&name.parse().unwrap()) {
        Some(Figures::Happened(happened)) => {
            assert_eq!(happened.survived, happened.error.is_none());
            assert_eq!(happened.survived, happened.after > 0.0);
            happened.survived
        }
        other => panic!("{name}: {other:?}"),
    };
    for name in [
        "fault/mps",
        "fault/mps-limits",
        "fault/streams",
        "fault/green-contexts",
        "kill/streams",
        "out-of-memory/mps",
    ] {
        assert!(!survived(name), "{name}");
    }
    for name in ["fault/time-slicing", "fault/limiter", "fault/mig", "out-of-memory/mps-limits", "kill/mps"] {
        assert!(survived(name), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nobody_gets_more_than_there_is(
        workloads in prop::collection::vec(prop::sample::select(&Workload::ALL[..]), 1..9),
        strategy in prop::sample::select(&Strategy::ALL[..]),
        multiprocessors in 16u32..200,
    ) {
        let card = Card { multiprocessors, name: "Some Card".to_owned(), ..h200() };
        let parts = u8::try_from(workloads.len()).unwrap();
        if let Ok(setting) = Setting::of(&card, strategy, &workloads, parts) {
            let settled = settle(&setting.players, setting.meeting);
            let sum = |of: fn(&super::Player) -> f64| -> f64 {
                setting.players.iter().zip(&settled).map(|(player, one)| one.rate * player.demand.gpu_ms * of(player)).sum()
            };
            if matches!(setting.meeting, super::Meeting::InTurns { .. }) {
                prop_assert!(sum(|_| 1.0) <= 1.001);
            }
            if strategy != Strategy::Dedicated {
                prop_assert!(sum(|player| player.demand.uses.multiprocessors) <= 1.001);
                prop_assert!(sum(|player| player.demand.uses.bandwidth) <= 1.001);
                prop_assert!(sum(|player| player.demand.uses.power) <= 1.001);
            }
            prop_assert!(settled.iter().all(|one| one.rate.is_finite() && one.rate > 0.0));
        }
    }

    #[test]
    fn together_they_do_no_more_than_each_alone(
        (workload, strategy, tenants) in (
            prop::sample::select(&Workload::ALL[..]),
            prop::sample::select(&Strategy::ALL[1..]),
            prop::sample::select(vec![2u8, 4, 7, 8]),
        ),
        seed in any::<u64>(),
    ) {
        let model = Model::new(h200(), Scope::Default.timing(), seed);
        let rate = |strategy, tenants| match model.outcome(&Cell::Share { workload, strategy, tenants }) {
            Outcome::Measured(Figures::Shared(shared)) => Some(shared.total.median),
            _ => None,
        };
        let alone = rate(Strategy::Dedicated, 1).unwrap();
        if let Some(total) = rate(strategy, tenants) {
            prop_assert!(total <= alone * f64::from(tenants) * 1.05, "{total} {alone}");
        }
    }

    #[test]
    fn a_seed_is_all_there_is_to_chance(seed in any::<u64>()) {
        let once = simulate(h200(), Scope::Quick, seed, String::new(), "0.1.0");
        prop_assert_eq!(&once, &simulate(h200(), Scope::Quick, seed, String::new(), "0.1.0"));
        prop_assert!(once != simulate(h200(), Scope::Quick, seed.wrapping_add(1), String::new(), "0.1.0"));
    }
}
