//! Verdicts on studies of a model and on studies made for a rule.

use super::{Choice, UNHURT, WORTHWHILE, verdicts};
use crate::model::h200;
use crate::{
    Beside, Cell, Class, Figures, Happened, Mishap, Outcome, Scope, Shared, Spread, Strategy, Study, Tenant,
    Victim, Workload, simulate,
};
use carve_gpu_model::Mechanism;
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, proptest};

fn about(median: f64, percent: f64) -> Spread {
    Spread::around(median, median * percent / 100.0, 5)
}

fn tenant(rate: f64, p99: Option<f64>) -> Tenant {
    Tenant {
        rate: about(rate, 1.0),
        p50_ms: p99.map(|p99| about(p99 * 0.9, 1.0)),
        p95_ms: p99.map(|p99| about(p99 * 0.95, 1.0)),
        p99_ms: p99.map(|p99| about(p99, 1.0)),
        completion_s: None,
        job: None,
        arrivals: None,
        start_up_s: about(0.3, 1.0),
        memory_mib: 100,
    }
}

/// A study of light inference with 100 requests a second and 10 ms, alone.
struct Made(Study);

impl Made {
    fn new() -> Self {
        let study = Study::new("0.1.0", String::new(), h200(), Scope::Full, Scope::Full.timing());
        Made(study).shared(Strategy::Dedicated, 1, 100.0, 10.0)
    }

    fn shared(mut self, strategy: Strategy, tenants: u8, total: f64, p99: f64) -> Self {
        let each = tenant(total / f64::from(tenants), Some(p99));
        let shared = Shared {
            tenants: vec![each; usize::from(tenants)],
            total: about(total, 1.0),
            daemon_s: None,
            board: None,
        };
        let cell = Cell::Share { workload: Workload::Light, strategy, tenants };
        self.0.put(cell, Outcome::Measured(Figures::Shared(shared)));
        self
    }

    fn fault(mut self, strategy: Strategy, survived: bool) -> Self {
        let happened = Happened {
            offender: "700".to_owned(),
            survived,
            error: (!survived).then(|| "809".to_owned()),
            before: 100.0,
            after: if survived { 100.0 } else { 0.0 },
            longest_gap_ms: 1.0,
            next_works: true,
        };
        self.0.put(
            Cell::Mishap { mishap: Mishap::Fault, strategy },
            Outcome::Measured(Figures::Happened(happened)),
        );
        self
    }

    fn kept(mut self, strategy: Strategy, kept: f64) -> Self {
        let victim = |rate: f64| Victim { rate: about(rate, 1.0), p99_ms: None };
        let beside = Beside { alone: victim(100.0), beside: victim(100.0 * kept) };
        let cell = Cell::Beside { victim: Workload::Light, aggressor: Workload::Burn, strategy };
        self.0.put(cell, Outcome::Measured(Figures::Beside(beside)));
        self
    }

    fn choices(&self) -> (Choice, Choice) {
        let mut all = verdicts(&self.0);
        assert_eq!(all.len(), 1);
        let verdict = all.remove(0);
        assert_eq!(verdict.class, Class::LightInference);
        (verdict.trusting, verdict.isolated)
    }
}

fn chosen(choice: &Choice) -> Option<(Strategy, u8)> {
    match choice {
        Choice::Share { strategy, tenants, .. } => Some((*strategy, *tenants)),
        _ => None,
    }
}

#[test]
fn the_greatest_gain_wins_among_those_that_are_quick_enough() {
    let made = Made::new()
        .shared(Strategy::TimeSlicing, 2, 150.0, 14.0)
        .shared(Strategy::Mps, 2, 190.0, 11.0)
        .shared(Strategy::Mps, 4, 300.0, 14.9)
        .shared(Strategy::Mps, 8, 400.0, 15.2)
        .shared(Strategy::Streams, 4, 390.0, 10.0);
    let (trusting, isolated) = made.choices();
    // Eight tenants wait too long, and streams are nothing for pods.
    assert_eq!(chosen(&trusting), Some((Strategy::Mps, 4)), "{trusting}");
    assert!(trusting.why().contains("3.00 times what one does alone"), "{trusting}");
    assert!(matches!(isolated, Choice::NotKnown { .. }), "{isolated}");
}

#[test]
fn a_tie_goes_to_less_effort_and_fewer_tenants() {
    let made = Made::new()
        .shared(Strategy::MpsLimits, 2, 191.0, 11.0)
        .shared(Strategy::Mps, 2, 190.0, 11.0)
        .shared(Strategy::Mps, 4, 191.0, 11.0)
        .shared(Strategy::TimeSlicing, 2, 180.0, 11.0);
    let (trusting, _) = made.choices();
    assert_eq!(chosen(&trusting), Some((Strategy::Mps, 2)));
    assert!(
        matches!(&trusting, Choice::Share { tied, .. } if tied[..] == [Strategy::MpsLimits]),
        "{trusting}"
    );
    assert!(trusting.why().contains("MPS with limits is as good in gain, within the spread"), "{trusting}");
}

