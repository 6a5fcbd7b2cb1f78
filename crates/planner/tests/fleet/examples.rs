//! Plans a person can check by hand, forged plans, and what is told of them.

use crate::cases::{at, instance, pending, states};
use carve_gpu_model::{GpuInstanceId, Mebibytes, Placed, ProfileName, ProfileTable};
use carve_planner::{
    Ceiling, ClaimName, Demand, Effort, FleetGpu, Generation, GpuAt, HostName, MigMode, Plan, PlanError,
    PlanFlaw, PoolName, RunningClaim, Substitution, WaitsFor, Wants, check_plan, plan,
};

fn name(text: &str) -> ProfileName {
    text.parse().unwrap()
}

fn placed(table: &ProfileTable, profile: &str, start: u8) -> Placed {
    Placed { profile: table.by_name(&name(profile)).unwrap().0, start }
}

/// An A100 with instances: profile, start, whether in use.
fn a100(number: usize, present: &[(&str, u8, bool)]) -> FleetGpu {
    let (table, _) = states("a100-40gb");
    let instances = present.iter().enumerate();
    let instances = instances
        .map(|(id, (profile, start, in_use))| instance(table, id, placed(table, profile, *start), *in_use));
    FleetGpu {
        at: at(number),
        pool: PoolName::default(),
        table: table.clone(),
        mode: MigMode::On,
        instances: instances.collect(),
    }
}

fn demand(profiles: &[(&str, usize)]) -> Demand {
    let names = profiles.iter().flat_map(|(profile, count)| std::iter::repeat_n(*profile, *count));
    let pending = names.enumerate().map(|(number, profile)| pending(number, Wants::Profile(name(profile))));
    Demand { pending: pending.collect(), ..Demand::default() }
}

fn best(gpus: &[FleetGpu], demand: &Demand) -> Plan {
    let plan = plan(gpus, demand, Generation(7), Effort::HOST).unwrap();
    assert_eq!(check_plan(gpus, demand, &plan), Ok(()), "{plan}");
    plan
}

#[test]
fn fifty_six_of_a_hundred_small_claims_fit_on_eight_gpus() {
    let gpus: Vec<FleetGpu> = (0..8).map(|number| a100(number, &[])).collect();
    let plan = best(&gpus, &demand(&[("1g.5gb", 100)]));
    assert_eq!((plan.served.len(), plan.waiting.len()), (56, 44));
    assert!(plan.served.contains_key(&ClaimName("claim-000".to_owned())), "first come, first served");
    assert!(plan.waiting.values().all(|why| *why == WaitsFor::OtherClaims { gpus: 8 }), "{plan}");
    assert!(plan.quality.exhaustive);
}

#[test]
fn what_runs_stays_what_fits_is_reused_and_the_rest_makes_room() {
    let gpus =
        [a100(0, &[("3g.20gb", 4, true), ("1g.5gb", 0, false), ("1g.5gb", 1, false), ("2g.10gb", 2, false)])];
    let plan = best(&gpus, &demand(&[("2g.10gb", 2)]));
    let text = plan.to_string();
    assert_eq!(
        text,
        "Plan 7\n  host GPU 0 becomes 2× 2g.10gb, 1× 3g.20gb: 2 kept, 2 destroyed, 1 made\n  \
         claim-000: 2g.10gb at slot 0 of host GPU 0, made for it\n  \
         claim-001: 2g.10gb at slot 2 of host GPU 0, which exists\n\
         2 of 2 claims served, 2 instance(s) destroyed. No plan is better."
    );
    let more = best(&gpus, &demand(&[("7g.40gb", 1), ("1g.5gb", 2), ("9g.99gb", 1)]));
    assert_eq!(more.quality.destroyed, 0, "{more}");
    let why: Vec<String> = more.waiting.values().map(ToString::to_string).collect();
    assert!(why[0].starts_with("waits for instances in use to end"), "{why:?}");
    assert!(why[1].starts_with("waits for another GPU") && why[1].ends_with("7g.40gb"), "{why:?}");
}

