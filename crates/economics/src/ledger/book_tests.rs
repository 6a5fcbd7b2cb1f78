//! Every ledger sums up to the price of its machines.

use super::{Bill, By, Ledger};
use crate::ledger::amount::{Cost, Millis, Parts};
use crate::ledger::interval::{Account, GpuTime, NodeTime, SliceTime, dominant, replica, stranded};
use crate::{Aggregate, CostReport, Covered, LedgerDocument, Money, Rate, Span, Window, in_cents, opencost};
use carve_gpu_model::Mechanism;
use proptest::prelude::*;

const HOUR: Millis = Millis(3_600_000);

fn account(namespace: &str, pod: &str, mechanism: Mechanism) -> Account {
    Account {
        namespace: namespace.to_owned(),
        workload: "Deployment/web".to_owned(),
        pod: pod.to_owned(),
        mechanism,
        within_mig: false,
    }
}

fn slice(namespace: &str, pod: &str, weight: Parts, used: Option<Parts>) -> SliceTime {
    SliceTime { account: account(namespace, pod, Mechanism::TimeSlicing), weight, used }
}

fn hour(gpus: Vec<GpuTime>) -> NodeTime {
    NodeTime { node: "a".to_owned(), price: Rate::from_micros(4_000_000), time: HOUR, gpus }
}

fn dollars(cost: Cost) -> String {
    cost.money().to_string()
}

#[test]
fn four_quarters_are_one_gpu() {
    let quarter = |pod: &str, used| slice("team", pod, replica(4), Some(Parts::of(used, 100)));
    let slices = vec![quarter("w", 100), quarter("x", 50), quarter("y", 0)];
    let mut ledger = Ledger::default();
    ledger.add(&hour(vec![GpuTime::Serving { slices, stranded: Parts::NONE }]));
    let pods = ledger.by(By::Pod);
    let of = |pod: &str| pods[&Some(format!("team/{pod}"))];
    assert_eq!([of("w").used, of("x").used, of("y").used].map(dollars), ["$1.00", "$0.50", "$0.00"]);
    assert_eq!([of("x").idle_held, of("y").idle_held].map(dollars), ["$0.50", "$1.00"]);
    assert_eq!(dollars(pods[&None].idle), "$1.00");
    assert_eq!(dollars(ledger.total().total()), "$4.00");
    assert_eq!(ledger.gpu_time("a", &account("team", "w", Mechanism::TimeSlicing)), Millis(HOUR.0 / 4));
}

#[test]
fn slices_that_weigh_more_than_the_gpu_pay_in_proportion() {
    // Four of seven compute slices, and half of the memory: together more than one.
    let (large, small) =
        (dominant(Parts::of(4, 8), Parts::of(4, 7)), dominant(Parts::of(4, 8), Parts::of(3, 7)));
    let slices = vec![slice("one", "a", large, None), slice("two", "b", small, None)];
    let mut ledger = Ledger::default();
    ledger.add(&hour(vec![GpuTime::Serving { slices, stranded: Parts::ALL }]));
    let rows = ledger.by(By::Namespace);
    let costs = [rows[&Some("one".to_owned())].unmeasured, rows[&Some("two".to_owned())].unmeasured];
    assert_eq!(costs.map(dollars), ["$2.13", "$1.87"]);
    assert_eq!(rows[&None], Bill::default(), "nothing is left to be stranded");
}

#[test]
fn what_is_stranded_is_told_from_what_is_idle() {
    // Half of the memory and a tenth of the compute are given out, so nine tenths of compute have half of the memory.
    let given = dominant(Parts::of(5, 10), Parts::of(1, 10));
    let lost = stranded(given.rest(), Parts::of(5, 10), Parts::of(9, 10));
    assert_eq!(lost, Parts::NONE);
    // Nine tenths of the memory and a tenth of compute; another has the opposite: nobody gets anything any more.
    let (memory, compute) = (dominant(Parts::of(6, 10), Parts::of(1, 10)), Parts::of(1, 10));
    let lost = stranded(memory.rest(), Parts::of(2, 10), compute.rest());
    let mut ledger = Ledger::default();
    let slices = vec![slice("one", "a", memory, Some(Parts::ALL))];
    ledger.add(&hour(vec![GpuTime::Serving { slices, stranded: lost }, GpuTime::Withheld]));
    let nobody = ledger.by(By::Namespace)[&None];
    let costs = [nobody.fragmentation, nobody.idle, nobody.overhead];
    assert_eq!(costs.map(dollars), ["$0.40", "$0.40", "$2.00"]);
}