#[test]
fn what_gains_nothing_or_waits_too_long_is_not_shared() {
    let (trusting, isolated) =
        Made::new().shared(Strategy::Mps, 2, 103.0, 10.0).fault(Strategy::Mps, true).choices();
    assert!(matches!(&trusting, Choice::DoNotShare { why } if why.contains("less than 5 %")), "{trusting}");
    assert!(matches!(isolated, Choice::DoNotShare { .. }), "{isolated}");
    let (trusting, _) =
        Made::new().shared(Strategy::Mps, 2, 130.0, 17.0).shared(Strategy::Mps, 4, 140.0, 30.0).choices();
    assert!(
        matches!(&trusting, Choice::DoNotShare { why } if why.contains("1.70 times") && why.contains("1.40 times")),
        "{trusting}"
    );
    let (trusting, _) = Made::new().choices();
    assert!(matches!(trusting, Choice::NotKnown { .. }), "{trusting}");
}

#[test]
fn neighbours_that_must_not_hurt() {
    let made = || {
        Made::new()
            .shared(Strategy::Mps, 2, 190.0, 11.0)
            .shared(Strategy::TimeSlicing, 2, 150.0, 14.0)
            .shared(Strategy::Mig, 2, 160.0, 12.0)
            .fault(Strategy::Mps, false)
            .fault(Strategy::TimeSlicing, true)
    };
    let (trusting, isolated) = made().choices();
    assert_eq!(chosen(&trusting), Some((Strategy::Mps, 2)));
    assert_eq!(chosen(&isolated), Some((Strategy::TimeSlicing, 2)));
    assert!(isolated.why().contains("was not measured"), "{isolated}");

    let (_, isolated) = made().kept(Strategy::TimeSlicing, 0.5).choices();
    assert!(matches!(&isolated, Choice::DoNotShare { why } if why.contains("keeps 50 %")), "{isolated}");

    let (_, isolated) = made()
        .kept(Strategy::TimeSlicing, 0.85)
        .kept(Strategy::Mig, 0.99)
        .fault(Strategy::Mig, true)
        .choices();
    assert_eq!(chosen(&isolated), Some((Strategy::Mig, 2)), "{isolated}");

    let (_, isolated) = made()
        .kept(Strategy::TimeSlicing, 0.98)
        .kept(Strategy::Mig, 0.99)
        .fault(Strategy::Mig, true)
        .choices();
    assert_eq!(chosen(&isolated), Some((Strategy::TimeSlicing, 2)), "{isolated}");

    let (_, isolated) =
        Made::new().shared(Strategy::Mps, 2, 190.0, 11.0).fault(Strategy::Mps, false).choices();
    assert!(
        matches!(&isolated, Choice::DoNotShare { why } if why.contains("ended by a neighbour that touches wrong memory")),
        "{isolated}"
    );
}

#[test]
fn a_modelled_h200_shares_light_and_small_work_by_mps() {
    let study = simulate(h200(), Scope::Full, 1, String::new(), "0.1.0");
    let all = verdicts(&study);
    assert_eq!(all.iter().map(|one| one.class).collect::<Vec<_>>(), Class::ALL);
    let trusting: Vec<_> =
        all.iter().map(|one| chosen(&one.trusting).and_then(|(how, _)| how.mechanism())).collect();
    assert_eq!(trusting[0], Some(Mechanism::Mps), "{}", all[0]);
    assert_eq!(trusting[1], None, "{}", all[1]);
    assert_eq!(trusting[2], Some(Mechanism::Mps), "{}", all[2]);
}

proptest! {
#![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_choice_follows_its_own_rules(
        seed in any::<u64>(),
        scope in prop::sample::select(vec![Scope::Quick, Scope::Default]),
    ) {
        for verdict in verdicts(&simulate(h200(), scope, seed, String::new(), "0.1.0")) {
            for (choice, alone) in [(&verdict.trusting, false), (&verdict.isolated, true)] {
                prop_assert!(!choice.why().is_empty());
                let Some((strategy, tenants)) = chosen(choice) else { continue };
                let evidence = verdict.evidence.iter().find(|one| one.strategy == strategy && one.tenants == tenants);
                let evidence = evidence.unwrap();
                prop_assert!(evidence.for_pods && evidence.gain.median >= WORTHWHILE);
                prop_assert!(!alone || evidence.survives());
                prop_assert!(!alone || evidence.harm.is_none_or(|harm| harm.kept.median >= UNHURT));
            }
        }
    }
}