#[test]
fn small_claims_go_where_they_close_the_least() {
    let gpus = [a100(0, &[]), a100(1, &[("3g.20gb", 0, true)])];
    let plan = best(&gpus, &demand(&[("3g.20gb", 1)]));
    assert!(plan.gpus[&at(0)].recut.is_empty(), "the empty GPU stays whole: {plan}");
    let one = best(&[a100(0, &[])], &demand(&[("1g.5gb", 1)]));
    assert_eq!(
        one.served.values().next().unwrap().placed.start,
        6,
        "only slot 6 leaves a 3g and a 4g possible"
    );
}

#[test]
fn mig_mode_is_switched_on_only_where_it_must_be() {
    let mut gpus = vec![a100(0, &[]), a100(1, &[]), a100(2, &[])];
    gpus[0].mode = MigMode::OffAndInUse;
    gpus[1].mode = MigMode::Off;
    let few = best(&gpus, &demand(&[("7g.40gb", 1)]));
    assert!(!few.gpus[&at(1)].switch_mode_on && few.gpus[&at(0)].recut.is_empty());
    let many = best(&gpus, &demand(&[("7g.40gb", 3)]));
    assert_eq!(many.served.len(), 2);
    assert!(many.gpus[&at(1)].switch_mode_on, "{many}");
    assert!(many.to_string().contains("MIG mode is switched on first"));
}

#[test]
fn a_larger_profile_serves_only_where_that_is_allowed() {
    let gpus = [a100(0, &[("3g.20gb", 4, false), ("4g.20gb", 0, true)])];
    let mut demand = demand(&[("1g.5gb", 1)]);
    assert_eq!(best(&gpus, &demand).quality.destroyed, 1);
    demand.substitution = Substitution::Larger;
    let plan = best(&gpus, &demand);
    assert_eq!(plan.quality.destroyed, 0, "the idle 3g serves: {plan}");
    demand.pending = vec![pending(0, Wants::AtLeast { memory: Mebibytes(15_000), slices: 1 })];
    assert_eq!(best(&gpus, &demand).served.values().next().unwrap().profile, name("3g.20gb"));
}

#[test]
fn what_can_not_be_is_refused() {
    let nothing = Demand::default();
    let refuse =
        |gpus: &[FleetGpu], demand: &Demand| plan(gpus, demand, Generation(1), Effort::HOST).unwrap_err();
    assert_eq!(refuse(&[a100(0, &[]), a100(0, &[])], &nothing), PlanError::GpuTwice(at(0)));
    let overlap = a100(0, &[("3g.20gb", 0, false), ("1g.5gb", 1, false)]);
    assert!(matches!(refuse(&[overlap], &nothing), PlanError::ImpossibleState { .. }));
    let mut off = a100(0, &[("3g.20gb", 0, false)]);
    off.mode = MigMode::Off;
    assert_eq!(refuse(&[off], &nothing), PlanError::InstancesWithoutMode(at(0)));
    let mut twice = demand(&[("1g.5gb", 1)]);
    twice.pending.push(twice.pending[0].clone());
    assert!(matches!(refuse(&[a100(0, &[])], &twice), PlanError::ClaimTwice(_)));
    let running = |name: &str, instance| RunningClaim {
        name: ClaimName(name.to_owned()),
        on: at(0),
        instance: GpuInstanceId(instance),
    };
    let lost = Demand { running: vec![running("a", 3)], ..Demand::default() };
    assert!(matches!(refuse(&[a100(0, &[])], &lost), PlanError::NoSuchInstance { .. }));
    let both = Demand { running: vec![running("a", 0), running("b", 0)], ..Demand::default() };
    assert!(matches!(refuse(&[a100(0, &[("1g.5gb", 0, true)])], &both), PlanError::HeldTwice { .. }));
}