#[test]
fn a_machine_without_gpus_is_overhead() {
    let mut ledger = Ledger::default();
    ledger.add(&hour(Vec::new()));
    assert_eq!(dollars(ledger.total().overhead), "$4.00");
}

#[test]
fn who_reads_opencost_is_told_what_quarters_cost() {
    let quarter = |pod: &str, used| slice("team", pod, replica(4), Some(Parts::of(used, 100)));
    let slices = vec![quarter("w", 100), quarter("x", 50), quarter("y", 0)];
    let mut covered = Covered::default();
    covered.ledger.add(&hour(vec![GpuTime::Serving { slices, stranded: Parts::NONE }]));
    let window = Window { from: 1_794_787_200, until: 1_794_790_800 };
    let of = |aggregate: &str| {
        let answer = opencost(&covered, window, &Aggregate::parse(aggregate).unwrap());
        answer["data"][0].clone()
    };
    let told = of("namespace,controllerKind");
    let team = &told["team/deployment"];
    assert_eq!(team["properties"], serde_json::json!({"namespace": "team", "controllerKind": "deployment"}));
    assert_eq!(
        [&team["gpuHours"], &team["gpuCount"], &team["totalCost"], &team["totalEfficiency"]],
        [0.75, 0.75, 3.0, 0.5]
    );
    assert_eq!((&team["start"], &team["minutes"]), (&"2026-11-16T00:00:00Z".into(), &60.0.into()));
    assert_eq!(told["__idle__"]["totalCost"], 1.0);
    assert_eq!(of("pod")["x"]["gpuCostIdle"], 0.5);
    let error = Aggregate::parse("namespace,label:app").unwrap_err().to_string();
    assert!(error.contains("'label:app'"), "{error}");
}

#[test]
fn documents_of_others_are_refused() {
    let refused = |text: &str| LedgerDocument::read(text).unwrap_err().to_string();
    assert!(refused("{}").contains("/api/v1/ledger"));
    let mut other =
        serde_json::to_value(LedgerDocument::of(&Ledger::default(), "a", &Span::default(), None)).unwrap();
    other["apiVersion"] = "carve.dev/v9".into();
    assert!(refused(&other.to_string()).contains("carve.dev/v9"));
}

fn parts() -> impl Strategy<Value = Parts> {
    prop_oneof![
        3 => (0_u32..=1_000_000).prop_map(Parts),
        1 => (1_u32..50).prop_map(replica),
        1 => Just(Parts::ALL),
    ]
}

fn mechanism() -> impl Strategy<Value = Mechanism> {
    prop::sample::select(Mechanism::ALL.to_vec())
}

fn gpu() -> impl Strategy<Value = GpuTime> {
    let slice = (0_usize..4, 0_usize..6, mechanism(), any::<bool>(), parts(), prop::option::of(parts()));
    let slice = slice.prop_map(|(namespace, pod, mechanism, within_mig, weight, used)| SliceTime {
        account: Account {
            within_mig,
            ..account(&format!("team-{namespace}"), &format!("pod-{pod}"), mechanism)
        },
        weight,
        used,
    });
    let serving = (prop::collection::vec(slice, 0..9), parts())
        .prop_map(|(slices, stranded)| GpuTime::Serving { slices, stranded });
    prop_oneof![1 => Just(GpuTime::Withheld), 6 => serving]
}

fn history() -> impl Strategy<Value = Vec<NodeTime>> {
    let node = (0_usize..5, 0_u64..150_000_000, 0_u64..100_000_000, prop::collection::vec(gpu(), 0..9));
    let node = node.prop_map(|(node, price, time, gpus)| NodeTime {
        node: format!("node-{node}"),
        price: Rate::from_micros(price),
        time: Millis(time),
        gpus,
    });
    prop::collection::vec(node, 0..40)
}

