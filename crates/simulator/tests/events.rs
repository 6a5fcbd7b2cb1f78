//! A fleet through time: small cases by hand, and on random ones that nothing is lost, placed twice or given more than there is.

use carve_gpu_model::Mebibytes;
use carve_placement::{Claim, CpuMilli, GpuMilli, Policy};
use carve_simulator::events::{Failures, Growth, History, MigTimes, Outage, Settings, What, run};
use carve_simulator::filling::Size;
use carve_simulator::{Trace, TraceNode, TracePod};
use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use std::collections::{BTreeMap, BTreeSet};

fn node(name: &str, gpus: u8) -> TraceNode {
    TraceNode {
        name: name.to_owned(),
        cpu: CpuMilli(16_000),
        memory: Mebibytes(65_536),
        gpus,
        gpu_memory: Mebibytes(0),
        model: "A".to_owned(),
    }
}

fn pod(name: &str, gpus: u8, milli: u16, arrive: u64, duration: Option<u64>) -> TracePod {
    let (cpu, memory) = (CpuMilli(1000), Mebibytes(1024));
    let claim = match (gpus, milli) {
        (0, _) => Claim::cpu_only(cpu, memory),
        (1, milli) => Claim::part(GpuMilli(milli), cpu, memory),
        (gpus, _) => Claim::whole(gpus, cpu, memory),
    };
    TracePod {
        name: name.to_owned(),
        claim,
        mig: Default::default(),
        models: String::new(),
        created: Some(arrive),
        deleted: duration.map(|duration| arrive + duration),
        node: None,
    }
}

/// What happened to pods and nodes as short words.
fn told(trace: &Trace, history: &History) -> Vec<String> {
    let name = |pod: usize| &trace.pods[pod].name;
    history
        .happened
        .iter()
        .filter_map(|one| {
            let at = one.at_ms as f64 / 1000.0;
            Some(match one.what {
                What::Arrived(_) | What::Placed(..) | What::Given { .. } | What::Mig(_) => return None,
                What::Started(pod, spot) => {
                    format!("{at} {} on {}", name(pod), history.fleet.name(spot.node))
                }
                What::Finished(pod) => format!("{at} {} done", name(pod)),
                What::Interrupted(pod) => format!("{at} {} interrupted", name(pod)),
                What::TurnedAway(pod) => format!("{at} {} away", name(pod)),
                What::NodeLeft(node) => format!("{at} {} left", history.fleet.name(node)),
                What::NodeCame(node) => format!("{at} {} came", history.fleet.name(node)),
            })
        })
        .collect()
}

#[test]
fn those_who_fit_go_ahead_and_the_first_to_come_is_the_first_served() {
    let pods = vec![
        pod("a", 1, 1000, 0, Some(10)),
        pod("b", 2, 1000, 1, Some(10)),
        pod("c", 2, 1000, 2, Some(5)),
        pod("d", 1, 1000, 3, Some(4)),
    ];
    let trace = Trace { nodes: vec![node("n", 2)], pods };
    let history = run(&trace, &Settings::new(Policy::FirstFit, 1)).unwrap();
    assert_eq!(
        told(&trace, &history),
        ["0 a on n", "3 d on n", "7 d done", "10 a done", "10 b on n", "20 b done", "20 c on n", "25 c done"]
    );
    let figures = history.figures(&trace);
    // a 0, b 9, c 18, d 0.
    assert_eq!((figures.waits.mean, figures.waits.p95, figures.waits.worst), (6.75, 18.0, 18.0));
    assert_eq!(figures.waits_by_size[&Size::One].worst, 0.0);
    assert_eq!(figures.waits_by_size[&Size::Several(2)].mean, 13.5);
    // GPU seconds: 10 + 20 + 10 + 4 = 44 of 2 × 25.
    assert!((figures.utilisation - 88.0).abs() < 1e-9, "{}", figures.utilisation);
    assert!((figures.node_hours - 25.0 / 3600.0).abs() < 1e-12);
    assert_eq!((figures.finished, figures.lasted_ms), (4, 25_000));
    assert_eq!(history.moments.iter().map(|moment| moment.waiting).max(), Some(2));
}

