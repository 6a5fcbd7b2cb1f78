//! Who pays for how much of a GPU, for every way of sharing one.

use super::{GpuNow, between, gpus_now, same, slices};
use crate::usage::{ContainerRow, UsageRows};
use carve_economics::{GpuTime, Ledger, Millis, NodeTime, Parts, Rate, replica};
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::GpuIndex;
use carve_slicing::{Holder, MigMinors, NodeGpus};
use carve_usage::Evidence;
use std::collections::BTreeSet;

fn node(machine: &str) -> NodeGpus {
    NodeGpus::read(&host(machine), &MigMinors::default()).expect("GPUs")
}

fn host(machine: &str) -> SimulatedHost {
    SimulatedHost::new(Machine::named(machine).expect("a machine"))
}

fn row(pod: &str, uuid: &str, mechanism: &'static str, seconds: f64) -> ContainerRow {
    let holder = Holder { namespace: "team".to_owned(), pod: pod.to_owned(), container: "main".to_owned() };
    ContainerRow {
        holder,
        uuid: uuid.to_owned(),
        mechanism,
        seconds: vec![(Evidence::Measured, seconds)],
        now: Some(0.0),
        how: Some(Evidence::Measured),
        memory: 0,
        memory_limit: None,
        part_memory: Some(40 << 30),
        shares: None,
        promised: None,
        throttled: None,
        denied: None,
    }
}

fn now(node: &NodeGpus, containers: Vec<ContainerRow>, sick: &[&str]) -> Vec<GpuNow> {
    let rows = UsageRows { containers, ..UsageRows::default() };
    let sick: BTreeSet<String> = sick.iter().map(|one| (*one).to_owned()).collect();
    gpus_now(&rows, node, &sick, |holder| format!("Deployment/{}", holder.pod))
}

#[test]
fn what_no_pod_is_known_to_hold_is_on_nobodys_account() {
    let node = node("a100-40gb");
    let uuid = node.gpus[0].gpu.uuid.0.clone();
    let gpus = now(&node, vec![row("", &uuid, "fraction", 1.0), row("a", &uuid, "fraction", 1.0)], &[]);
    let accounts: Vec<&str> = slices(&gpus).map(|slice| slice.account.workload.as_str()).collect();
    assert_eq!(accounts, ["Deployment/a"]);
}

/// Weight and used part of every slice, and what is stranded.
fn paid(before: &[GpuNow], after: &[GpuNow], seconds: u64) -> Vec<(String, u32, Option<u32>)> {
    let mut found = Vec::new();
    for gpu in between(before, after, Millis(seconds * 1000)) {
        if let GpuTime::Serving { slices, .. } = gpu {
            found.extend(
                slices
                    .into_iter()
                    .map(|slice| (slice.account.pod, slice.weight.0, slice.used.map(|used| used.0))),
            );
        }
    }
    found
}

fn stranded(gpus: &[GpuNow]) -> Vec<Option<u32>> {
    let of = |gpu: &GpuNow| match gpu {
        GpuNow::Withheld => None,
        GpuNow::Serving { stranded, .. } => Some(stranded.0),
    };
    gpus.iter().map(of).collect()
}

#[test]
fn replicas_pay_for_their_part_and_have_used_it_when_they_had_its_time() {
    let node = node("a100-40gb:1");
    let gpu = node.gpus[0].gpu.uuid.0.clone();
    let quarter = |pod: &str, seconds| ContainerRow {
        shares: Some(replica(4)),
        ..row(pod, &gpu, "time-slicing", seconds)
    };
    let before = now(&node, vec![quarter("a", 0.0), quarter("b", 5.0)], &[]);
    // One had an eighth of the time, which is half of its quarter; the other far more than its part.
    let after = now(&node, vec![quarter("a", 1.25), quarter("b", 13.75)], &[]);
    assert!(same(&before, &after), "only what they used has changed");
    assert_eq!(
        paid(&before, &after, 10),
        [("a".to_owned(), 250_000, Some(500_000)), ("b".to_owned(), 250_000, Some(1_000_000))]
    );
    assert_eq!(stranded(&after), [Some(0)], "two quarters can still be had");
    let both = ContainerRow { shares: Some(Parts(500_000)), ..row("a", &gpu, "time-slicing", 0.0) };
    let after = now(&node, vec![both], &[]);
    assert!(!same(&before, &after));
    assert_eq!(slices(&after).next().map(|slice| slice.account.workload.as_str()), Some("Deployment/a"));
}

#[test]
fn who_was_promised_nothing_pays_evenly_for_what_is_left() {
    let node = node("a100-40gb:1");
    let gpu = node.gpus[0].gpu.uuid.0.clone();
    let pods = |seconds| {
        let turn =
            |pod| ContainerRow { memory_limit: Some(40 << 30), ..row(pod, &gpu, "time-slicing", seconds) };
        now(&node, ["a", "b", "c"].map(turn).to_vec(), &[])
    };
    let found = paid(&pods(0.0), &pods(2.0), 10);
    // A fifth of the time is three fifths of a third.
    assert!(
        found
            .iter()
            .all(|(_, weight, used)| *weight == 333_333
                && used.is_some_and(|used| used.abs_diff(600_000) < 10)),
        "{found:?}"
    );
}

