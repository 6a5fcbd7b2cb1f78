//! Random clusters, late and failing agents: nothing in use goes, nothing flaps, and whoever can be served is.

mod world;

use carve_repartition::{Decisions, Facts, Why, decide};
use proptest::prelude::*;
use world::{World, uuid};

const FORMS: [&str; 5] = ["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"];

/// What must hold of every decision.
fn check(world: &World, facts: &Facts, decisions: &Decisions) {
    assert!(decisions.flaws.is_empty(), "{:?}", decisions.flaws);
    let cutting = world.nodes.iter().filter(|node| node.order.is_some()).count();
    let most = world.rules.nodes_at_once as usize;
    assert!(decisions.plans.is_empty() || cutting + decisions.plans.len() <= most, "over the budget");
    let leaving: usize = decisions.plans.iter().map(|plan| plan.evicts.len()).sum();
    let before = world.nodes.iter().filter_map(|node| node.order.as_ref()).map(|order| order.evict.len());
    assert!(leaving == 0 || leaving + before.sum::<usize>() <= world.rules.evictions as usize);
    for plan in &decisions.plans {
        let node = facts.nodes.iter().find(|node| node.name == plan.node).expect("a node");
        assert!(node.ordered.is_none(), "one plan at a time");
        assert!(
            !plan.serves.is_empty() && !plan.gpus.is_empty(),
            "a plan is for somebody and changes something"
        );
        let number: usize = plan.node.trim_start_matches("node").parse().expect("a number");
        let cpus = |names: &[String]| -> u64 {
            names.iter().filter_map(|name| world.pods.get(name)).map(|pod| pod.cpus).sum()
        };
        assert!(cpus(&plan.serves) <= world.cpus_left(number), "more than its processors are enough for");
        for change in &plan.gpus {
            let reported = node.report.as_ref().expect("a report");
            let gpu = reported.gpus.iter().find(|gpu| gpu.uuid == change.uuid).expect("a GPU");
            let goes = |pods: &[String]| pods.iter().all(|pod| plan.evicts.contains(pod));
            for held in gpu.instances.iter().filter(|instance| instance.held && !goes(&instance.pods)) {
                assert!(change.layout.contains(&held.instance), "what is in use stays");
            }
            let layout: Vec<_> = change.layout.iter().collect();
            world.table.check(&world.placed(&layout)).expect("legal");
            let recut = node.history.recuts.get(&change.uuid).map_or(0, |at| at.0 + world.rules.pause);
            assert!(change.destroys.is_empty() || recut <= world.now, "destroys within the pause");
        }
    }
    for pod in &facts.pods {
        let served = decisions.plans.iter().any(|plan| plan.serves.contains(&pod.name));
        assert!(served != decisions.waiting.contains_key(&pod.name), "{} is answered once", pod.name);
    }
}

fn step(world: &mut World) -> Decisions {
    let facts = world.facts();
    let decisions = decide(&facts);
    check(world, &facts, &decisions);
    decisions.plans.iter().for_each(|plan| world.order(plan));
    decisions
}