proptest! {
    #[test]
    fn every_ledger_sums_up_to_the_price(history in history()) {
        let mut ledger = Ledger::default();
        let mut halves = (Ledger::default(), Ledger::default());
        for (number, time) in history.iter().enumerate() {
            ledger.add(time);
            if number % 2 == 0 { halves.0.add(time) } else { halves.1.add(time) }
        }
        let price: Cost = history.iter().map(|time| Cost::of(time.price, time.time)).sum();
        prop_assert_eq!(ledger.price(), price);
        prop_assert_eq!(ledger.total().total(), price);
        prop_assert!(ledger.unbalanced().is_empty());
        for by in By::ALL {
            let rows: Vec<Cost> = ledger.by(by).values().map(Bill::total).collect();
            prop_assert_eq!(rows.iter().copied().sum::<Cost>(), price);
            let cents: Money = in_cents(&rows).into_iter().sum();
            prop_assert_eq!(cents.cents(), price.money().cents());
        }
        halves.0.merge(&halves.1);
        prop_assert_eq!(&halves.0, &ledger);
        // Written down machine by machine and read again it is the same.
        let mut covered = Covered::default();
        let mut nodes: Vec<String> = history.iter().map(|time| time.node.clone()).collect();
        nodes.sort();
        nodes.dedup();
        for node in &nodes {
            let span = Span { from: 10, until: 20, unpriced: Millis(0) };
            let text = serde_json::to_string(&LedgerDocument::of(&ledger, node, &span, None)).unwrap();
            covered.take(&LedgerDocument::read(&text).unwrap()).unwrap();
        }
        prop_assert_eq!(&covered.ledger, &ledger);
        // And whoever asks for it gets parts that sum up to the price.
        for by in By::ALL {
            let report = CostReport::of(&covered, by);
            let total: f64 = report.rows.iter().map(|row| row.total).sum();
            prop_assert!((total - price.dollars()).abs() < 0.005, "{total} {}", price.dollars());
            prop_assert_eq!(report.total.bill.total(), price);
            let hours: f64 = report.rows.iter().map(|row| row.gpu_hours).sum();
            prop_assert!((hours - report.total.gpu_hours).abs() < 1e-6);
        }
        let window = Window { from: 0, until: 3600 };
        for aggregate in ["", "cluster", "node", "namespace", "controllerKind,controller", "namespace,pod"] {
            let answer = opencost(&covered, window, &Aggregate::parse(aggregate).unwrap());
            let set = answer["data"][0].as_object().unwrap();
            let total: f64 = set.values().map(|one| one["totalCost"].as_f64().unwrap()).sum();
            prop_assert!((total - price.dollars()).abs() < 0.005, "{aggregate}: {total} {}", price.dollars());
        }
    }

    /// The same, reckoned in another way: with floats, and slice by slice.
    #[test]
    fn everybody_pays_for_the_weight_of_their_slices(history in history()) {
        let mut ledger = Ledger::default();
        let mut expected: std::collections::BTreeMap<Option<String>, [f64; 3]> = Default::default();
        for time in &history {
            ledger.add(time);
            let price = Cost::of(time.price, time.time).dollars();
            if time.gpus.is_empty() {
                expected.entry(None).or_default()[2] += price;
            }
            for gpu in &time.gpus {
                let each = price / time.gpus.len() as f64;
                let GpuTime::Serving { slices, .. } = gpu else {
                    expected.entry(None).or_default()[2] += each;
                    continue;
                };
                let given: f64 = slices.iter().map(|slice| f64::from(slice.weight.0) / 1e6).sum();
                for slice in slices {
                    let cost = each * f64::from(slice.weight.0) / 1e6 / given.max(1.0);
                    let used = slice.used.map_or(0.0, |used| f64::from(used.0) / 1e6);
                    let row = expected.entry(Some(slice.account.namespace.clone())).or_default();
                    row[0] += cost;
                    row[1] += cost * used;
                }
                expected.entry(None).or_default()[2] += each * (1.0 - given).max(0.0);
            }
        }
        for (name, [allocated, used, nobodys]) in expected {
            let found = ledger.by(By::Namespace).get(&name).copied().unwrap_or_default();
            let rest = found.idle + found.fragmentation + found.overhead;
            for (found, expected) in [(found.allocated(), allocated), (found.used, used), (rest, nobodys)] {
                prop_assert!((found.dollars() - expected).abs() < 1e-6 + expected * 1e-9, "{name:?}: {found:?} is not {expected}");
            }
        }
    }
}