#[test]
fn every_forged_plan_is_refused_for_its_own_reason() {
    let gpus = [
        a100(0, &[("3g.20gb", 4, true), ("1g.5gb", 0, false), ("1g.5gb", 1, false)]),
        a100(1, &[("7g.40gb", 0, false)]),
    ];
    let demand = demand(&[("2g.10gb", 2), ("7g.40gb", 2)]);
    let good = best(&gpus, &demand);
    let first = ClaimName("claim-000".to_owned());
    let second = ClaimName("claim-001".to_owned());
    let forge = |change: &dyn Fn(&mut Plan)| {
        let mut forged = good.clone();
        change(&mut forged);
        check_plan(&gpus, &demand, &forged).unwrap_err()
    };
    assert!(matches!(
        forge(&|p| {
            p.gpus.remove(&at(1));
        }),
        PlanFlaw::WrongGpus(_)
    ));
    assert!(matches!(
        forge(&|p| {
            let other = GpuAt { host: HostName("other".to_owned()), ..at(0) };
            let copy = p.gpus[&at(0)].clone();
            p.gpus.insert(other, copy);
        }),
        PlanFlaw::WrongGpus(_)
    ));
    assert!(matches!(
        forge(&|p| {
            let gone = gpus[0].instances[0].clone();
            let recut = &mut p.gpus.get_mut(&at(0)).unwrap().recut;
            recut.keep.retain(|kept| kept.id != gone.id);
            recut.destroy.push(gone);
        }),
        PlanFlaw::TouchesInUse { .. }
    ));
    assert!(matches!(
        forge(&|p| {
            let recut = &mut p.gpus.get_mut(&at(0)).unwrap().recut;
            recut.keep.iter_mut().find(|kept| kept.id == GpuInstanceId(0)).unwrap().create.push(1);
        }),
        PlanFlaw::TouchesInUse { .. }
    ));
    assert!(matches!(
        forge(&|p| p.gpus.get_mut(&at(0)).unwrap().recut.keep.clear()),
        PlanFlaw::Unaccounted { .. }
    ));
    assert!(matches!(
        forge(&|p| {
            let recut = &mut p.gpus.get_mut(&at(0)).unwrap().recut;
            let copy = recut.create[0].clone();
            recut.create.push(copy);
        }),
        PlanFlaw::Illegal { .. }
    ));
    assert!(matches!(
        forge(&|p| p.gpus.get_mut(&at(0)).unwrap().geometry.add(name("1g.5gb"), 1)),
        PlanFlaw::WrongGeometry(_)
    ));
    assert_eq!(
        forge(&|p| {
            p.served.remove(&first);
        }),
        PlanFlaw::Unanswered(first.clone())
    );
    assert!(matches!(
        forge(&|p| {
            p.waiting.insert(ClaimName("nobody".to_owned()), WaitsFor::OtherClaims { gpus: 1 });
        }),
        PlanFlaw::Unanswered(_)
    ));
    assert_eq!(
        forge(&|p| p.served.get_mut(&first).unwrap().placed.start = 6),
        PlanFlaw::NoInstance(first.clone())
    );
    assert_eq!(
        forge(&|p| p.served.get_mut(&first).unwrap().existing = Some(GpuInstanceId(0))),
        PlanFlaw::NoInstance(first.clone())
    );
    assert_eq!(
        forge(&|p| {
            let copy = p.served[&first].clone();
            p.served.insert(second.clone(), copy);
        }),
        PlanFlaw::Shared(second.clone())
    );
    let seven = ClaimName("claim-002".to_owned());
    assert_eq!(
        forge(&|p| {
            let (one, other) = (p.served[&first].clone(), p.served[&seven].clone());
            p.served.insert(first.clone(), other);
            p.served.insert(seven.clone(), one);
        }),
        PlanFlaw::Unsuitable(first.clone())
    );
    assert!(matches!(forge(&|p| p.quality.destroyed += 1), PlanFlaw::WrongFigures { .. }));
    assert!(matches!(forge(&|p| p.quality.serves_at_most = 0), PlanFlaw::WrongFigures { .. }));
}

#[test]
fn a_fleet_is_planned_close_to_its_bound() {
    // 60 hosts of 8 GPUs, half full; more is asked than fits.
    let (table, all) = states("h100-sxm-80gb");
    let gpus: Vec<FleetGpu> = (0..480)
        .map(|number| {
            let state = &all[number * 37 % all.len()];
            let instances = state.iter().enumerate();
            let instances =
                instances.map(|(id, placed)| instance(table, id, *placed, (number + id) % 2 == 0)).collect();
            let at = GpuAt { host: HostName(format!("host-{:02}", number / 8)), gpu: at(number % 8).gpu };
            FleetGpu { at, pool: PoolName::default(), table: table.clone(), mode: MigMode::On, instances }
        })
        .collect();
    let asked =
        demand(&[("1g.10gb", 300), ("2g.20gb", 250), ("3g.40gb", 200), ("4g.40gb", 40), ("7g.80gb", 20)]);
    let plan = plan(&gpus, &asked, Generation(1), Effort::FLEET).unwrap();
    assert_eq!(check_plan(&gpus, &asked, &plan), Ok(()));
    let (served, most) = (plan.served.len() as u64, plan.quality.serves_at_most);
    println!("{served} of {} served, no plan serves more than {most}", asked.pending.len());
    assert!(served <= most && served * 100 >= most * 99, "{served} served, bound {most}");
    let last = plan.to_string().lines().last().unwrap().to_owned();
    assert!(last.contains(&format!("No plan serves more than {most}")), "{last}");
}

