//! MIG in a fleet through time: timelines worked out by hand, and random fleets whose every event is checked by books of their own.

mod books;

use carve_gpu_model::Mebibytes;
use carve_placement::{Claim, CpuMilli, GpuMilli, Policy};
use carve_simulator::events::{
    Failures, Figures, Growth, History, MigChange, MigTimes, Outage, Settings, What, run,
};
use carve_simulator::{Trace, TraceNode, TracePod};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};

fn node(name: &str, model: &str, gpus: u8) -> TraceNode {
    TraceNode {
        name: name.to_owned(),
        cpu: CpuMilli(16_000),
        memory: Mebibytes(65_536),
        gpus,
        gpu_memory: Mebibytes(0),
        model: model.to_owned(),
    }
}

fn claiming(name: &str, claim: Claim, arrive: u64, duration: Option<u64>) -> TracePod {
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

fn whole(name: &str, gpus: u8, arrive: u64, duration: u64) -> TracePod {
    claiming(name, Claim::whole(gpus, CpuMilli(1000), Mebibytes(1024)), arrive, Some(duration))
}

fn part(name: &str, milli: u16, arrive: u64, duration: u64) -> TracePod {
    claiming(name, Claim::part(GpuMilli(milli), CpuMilli(1000), Mebibytes(1024)), arrive, Some(duration))
}

/// Devices as `1g.5gb=2,3g.20gb`.
fn mig(name: &str, devices: &str, arrive: u64, duration: u64) -> TracePod {
    let claim = Claim::cpu_only(CpuMilli(1000), Mebibytes(1024));
    TracePod { mig: devices.parse().unwrap(), ..claiming(name, claim, arrive, Some(duration)) }
}

/// What happened, as short words; times in seconds.
fn told(trace: &Trace, history: &History) -> Vec<String> {
    let name = |pod: usize| &trace.pods[pod].name;
    let happened = history.happened.iter().filter_map(|one| {
        let at = one.at_ms as f64 / 1000.0;
        Some(match one.what {
            What::Arrived(_) => return None,
            What::Placed(pod, _) => format!("{at} {} placed", name(pod)),
            What::Given { pod, gpu, placed, reused } => {
                let old = if reused { " again" } else { "" };
                format!("{at} {} has {}@{} of GPU {gpu}{old}", name(pod), placed.profile.0, placed.start)
            }
            What::Mig(step) => match step.change {
                MigChange::On => format!("{at} GPU {} on", step.gpu),
                MigChange::Off => format!("{at} GPU {} off", step.gpu),
                MigChange::Made(at_slot) => {
                    format!("{at} GPU {} + {}@{}", step.gpu, at_slot.profile.0, at_slot.start)
                }
                MigChange::Destroyed(at_slot) => {
                    format!("{at} GPU {} - {}@{}", step.gpu, at_slot.profile.0, at_slot.start)
                }
            },
            What::Started(pod, _) => format!("{at} {} starts", name(pod)),
            What::Finished(pod) => format!("{at} {} done", name(pod)),
            What::Interrupted(pod) => format!("{at} {} interrupted", name(pod)),
            What::TurnedAway(pod) => format!("{at} {} away", name(pod)),
            What::NodeLeft(node) => format!("{at} {} left", history.fleet.name(node)),
            What::NodeCame(node) => format!("{at} {} came", history.fleet.name(node)),
        })
    });
    happened.collect()
}

fn ran(trace: &Trace, settings: &Settings) -> (Vec<String>, Figures) {
    let history = run(trace, settings).unwrap();
    books::check(trace, settings, &history);
    (told(trace, &history), history.figures(trace))
}

fn first_fit() -> Settings {
    Settings::new(Policy::FirstFit, 1)
}

// Positions in the table of the A100 and H100, small to large: 0 is 1g, 1 is 1g+me, 2 is 1g with double memory, 3 is 2g, 4 is 3g,
// 5 is 4g, 6 is 7g.

#[test]
fn a_gpu_is_switched_divided_used_again_recut_and_given_back() {
    let pods = vec![
        mig("a", "3g.20gb", 0, 10),
        mig("b", "3g.20gb", 21, 10),
        mig("c", "7g.40gb", 40, 10),
        whole("d", 1, 60, 5),
    ];
    let trace = Trace { nodes: vec![node("n", "a100-40gb", 1)], pods };
    let (told, figures) = ran(&trace, &first_fit());
    assert_eq!(
        told,
        [
            "0 a placed",
            "10 GPU 0 on",
            "10.25 GPU 0 + 4@4",
            "10.25 a has 4@4 of GPU 0",
            "10.25 a starts",
            "20.25 a done",
            "21 b has 4@4 of GPU 0 again",
            "21 b starts",
            "31 b done",
            "40 c placed",
            "40.1 GPU 0 - 4@4",
            "40.35 GPU 0 + 6@0",
            "40.35 c has 6@0 of GPU 0",
            "40.35 c starts",
            "50.35 c done",
            "60 d placed",
            "60.1 GPU 0 - 6@0",
            "70.1 GPU 0 off",
            "70.1 d starts",
            "75.1 d done",
        ]
    );
    let of = figures.mig.clone().unwrap();
    assert_eq!((of.reconfigurations, of.switched, of.made, of.destroyed, of.reused), (3, 2, 2, 2, 1));
    assert_eq!(of.spent_ms, 10_250 + 350 + 10_100);
    // 10.25, 0.35 and 10.1 seconds; b did not wait.
    assert_eq!((of.preparing.count, of.preparing.worst), (3, 10.25));
    let waits: Vec<(String, f64)> =
        of.waits.iter().map(|(devices, waits)| (devices.to_string(), waits.worst)).collect();
    assert_eq!(waits, [("1× 3g.20gb".to_owned(), 10.25), ("1× 7g.40gb".to_owned(), 0.35)]);
    assert_eq!(figures.waits.worst, 10.25);
    // Three sevenths of the GPU for 20 seconds, all of it for 15, of 75.1.
    assert!((figures.utilisation - 100.0 * (20.0 * 0.428 + 15.0) / 75.1).abs() < 1e-6, "{figures:?}");
}

#[test]
fn changes_of_one_gpu_happen_one_after_another_and_of_several_at_once() {
    // Three small ones share a GPU; the fourth asks for all of one and gets the other, at the same time.
    let pods = vec![
        mig("a", "1g.10gb", 0, 10),
        mig("b", "1g.10gb", 0, 10),
        mig("c", "1g.10gb", 1, 10),
        mig("d", "7g.80gb", 1, 10),
    ];
    let trace = Trace { nodes: vec![node("n", "h100-sxm-80gb", 2)], pods };
    let (told, figures) = ran(&trace, &first_fit());
    let starts: Vec<&String> = told.iter().filter(|line| line.ends_with("starts")).collect();
    assert_eq!(starts, ["1.25 a starts", "1.5 b starts", "1.75 c starts", "2.25 d starts"]);
    assert_eq!(figures.mig.unwrap().spent_ms, 1000 + 3 * 250 + 1000 + 250);
}

#[test]
fn what_is_in_use_stays_and_the_first_to_come_is_the_first_served() {
    let pods = vec![
        mig("a", "4g.20gb", 0, 100),
        mig("b", "7g.40gb", 1, 10),
        mig("c", "3g.20gb", 2, 5),
        whole("w", 1, 3, 1),
    ];
    let trace = Trace { nodes: vec![node("n", "a100-40gb", 1)], pods };
    let (told, _) = ran(&trace, &first_fit());
    let kept: Vec<&String> = told.iter().filter(|line| !line.contains("has")).collect();
    assert_eq!(
        kept,
        [
            "0 a placed",
            "2 c placed",
            "10 GPU 0 on",
            "10.25 GPU 0 + 5@0",
            "10.25 a starts",
            "10.5 GPU 0 + 4@4",
            "10.5 c starts",
            "15.5 c done",
            "110.25 a done",
            "110.25 b placed",
            "110.35 GPU 0 - 4@4",
            "110.45 GPU 0 - 5@0",
            "110.7 GPU 0 + 6@0",
            "110.7 b starts",
            "120.7 b done",
            "120.7 w placed",
            "120.8 GPU 0 - 6@0",
            "130.8 GPU 0 off",
            "130.8 w starts",
            "131.8 w done",
        ]
    );
}

#[test]
fn parts_of_a_gpu_that_comes_back_from_mig_wait_for_it_together() {
    let pods = vec![mig("a", "1g.5gb", 0, 1), part("p", 500, 20, 10), part("q", 500, 25, 10)];
    let trace = Trace { nodes: vec![node("n", "a100-40gb", 1)], pods };
    let (told, _) = ran(&trace, &first_fit());
    let late: Vec<&String> =
        told.iter().filter(|line| line.contains(" p ") || line.contains(" q ")).collect();
    assert_eq!(
        late,
        ["20 p placed", "25 q placed", "30.1 p starts", "30.1 q starts", "40.1 p done", "40.1 q done"]
    );
}

#[test]
fn a_reboot_takes_the_instances_and_on_newer_gpus_the_mode() {
    for (model, devices, starts) in
        [("a100-40gb", "1g.5gb", ["10.25", "20.25"]), ("h100-sxm-80gb", "1g.10gb", ["1.25", "21.25"])]
    {
        let trace = Trace { nodes: vec![node("n", model, 1)], pods: vec![mig("a", devices, 0, 30)] };
        let outages = vec![Outage { node: 0, from: 12, lasting: 8 }];
        let (told, figures) = ran(&trace, &Settings { outages, ..first_fit() });
        let of = |line: &&String| line.ends_with("starts") || line.ends_with("interrupted");
        let kept: Vec<&String> = told.iter().filter(of).collect();
        let expected = [format!("{} a starts", starts[0]), "12 a interrupted".to_owned()];
        assert_eq!(kept[..2], expected.each_ref()[..], "{model}");
        assert_eq!(*kept[2], format!("{} a starts", starts[1]), "{model}");
        assert_eq!(figures.mig.unwrap().reconfigurations, 2);
    }
}

#[test]
fn a_change_that_a_failure_cuts_short_is_not_counted_and_made_again() {
    let trace = Trace { nodes: vec![node("n", "a100-40gb", 1)], pods: vec![mig("a", "1g.5gb", 0, 30)] };
    let outages = vec![Outage { node: 0, from: 5, lasting: 5 }];
    let (told, figures) = ran(&trace, &Settings { outages, ..first_fit() });
    let kept: Vec<&String> = told.iter().filter(|line| line.contains(" a ")).collect();
    assert_eq!(
        kept,
        [
            "0 a placed",
            "5 a interrupted",
            "10 a placed",
            "20.25 a has 0@6 of GPU 0",
            "20.25 a starts",
            "50.25 a done"
        ]
    );
    assert_eq!((figures.interrupted, figures.waits.worst), (1, 20.25));
    let of = figures.mig.unwrap();
    assert_eq!((of.spent_ms, of.switched, of.reconfigurations), (10_250, 1, 1));
}

#[test]
fn nodes_are_added_for_mig_and_taken_away_with_idle_instances_on_them() {
    let pods = vec![mig("a", "1g.10gb", 0, 10), mig("b", "1g.10gb", 60, 10)];
    let trace = Trace { nodes: vec![node("n", "", 0)], pods };
    let growth = Growth { like: node("cloud", "h100-sxm-80gb", 1), after: 5, idle: 20, most: 1 };
    let (told, _) = ran(&trace, &Settings { growth: Some(growth), ..first_fit() });
    let kept: Vec<&String> = told.iter().filter(|line| !line.contains("GPU")).collect();
    assert_eq!(
        kept,
        [
            "5 cloud added 1 came",
            "5 a placed",
            "6.25 a starts",
            "16.25 a done",
            "36.25 cloud added 1 left",
            "65 cloud added 1 came",
            "65 b placed",
            "66.25 b starts",
            "76.25 b done",
            "96.25 cloud added 1 left",
        ]
    );
}

#[test]
fn devices_that_are_there_from_the_beginning_take_no_time_and_hold_their_gpu() {
    let mut running = mig("r", "3g.20gb,1g.5gb=2", 0, 10);
    running.node = Some("n".to_owned());
    let pods = vec![running, whole("w", 1, 0, 5), mig("a", "2g.10gb", 1, 1)];
    let mut trace = Trace { nodes: vec![node("n", "NVIDIA-A100-SXM4-40GB", 1)], pods };
    let (told, _) = ran(&trace, &first_fit());
    let starts: Vec<&String> = told.iter().filter(|line| line.ends_with("starts")).collect();
    // a beside r; w when both are gone: four instances and the mode.
    assert_eq!(starts, ["0 r starts", "1.25 a starts", "20.4 w starts"]);
    trace.pods[0].mig = "3g.20gb=3".parse().unwrap();
    let error = run(&trace, &first_fit()).unwrap_err().to_string();
    assert!(error.contains("'r'") && error.contains("no room for such MIG devices"), "{error}");
}

#[test]
fn several_devices_are_on_one_node_and_who_fits_no_empty_one_is_turned_away() {
    let pods = vec![
        mig("two", "3g.20gb=3", 0, 10),
        mig("five", "3g.20gb=5", 0, 10),
        mig("other", "3g.40gb", 0, 10),
        mig("tight", "4g.20gb,3g.20gb", 0, 10),
    ];
    let mut trace = Trace { nodes: vec![node("n", "a100-40gb", 2), node("m", "a100-40gb", 2)], pods };
    let (told, figures) = ran(&trace, &first_fit());
    let away: Vec<&String> = told.iter().filter(|line| line.ends_with("away")).collect();
    assert_eq!(away, ["0 five away", "0 other away"]);
    assert_eq!((figures.finished, figures.turned_away), (2, 2));
    trace.nodes.truncate(0);
    trace.nodes.push(node("n", "A10", 4));
    let error = run(&trace, &first_fit()).unwrap_err().to_string();
    assert!(
        error.contains("'two'") && error.contains("3× 3g.20gb") && error.contains("a100-40gb"),
        "{error}"
    );
}

fn traces() -> impl Strategy<Value = Trace> {
    let models =
        prop::sample::select(vec!["a100-40gb", "h100-sxm-80gb", "a30-24gb", "rtx-pro-6000-96gb", "T4"]);
    let nodes = prop::collection::vec((models, 0_u8..=3), 1..4);
    let devices = prop::sample::select(vec![
        "1g.5gb",
        "2g.10gb",
        "3g.20gb",
        "4g.20gb",
        "7g.40gb",
        "1g.10gb",
        "1g.10gb+me",
        "3g.40gb",
        "7g.80gb",
        "1g.6gb",
        "2g.12gb",
        "4g.24gb",
        "1g.24gb",
        "2g.48gb",
        "1g.5gb=3",
        "3g.20gb,1g.5gb=2",
        "4g.20gb,3g.20gb=3",
        "1g.24gb-me,2g.48gb",
    ]);
    let (cpu, memory) = (CpuMilli(1000), Mebibytes(1024));
    let pod_of = prop_oneof![
        6 => devices.prop_map(|devices| mig("", devices, 0, 0)),
        2 => (1_u8..=3).prop_map(|gpus| whole("", gpus, 0, 0)),
        2 => (1_u16..1000).prop_map(|milli| part("", milli, 0, 0)),
        1 => Just(claiming("", Claim::cpu_only(cpu, memory), 0, Some(0))),
    ];
    let endless = prop_oneof![12 => Just(true), 1 => Just(false)];
    let pods = prop::collection::vec((pod_of, 0_u64..50, 0_u64..30, endless), 1..40);
    (nodes, pods).prop_map(|(nodes, pods)| Trace {
        // One that MIG divides is always there, for otherwise the trace is refused.
        nodes: [("a100-40gb", 1)]
            .into_iter()
            .chain(nodes)
            .enumerate()
            .map(|(index, (model, gpus))| node(&format!("n{index}"), model, gpus))
            .collect(),
        pods: pods
            .into_iter()
            .enumerate()
            .map(|(index, (pod, arrive, lasts, ends))| TracePod {
                name: format!("p{index}"),
                created: Some(arrive),
                deleted: ends.then_some(arrive + lasts),
                ..pod
            })
            .collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_event_is_legal_nothing_is_used_twice_and_time_is_spent_as_configured(
        trace in traces(),
        seed in any::<u64>(),
        policy in prop::sample::select(Policy::ALL.to_vec()),
        queue in any::<bool>(),
        times in (0_u64..3000, 0_u64..2000, 0_u64..5000, 0_u64..20_000),
        outages in prop::collection::vec((0_usize..5, 0_u64..60, 0_u64..20), 0..4),
        failures in prop::option::of((1_u64..40, 0_u64..10)),
        growth in prop::option::of((0_u8..=3, 0_u64..10, 0_u64..10, 0_usize..3)),
    ) {
        let (create_ms, destroy_ms, mode_ms, reset_ms) = times;
        let like = |gpus| node("cloud", "h100-sxm-80gb", gpus);
        let settings = Settings {
            policy,
            seed,
            queue,
            outages: outages.into_iter().map(|(node, from, lasting)| Outage { node, from, lasting }).collect(),
            failures: failures.map(|(every, lasting)| Failures { every, lasting }),
            growth: growth.map(|(gpus, after, idle, most)| Growth { like: like(gpus), after, idle, most }),
            mig: MigTimes { create_ms, destroy_ms, mode_ms, reset_ms },
        };
        let history = run(&trace, &settings).unwrap();
        books::check(&trace, &settings, &history);
        let again = run(&trace, &settings).unwrap();
        prop_assert_eq!(&history.happened, &again.happened);
        prop_assert_eq!(history.moments, again.moments);
    }
}