#[derive(Debug, Clone)]
enum Event {
    Arrives(usize, u32, Option<usize>, u64),
    Ends(usize),
    Reports(usize),
    Schedules,
    Acts(usize, bool),
    Decides,
    Passes(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let one = prop_oneof![
        4 => (0..FORMS.len(), 1u32..3, prop::option::weighted(0.3, 0usize..3), 1u64..4)
            .prop_map(|(form, count, only, cpus)| Event::Arrives(form, count, only, cpus)),
        3 => (0usize..20).prop_map(Event::Ends),
        4 => (0usize..3).prop_map(Event::Reports),
        4 => Just(Event::Schedules),
        4 => (0usize..3, prop::bool::weighted(0.2)).prop_map(|(node, fails)| Event::Acts(node, fails)),
        5 => Just(Event::Decides),
        4 => (1u64..40).prop_map(Event::Passes),
    ];
    prop::collection::vec(one, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn nothing_in_use_goes_and_whoever_can_be_served_is(
        gpus in prop::collection::vec(1usize..4, 1..4),
        nodes_at_once in 1u32..3,
        pause in prop_oneof![Just(0u64), Just(60)],
        evictions in 0u32..3,
        cpus in prop::collection::vec(prop_oneof![Just(5u64), Just(1000)], 3),
        events in events(),
    ) {
        let mut world = World::new(&gpus, nodes_at_once, pause);
        (world.rules.evictions, world.rules.least_gain) = (evictions, (evictions > 0).then_some(1));
        let nodes = gpus.len();
        world.nodes.iter_mut().zip(&cpus).for_each(|(node, cpus)| node.cpus = *cpus);
        for event in events {
            let before = world.in_use();
            match event {
                Event::Arrives(form, count, only, cpus) => {
                    world.arrive_asking(cpus, FORMS[form], count, only.filter(|only| *only < nodes));
                }
                Event::Ends(number) => {
                    let names: Vec<String> = world.pods.keys().cloned().collect();
                    if let Some(name) = names.get(number) {
                        world.end(name);
                    }
                }
                Event::Reports(node) if node < nodes => world.report(node),
                Event::Acts(node, fails) if node < nodes => {
                    world.act(node, fails);
                    let after = world.in_use();
                    // Whoever was asked to go is another pod now.
                    let mut stayed = before.iter().filter(|(_, pod)| world.pods.contains_key(*pod));
                    prop_assert!(stayed.all(|held| after.get(held.0) == Some(held.1)));
                }
                Event::Schedules => world.schedule(),
                Event::Decides => drop(step(&mut world)),
                Event::Passes(seconds) => world.now += seconds,
                Event::Reports(_) | Event::Acts(..) => {}
            }
        }
        // Everybody does their work from now on.
        for _ in 0..40 {
            world.now += 1000;
            (0..nodes).for_each(|node| world.act(node, false));
            world.schedule();
            (0..nodes).for_each(|node| world.report(node));
            step(&mut world);
            for node in 0..nodes {
                // With fresh reports no order is in anybody's way.
                if let Some(order) = world.nodes[node].order.clone() {
                    prop_assert!(world.is_possible(node, &order));
                }
            }
        }
        prop_assert_eq!(world.forgotten(), Vec::<String>::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn demand_that_alternates_does_not_flap(turns in prop::collection::vec((0usize..3, 1u64..30), 20..60)) {
        let pause = 120;
        let mut world = World::new(&[1], 1, pause);
        let began = world.now;
        let mut last: Option<String> = None;
        for (form, seconds) in turns {
            if let Some(last) = last.take() {
                world.end(&last);
            }
            last = Some(world.arrive(["1g.5gb", "3g.20gb", "7g.40gb"][form], 1, None));
            for _ in 0..seconds {
                world.now += 1;
                world.act(0, false);
                world.schedule();
                world.report(0);
                step(&mut world);
            }
        }
        let destroyed = world.destroyed.get(&uuid(0, 0).0).cloned().unwrap_or_default();
        let mut times = destroyed.clone();
        times.dedup();
        prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= pause), "{times:?}");
        prop_assert!(times.len() as u64 <= (world.now - began) / pause + 1);
    }
}

#[test]
fn a_pod_waits_a_moment_and_then_gets_its_instance() {
    let mut world = World::new(&[1, 1], 1, 60);
    let pod = world.arrive("3g.20gb", 1, None);
    assert_eq!(step(&mut world).waiting[&pod], Why::Settling);
    world.now += 3;
    let decisions = step(&mut world);
    assert_eq!(decisions.plans[0].serves, std::slice::from_ref(&pod));
    assert_eq!(step(&mut world).waiting[&pod], Why::Free { node: "node0".to_owned(), being_cut: true });
    world.act(0, false);
    assert_eq!(step(&mut world).waiting[&pod], Why::Free { node: "node0".to_owned(), being_cut: false });
    world.schedule();
    assert_eq!(world.pods[&pod].node, Some(0));
    assert!(step(&mut world).plans.is_empty());
}

#[test]
fn a_node_without_processors_left_is_not_cut() {
    let mut world = World::new(&[1, 1], 2, 60);
    (world.nodes[0].cpus, world.nodes[1].cpus) = (4, 8);
    let large = world.arrive_asking(6, "1g.5gb", 1, None);
    let none = world.arrive_asking(9, "1g.5gb", 1, None);
    let small = [3, 2].map(|cpus| world.arrive_asking(cpus, "1g.5gb", 1, Some(0)));
    world.now += 3;
    let decisions = step(&mut world);
    let serves =
        |node: &str| decisions.plans.iter().find(|plan| plan.node == node).expect("a plan").serves.clone();
    assert_eq!(serves("node1"), [large]);
    assert_eq!(serves("node0"), [small[0].clone()], "both together are too much for it");
    assert_eq!(decisions.waiting[&none], Why::Short { nodes: 2, of: "cpu".to_owned() });
    // An instance that is free where nothing else is left does not count as free.
    world.act(0, false);
    world.schedule();
    world.report(0);
    let next = world.arrive_asking(2, "1g.5gb", 1, Some(0));
    world.now += 10;
    assert_eq!(step(&mut world).waiting[&next], Why::Short { nodes: 1, of: "cpu".to_owned() });
}

#[test]
fn failures_are_waited_out_longer_each_time() {
    let mut world = World::new(&[1], 1, 60);
    let pod = world.arrive("3g.20gb", 1, None);
    let mut waits = Vec::new();
    for _ in 0..4 {
        while step(&mut world).plans.is_empty() {
            world.now += 1;
        }
        world.act(0, true);
        let failed = world.now;
        assert!(matches!(step(&mut world).waiting[&pod], Why::BackingOff { .. }));
        while decide(&world.facts()).plans.is_empty() {
            world.now += 1;
        }
        waits.push(world.now - failed);
    }
    assert_eq!(waits, [15, 30, 60, 120]);
}

#[test]
fn a_person_s_label_and_no_policy_keep_hands_off() {
    let mut world = World::new(&[1], 1, 60);
    let pod = world.arrive("3g.20gb", 1, None);
    world.now += 10;
    let mut facts = world.facts();
    facts.nodes[0].report.as_mut().expect("a report").manual = Some("all-1g.5gb".to_owned());
    let why = decide(&facts).waiting[&pod].clone();
    assert_eq!(why, Why::NotAllowed { nodes: 1 });
    let mut facts = world.facts();
    facts.rules.push(facts.rules[0].clone());
    assert_eq!(decide(&facts).waiting[&pod], why, "two policies of one priority");
    facts.rules[1].priority = 1;
    assert_eq!(decide(&facts).plans.len(), 1);
    facts.rules[1].profiles = vec!["1g.5gb".to_owned()];
    assert_eq!(decide(&facts).waiting[&pod], why, "a profile that may not be made");
    facts.rules[1].profiles.clear();
    facts.rules[1].mode = carve_repartition::Mode::DryRun;
    let plans = decide(&facts).plans;
    assert!(plans[0].dry_run, "{plans:?}");
}

#[test]
fn pods_move_only_where_that_is_wanted_and_gains_enough() {
    // A small pod on each of two GPUs: no room for a whole GPU, unless one of them moves beside the other.
    let mut world = World::new(&[2], 1, 0);
    let small = [world.arrive("1g.5gb", 1, None), world.arrive("4g.20gb", 1, None)];
    world.now += 10;
    while world.pods.values().any(|pod| pod.node.is_none()) {
        step(&mut world);
        world.act(0, false);
        world.schedule();
        world.report(0);
    }
    world.now += 10;
    // Both on one GPU is what the planner likes best; here each has one of its own.
    let large = world.arrive("7g.40gb", 1, None);
    let moved = world.nodes[0].gpus.iter().filter(|parts| !parts.is_empty()).count() == 2;
    if !moved {
        let part = world.nodes[0].gpus[0].pop().or_else(|| world.nodes[0].gpus[1].pop()).expect("two parts");
        let empty = world.nodes[0].gpus.iter().position(Vec::is_empty).expect("an empty GPU");
        world.nodes[0].gpus[empty].push(part);
    }
    world.report(0);
    world.now += 10;
    assert!(matches!(step(&mut world).waiting[&large], Why::InUse { .. }));
    world.rules.least_gain = Some(1);
    assert!(matches!(step(&mut world).waiting[&large], Why::InUse { .. }), "the budget of evictions is 0");
    (world.rules.evictions, world.rules.least_gain) = (1, Some(2));
    assert!(matches!(step(&mut world).waiting[&large], Why::InUse { .. }), "one for one is not enough");
    world.rules.least_gain = Some(1);
    let plan = step(&mut world).plans.remove(0);
    assert_eq!((plan.evicts.len(), &plan.serves), (1, &vec![large.clone()]));
    assert!(small.contains(&plan.evicts[0]));
    world.act(0, false);
    world.schedule();
    assert!(world.pods.values().all(|pod| pod.node.is_some()), "who moved and who waited both run");
}