#[test]
fn room_of_one_second_is_given_together() {
    // Both halves end at 10; the large one came first and gets them both.
    let pods = vec![
        pod("a", 1, 1000, 0, Some(10)),
        pod("b", 1, 1000, 0, Some(10)),
        pod("large", 2, 1000, 1, Some(5)),
        pod("small", 1, 1000, 2, Some(5)),
    ];
    let trace = Trace { nodes: vec![node("n", 2)], pods };
    let history = run(&trace, &Settings::new(Policy::FirstFit, 1)).unwrap();
    let told = told(&trace, &history);
    assert!(
        told.contains(&"10 large on n".to_owned()) && told.contains(&"15 small on n".to_owned()),
        "{told:?}"
    );
}

#[test]
fn without_a_queue_they_are_turned_away_and_who_fits_nowhere_always_is() {
    let pods = vec![
        pod("a", 1, 600, 0, Some(10)),
        pod("b", 1, 600, 1, Some(10)),
        pod("c", 1, 400, 2, None),
        pod("nowhere", 4, 1000, 3, Some(1)),
    ];
    let trace = Trace { nodes: vec![node("n", 1)], pods };
    let settings = Settings { queue: false, ..Settings::new(Policy::Fgd, 1) };
    let history = run(&trace, &settings).unwrap();
    assert_eq!(told(&trace, &history), ["0 a on n", "1 b away", "2 c on n", "3 nowhere away", "10 a done"]);
    let figures = history.figures(&trace);
    assert_eq!((figures.arrived, figures.finished, figures.turned_away, figures.running), (4, 1, 2, 1));
}

#[test]
fn what_ran_on_a_failed_node_starts_anew_before_those_who_came_later() {
    let pods = vec![pod("a", 1, 1000, 0, Some(10)), pod("b", 1, 1000, 1, Some(10))];
    let trace = Trace { nodes: vec![node("n", 1)], pods };
    let outages = vec![Outage { node: 0, from: 6, lasting: 4 }, Outage { node: 0, from: 8, lasting: 7 }];
    let settings = Settings { outages, ..Settings::new(Policy::FirstFit, 1) };
    let history = run(&trace, &settings).unwrap();
    assert_eq!(
        told(&trace, &history),
        [
            "0 a on n",
            "6 a interrupted",
            "6 n left",
            "15 n came",
            "15 a on n",
            "25 a done",
            "25 b on n",
            "35 b done"
        ]
    );
    let figures = history.figures(&trace);
    assert_eq!((figures.interrupted, figures.waits.worst), (1, 24.0));
    // Away from 6 to 15 of 35 seconds.
    assert!((figures.node_hours * 3600.0 - 26.0).abs() < 1e-6);
}

#[test]
fn nodes_are_added_for_those_who_wait_and_taken_away_when_idle() {
    let pods = vec![
        pod("a", 1, 1000, 0, Some(100)),
        pod("b", 1, 1000, 1, Some(10)),
        pod("c", 1, 1000, 2, Some(10)),
        pod("d", 1, 1000, 50, Some(10)),
    ];
    let trace = Trace { nodes: vec![node("n", 1)], pods };
    let growth = Growth { like: node("cloud", 1), after: 5, idle: 20, most: 1 };
    let settings = Settings { growth: Some(growth), ..Settings::new(Policy::FirstFit, 1) };
    let history = run(&trace, &settings).unwrap();
    assert_eq!(
        told(&trace, &history),
        [
            "0 a on n",
            "6 cloud added 1 came",
            "6 b on cloud added 1",
            "16 b done",
            "16 c on cloud added 1",
            "26 c done",
            "46 cloud added 1 left",
            "55 cloud added 1 came",
            "55 d on cloud added 1",
            "65 d done",
            "85 cloud added 1 left",
            "100 a done",
        ]
    );
    let figures = history.figures(&trace);
    assert!(
        (figures.node_hours * 3600.0 - (100.0 + 40.0 + 30.0)).abs() < 1e-6,
        "{}",
        figures.node_hours * 3600.0
    );
}

