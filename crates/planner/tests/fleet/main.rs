//! Plans for hosts and fleets against exhaustive search, against another exact method, and before the independent checker.

mod cases;
mod examples;
mod exhaustive;
mod supplies;

use carve_planner::{Effort, Generation, Plan, check_plan, plan, room};
use cases::{Case, PRODUCTS, case, states};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

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
