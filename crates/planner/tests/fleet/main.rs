//! Plans for hosts and fleets against exhaustive search, against another exact method, and before the independent checker.

mod cases;
mod examples;
mod exhaustive;
mod supplies;

use carve_planner::{Effort, Generation, Plan, check_plan, plan, room};
use cases::{Case, PRODUCTS, case, states};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

fn planned(case: &Case) -> Plan {
    let plan = plan(&case.gpus, &case.demand, Generation(1), Effort::HOST).unwrap();
    assert_eq!(check_plan(&case.gpus, &case.demand, &plan), Ok(()), "{plan}");
    plan
}

#[test]
fn room_is_what_an_exact_search_finds() {
    for product in PRODUCTS {
        let (table, states) = states(product);
        for state in states {
            assert_eq!(
                i64::from(room(table, state)),
                exhaustive::room_by_search(table, state),
                "{product} {state:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn one_and_two_gpus_get_the_best_of_all_plans_in_every_objective(case in case(1..=2, 10)) {
        let plan = planned(&case);
        prop_assert!(plan.quality.exhaustive);
        prop_assert_eq!(exhaustive::worth(&case, &plan), exhaustive::optimum(&case), "{:?}\n{}", case, plan);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn up_to_eight_gpus_serve_and_keep_the_most(case in case(3..=8, 28)) {
        let plan = planned(&case);
        prop_assert!(plan.quality.exhaustive, "not exhaustive: {:?}", case);
        let found = (plan.served.len(), plan.quality.destroyed);
        prop_assert_eq!(found, supplies::optimum(&case), "{:?}\n{}", case, plan);
    }

    #[test]
    fn little_effort_is_honest_about_what_it_can_not_know(case in case(3..=8, 28)) {
        let plan = plan(&case.gpus, &case.demand, Generation(1), Effort { states: 2 }).unwrap();
        prop_assert_eq!(check_plan(&case.gpus, &case.demand, &plan), Ok(()));
        let (served, destroyed) = supplies::optimum(&case);
        prop_assert!(served as u64 <= plan.quality.serves_at_most, "the bound is none: {}", plan);
        prop_assert!(plan.served.len() <= served);
        if plan.quality.exhaustive {
            prop_assert_eq!((plan.served.len(), plan.quality.destroyed), (served, destroyed));
        }
    }
}

/// Changes one thing about a plan; says whether there was something to change.
fn forge(case: &Case, plan: &mut Plan, what: u8, which: &prop::sample::Index) -> bool {
    let gpu = &case.gpus[which.index(case.gpus.len())];
    let change = plan.gpus.get_mut(&gpu.at).unwrap();
    let claim = (!plan.served.is_empty())
        .then(|| plan.served.keys().nth(which.index(plan.served.len())).unwrap().clone());
    match (what, claim) {
        (0, _) => change.recut.keep.pop().is_some(),
        (1, _) => change.recut.destroy.pop().is_some(),
        (2, _) => change.recut.create.pop().is_some(),
        (3, _) => match change.recut.keep.pop() {
            Some(kept) => {
                let gone = gpu.instances.iter().find(|instance| instance.id == kept.id).unwrap();
                change.recut.destroy.push(gone.clone());
                true
            }
            None => false,
        },
        (4, Some(claim)) => plan.served.remove(&claim).is_some(),
        (5, Some(claim)) => {
            plan.served.get_mut(&claim).unwrap().placed.start += 1;
            true
        }
        (6, Some(claim)) if plan.served.len() > 1 => {
            let copy = plan.served[&claim].clone();
            let other = plan.served.keys().find(|other| **other != claim).unwrap().clone();
            plan.served.insert(other, copy);
            true
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn whatever_is_changed_about_a_plan_is_found(
        case in case(1..=4, 12), what in 0..7u8, which in any::<prop::sample::Index>(),
    ) {
        let mut plan = planned(&case);
        if forge(&case, &mut plan, what, &which) {
            prop_assert!(check_plan(&case.gpus, &case.demand, &plan).is_err(), "change {} went unseen: {}", what, plan);
        }
    }
}