#[test]
fn pods_that_run_from_the_beginning_hold_their_node() {
    let mut running = pod("a", 1, 1000, 0, Some(10));
    running.node = Some("n".to_owned());
    let mut trace = Trace { nodes: vec![node("n", 1)], pods: vec![pod("b", 1, 1000, 0, Some(5)), running] };
    let history = run(&trace, &Settings::new(Policy::BestFit, 1)).unwrap();
    assert_eq!(told(&trace, &history), ["0 a on n", "10 a done", "10 b on n", "15 b done"]);
    trace.pods[1].node = Some("elsewhere".to_owned());
    let error = run(&trace, &Settings::new(Policy::BestFit, 1)).unwrap_err().to_string();
    assert!(error.contains("'a'") && error.contains("no such node"), "{error}");
    trace.pods[1].node = Some("n".to_owned());
    trace.nodes[0].gpus = 0;
    let error = run(&trace, &Settings::new(Policy::BestFit, 1)).unwrap_err().to_string();
    assert!(error.contains("too few of its GPUs"), "{error}");
}

/// Goes through a history with books of its own.
fn check(trace: &Trace, settings: &Settings, history: &History) {
    #[derive(Debug, PartialEq)]
    enum State {
        Waiting,
        Running { since: u64, node: u32, gpus: Vec<usize> },
        Gone,
    }
    let mut pods: BTreeMap<usize, State> = BTreeMap::new();
    let mut absent: BTreeSet<u32> = (trace.nodes.len() as u32..history.fleet.len() as u32).collect();
    let mut before = 0;
    let mut finished = 0;
    for one in &history.happened {
        assert!(one.at_ms >= before, "time goes on");
        before = one.at_ms;
        match one.what {
            What::Arrived(pod) => {
                assert_eq!(one.at_ms, trace.pods[pod].created.unwrap() * 1000);
                assert_eq!(pods.insert(pod, State::Waiting), None, "a pod arrives once");
            }
            What::Started(pod, spot) => {
                assert_eq!(pods[&pod], State::Waiting);
                assert!(!absent.contains(&spot.node.0), "on a node that is there");
                let gpus: Vec<usize> = spot.gpus.iter().collect();
                assert_eq!(gpus.len(), usize::from(trace.pods[pod].claim.gpus));
                pods.insert(pod, State::Running { since: one.at_ms, node: spot.node.0, gpus });
                let shape = history.fleet.shape(spot.node);
                let mut left = vec![1000_i64; usize::from(shape.gpus)];
                let (mut cpu, mut memory) = (shape.cpu.0 as i64, shape.memory.0 as i64);
                for (other, state) in &pods {
                    let State::Running { node, gpus, .. } = state else { continue };
                    if *node == spot.node.0 {
                        let claim = &trace.pods[*other].claim;
                        gpus.iter().for_each(|gpu| left[*gpu] -= i64::from(claim.compute.0));
                        cpu -= claim.cpu.0 as i64;
                        memory -= claim.memory.0 as i64;
                    }
                }
                assert!(
                    left.iter().all(|left| *left >= 0) && cpu >= 0 && memory >= 0,
                    "no more than there is"
                );
            }
            What::Finished(pod) => {
                let lasts = trace.pods[pod].deleted.unwrap() - trace.pods[pod].created.unwrap();
                assert!(
                    matches!(pods[&pod], State::Running { since, .. } if since + lasts * 1000 == one.at_ms)
                );
                pods.insert(pod, State::Gone);
                finished += 1;
            }
            What::Interrupted(pod) => {
                assert!(matches!(pods.insert(pod, State::Waiting), Some(State::Running { .. })));
            }
            What::TurnedAway(pod) => assert_eq!(pods.insert(pod, State::Gone), Some(State::Waiting)),
            What::NodeLeft(node) => {
                assert!(absent.insert(node.0), "a node leaves once");
                let held = |state: &State| matches!(state, State::Running { node: on, .. } if *on == node.0);
                assert!(!pods.values().any(held), "nothing runs on a node that leaves");
            }
            What::NodeCame(node) => assert!(absent.remove(&node.0), "a node comes once"),
            What::Placed(..) | What::Given { .. } | What::Mig(_) => {
                panic!("nobody asked for MIG: {:?}", one.what)
            }
        }
        let added =
            (trace.nodes.len() as u32..history.fleet.len() as u32).filter(|node| !absent.contains(node));
        assert!(added.count() <= settings.growth.as_ref().map_or(0, |growth| growth.most));
    }
    assert_eq!(pods.len(), trace.pods.len(), "everybody came");
    let figures = history.figures(trace);
    let sum = figures.finished + figures.turned_away + figures.running + figures.waiting;
    assert_eq!((figures.arrived, sum), (trace.pods.len(), trace.pods.len()), "nobody is lost: {figures:?}");
    assert_eq!(figures.finished, finished);
    let endless = trace.pods.iter().any(|pod| pod.deleted.is_none());
    if !endless {
        assert_eq!((figures.waiting, figures.running), (0, 0), "whoever fits is served in the end");
        let last = history.moments.last().unwrap();
        assert_eq!((last.used, last.waiting), (0, 0));
    }
}