#[test]
fn many_kinds_of_claims_that_overlap_are_planned_to_the_end() {
    let (table, _) = states("h100-sxm-80gb");
    let gpu = |number| FleetGpu {
        at: at(number),
        pool: PoolName::default(),
        table: table.clone(),
        mode: MigMode::On,
        instances: Vec::new(),
    };
    let gpus: Vec<FleetGpu> = (0..8).map(gpu).collect();
    for (each, minima, served) in [(1, true, 23), (2, true, 30), (4, false, 25), (4, true, 40)] {
        let mut asked = Demand { substitution: Substitution::Larger, ..Demand::default() };
        for profile in table.profiles() {
            let memory = profile.memory.unwrap().value;
            let minima = (1..=4).filter(|_| minima).map(|slices| Wants::AtLeast { memory, slices });
            for wants in minima.chain([Wants::Profile(profile.name.clone())]) {
                for _ in 0..each {
                    asked.pending.push(pending(asked.pending.len(), wants.clone()));
                }
            }
        }
        let plan = best(&gpus, &asked);
        assert!(plan.quality.exhaustive, "{each} of each kind");
        assert_eq!(plan.served.len(), served, "{each} of each kind");
    }
}

/// Two machines with equal GPUs: a claim that names one of them gets nothing from the other, whichever profile serves there.
#[test]
fn claims_that_name_pools_stay_in_them() {
    let pool = |name: &str| PoolName(name.into());
    let gpu = |number: usize, name: &str| FleetGpu { pool: pool(name), ..a100(number, &[]) };
    let gpus = [gpu(0, "red"), gpu(1, "blue")];
    let wants = |names: &[(&str, &str)]| {
        Wants::InPools(names.iter().map(|(at, profile)| (pool(at), name(profile))).collect())
    };
    let mut asked = Demand::default();
    for number in 0..9 {
        asked.pending.push(pending(number, wants(&[("red", "1g.5gb")])));
    }
    asked.pending.push(pending(9, wants(&[("red", "7g.40gb"), ("blue", "4g.20gb")])));
    asked.pending.push(pending(10, wants(&[("green", "1g.5gb")])));
    let plan = best(&gpus, &asked);
    let claim = |number: usize| ClaimName(format!("claim-{number:03}"));
    assert_eq!(plan.served.len(), 8, "seven in the red pool and one in the blue: {plan}");
    let either = &plan.served[&claim(9)];
    assert_eq!((&either.on, either.profile.to_string().as_str()), (&at(1), "4g.20gb"));
    assert!(matches!(plan.waiting[&claim(10)], WaitsFor::AnotherGpu { .. }));
    let mut forged = plan.clone();
    let served = forged.served.remove(&claim(9)).unwrap();
    forged.waiting.insert(claim(9), WaitsFor::OtherClaims { gpus: 1 });
    forged.waiting.remove(&claim(10));
    forged.served.insert(claim(10), served);
    assert_eq!(check_plan(&gpus, &asked, &forged), Err(PlanFlaw::Unsuitable(claim(10))));
}

#[test]
fn the_ceiling_is_met_by_a_plan_and_grows_with_the_gpus() {
    let asked = demand(&[("3g.20gb", 5), ("1g.5gb", 9), ("4g.20gb", 2)]);
    let ceiling = Ceiling::of(&[a100(0, &[])], &asked).unwrap();
    let mut before = 0;
    for number in 0..6 {
        let gpus: Vec<FleetGpu> = (0..number).map(|number| a100(number, &[])).collect();
        let (served, most) = (best(&gpus, &asked).served.len() as u64, ceiling.serves_at_most(&[number]));
        assert!(served <= most && most <= served + 1, "{number} GPUs: {served} served, at most {most}");
        assert!(before <= most);
        before = most;
    }
    assert_eq!(before, 16);
}