#[test]
fn parts_pay_for_memory_or_compute_whichever_is_more() {
    let node = node("a100-40gb:1");
    let gpu = node.gpus[0].gpu.uuid.0.clone();
    let part = |pod: &str, gib: u64, promised: f64, seconds: f64| ContainerRow {
        memory_limit: Some(gib << 30),
        promised: Some(promised),
        ..row(pod, &gpu, "fraction", seconds)
    };
    let before = now(&node, vec![part("large", 24, 0.1, 0.0), part("busy", 4, 0.5, 0.0)], &[]);
    let after = now(&node, vec![part("large", 24, 0.1, 1.0), part("busy", 4, 0.5, 1.0)], &[]);
    assert_eq!(
        paid(&before, &after, 10),
        [("large".to_owned(), 600_000, Some(1_000_000)), ("busy".to_owned(), 500_000, Some(200_000))]
    );
    // Twelve GiB and 40 % are left, and the weights say that nothing is.
    assert_eq!(stranded(&after), [Some(0)]);
    let alone = now(&node, vec![part("large", 36, 0.1, 0.0)], &[]);
    assert_eq!(
        stranded(&alone),
        [Some(0)],
        "what is left by weight has its memory and more than its compute"
    );
    let two = now(&node, vec![part("large", 24, 0.1, 0.0), part("wide", 2, 0.3, 0.0)], &[]);
    // By weight a tenth is left; a tenth of both could be had.
    assert_eq!(stranded(&two), [Some(0)]);
}

#[test]
fn mig_devices_pay_for_slices_and_what_can_not_be_cut_is_stranded() {
    let mut host = host("a100-40gb:1");
    cut(&mut host, &["3g.20gb", "3g.20gb"]);
    let node = NodeGpus::read(&host, &MigMinors::default()).expect("GPUs");
    let migs: Vec<String> = node.gpus[0].migs.iter().map(|mig| mig.device.uuid.0.clone()).collect();
    let pods = vec![
        row("a", &migs[0], "mig", 0.0),
        ContainerRow { shares: Some(replica(2)), ..row("b", &migs[1], "time-slicing", 0.0) },
    ];
    let all = now(&node, pods, &[]);
    let [(_, alone, _), (_, half, _)] = &paid(&all, &all, 1)[..] else { panic!("{all:?}") };
    // Half of the memory is more than three of seven; what the driver keeps of it makes it a little less.
    assert!((480_000..=500_000).contains(alone), "{alone}");
    assert_eq!(*half, alone / 2);
    let account = slices(&all).map(|slice| slice.account.way()).collect::<Vec<_>>();
    assert_eq!(account, ["MIG", "time-slicing on MIG"]);
    // The seventh compute slice has no memory left.
    let lost = stranded(&all)[0].expect("it serves");
    assert!(lost < 40_000, "{lost}");
    // Seven small ones are everything.
    let mut host = self::host("a100-40gb:1");
    cut(&mut host, &["1g.5gb"; 7]);
    let node = NodeGpus::read(&host, &MigMinors::default()).expect("GPUs");
    let pods = node.gpus[0]
        .migs
        .iter()
        .enumerate()
        .map(|(at, mig)| row(&format!("p{at}"), &mig.device.uuid.0, "mig", 0.0));
    let all = now(&node, pods.collect(), &[]);
    let sum: u32 = paid(&all, &all, 1).iter().map(|(_, weight, _)| weight).sum();
    assert!((999_990..=1_000_000).contains(&sum), "{sum}");
}

fn cut(host: &mut SimulatedHost, profiles: &[&str]) {
    let gpu = GpuIndex(0);
    host.set_mig_mode(gpu, true).expect("MIG is on");
    host.reset(&[gpu]).expect("it takes hold");
    for profile in profiles {
        let table = host.profile_table(gpu).expect("a table");
        let (_, found) = table.by_name(&profile.parse().expect("a profile")).expect("it has it");
        let (id, whole) = (found.id, table.compute_profiles(found).last().expect("the whole of it").index);
        let instance = host.create_gpu_instance(gpu, id, None).expect("an instance").id;
        host.create_compute_instance(gpu, instance, whole).expect("all of it");
    }
}

#[test]
fn sick_gpus_are_overhead_unless_somebody_has_them() {
    let node = node("a100-40gb:2");
    let [first, second] = [0, 1].map(|at| node.gpus[at].gpu.uuid.0.clone());
    let all = now(&node, vec![row("a", &first, "whole", 0.0)], &[&first, &second]);
    assert_eq!(stranded(&all), [Some(1_000_000), None]);
    let mut ledger = Ledger::default();
    let time = Millis(3_600_000);
    let gpus = between(&all, &all, time);
    ledger.add(&NodeTime { node: "n".to_owned(), price: Rate::from_micros(2_000_000), time, gpus });
    let total = ledger.total();
    assert_eq!([total.allocated(), total.overhead].map(|cost| cost.money().to_string()), ["$1.00", "$1.00"]);
}