fn traces() -> impl Strategy<Value = Trace> {
    let size = prop_oneof![
        Just((0, 0)),
        (1_u16..=1000).prop_map(|milli| (1, milli)),
        (2_u8..=5).prop_map(|gpus| (gpus, 1000))
    ];
    let endless = prop_oneof![9 => Just(true), 1 => Just(false)];
    let pod_of = (size, 0_u64..50, 0_u64..30, endless);
    let nodes = prop::collection::vec(0_u8..=4, 1..5);
    (nodes, prop::collection::vec(pod_of, 1..40)).prop_map(|(nodes, pods)| Trace {
        nodes: nodes.iter().enumerate().map(|(index, gpus)| node(&format!("n{index}"), *gpus)).collect(),
        pods: pods
            .into_iter()
            .enumerate()
            .map(|(index, ((gpus, milli), arrive, lasts, ends))| {
                pod(&format!("p{index}"), gpus, milli, arrive, ends.then_some(lasts))
            })
            .collect(),
    })
}

proptest! {
    #[test]
    fn nothing_is_lost_or_placed_twice(
        trace in traces(),
        seed in any::<u64>(),
        policy in prop::sample::select(Policy::ALL.to_vec()),
        queue in any::<bool>(),
        outages in prop::collection::vec((0_usize..5, 0_u64..60, 0_u64..20), 0..4),
        failures in prop::option::of((1_u64..40, 0_u64..10)),
        growth in prop::option::of((0_u8..=5, 0_u64..10, 0_u64..10, 0_usize..3)),
    ) {
        let settings = Settings {
            policy,
            seed,
            queue,
            outages: outages.into_iter().map(|(node, from, lasting)| Outage { node, from, lasting }).collect(),
            failures: failures.map(|(every, lasting)| Failures { every, lasting }),
            growth: growth.map(|(gpus, after, idle, most)| Growth { like: node("cloud", gpus), after, idle, most }),
            mig: MigTimes::USUAL,
        };
        let history = run(&trace, &settings).unwrap();
        check(&trace, &settings, &history);
        let again = run(&trace, &settings).unwrap();
        prop_assert_eq!(&history.happened, &again.happened);
        prop_assert_eq!(history.moments, again.moments);
    }
}
