//! The publisher against a server in memory: what is written when, and what happens where fields are not kept.

use super::SlicePublisher;
use crate::DroppedField;
use crate::fake_server::FakeServer;
use carve_dra::{GpuFacts, Mode, Slice, Taint, TaintEffect, layout, slices};
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::GpuIndex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const DRIVER: &str = "gpu.carve.dev";

/// The slices of so many GPUs, the first of which has these taints.
fn offer(gpus: usize, mode: Mode, taints: &[&str]) -> Vec<Slice> {
    let host = SimulatedHost::new(Machine::named("h100-sxm-80gb:4").expect("a machine"));
    let facts = |gpu: carve_gpu_host::Gpu| {
        let index: GpuIndex = gpu.index;
        let table = host.profile_table(index).ok();
        let reserved = host.memory(index).expect("memory").reserved;
        GpuFacts { gpu, reserved, table, pcie_root: None, taints: Vec::new(), mig_taints: BTreeMap::new() }
    };
    let mut all: Vec<GpuFacts> = host.gpus().expect("GPUs").into_iter().take(gpus).map(facts).collect();
    let taint = |key: &&str| Taint {
        key: format!("{DRIVER}/{key}"),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    };
    all[0].taints = taints.iter().map(taint).collect();
    slices(&layout(&host.driver().expect("a driver"), &all, &mode.ways()))
}

fn name(index: usize) -> String {
    format!("{index:05x}-{DRIVER}-node0")
}

fn publisher(server: &FakeServer) -> SlicePublisher {
    SlicePublisher::new(&server.api(), DRIVER.to_owned())
}

fn puts(indices: std::ops::Range<usize>) -> Vec<String> {
    indices.map(|index| format!("PUT {}", name(index))).collect()
}

fn generations(server: &FakeServer) -> BTreeSet<i64> {
    server
        .state()
        .slices
        .values()
        .map(|slice| slice["spec"]["pool"]["generation"].as_i64().unwrap())
        .collect()
}

fn time_of_taint(server: &FakeServer, index: usize) -> Value {
    server.state().slices[&name(index)]["spec"]["devices"][0]["taints"][0]["timeAdded"].clone()
}

#[tokio::test]
async fn what_is_published_is_left_alone_until_something_else_is_wanted() {
    let server = FakeServer::default();
    let mut publisher = publisher(&server);
    let two = offer(2, Mode::All, &[]);
    let report = publisher.reconcile(&two).await.unwrap();
    assert_eq!((report.generation, report.written, report.deleted), (1, 3, 0));
    assert_eq!((report.dropped, report.withheld), (Vec::new(), false));
    assert_eq!(server.writes(), [0, 1, 2].map(|index| format!("POST {}", name(index))));
    let owner = server.state().slices[&name(1)]["metadata"]["ownerReferences"][0].clone();
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Node"), &json!("uid-of-node0")));

    assert_eq!(publisher.reconcile(&two).await.unwrap().written, 0);
    // Another process finds it as it should be.
    let report = self::publisher(&server).reconcile(&two).await.unwrap();
    assert_eq!((report.generation, report.written, report.deleted), (1, 0, 0));
    assert_eq!(server.writes(), [""; 0]);

    // A taint is one slice, within the generation.
    let report = publisher.reconcile(&offer(2, Mode::All, &["unhealthy"])).await.unwrap();
    assert_eq!((report.generation, report.written), (1, 1));
    assert_eq!(server.writes(), puts(1..2));
    let since = time_of_taint(&server, 1);
    assert!(since.is_string(), "{since}");

    // Another GPU is another number of slices: all of them, and a new generation. The taint is as old as before.
    let report = publisher.reconcile(&offer(3, Mode::All, &["unhealthy"])).await.unwrap();
    assert_eq!((report.generation, report.written), (2, 4));
    assert_eq!(generations(&server), BTreeSet::from([2]));
    assert_eq!(time_of_taint(&server, 1), since);
    server.writes();

    // What is too much goes first.
    publisher.reconcile(&offer(1, Mode::All, &["unhealthy"])).await.unwrap();
    let deletes = [2, 3].map(|index| format!("DELETE {}", name(index)));
    assert_eq!(server.writes(), [&deletes[..], &puts(0..2)[..]].concat());
    assert_eq!(generations(&server), BTreeSet::from([3]));
}

#[tokio::test]
async fn deleted_slices_come_back_and_their_taints_are_no_younger() {
    let server = FakeServer::default();
    let mut publisher = publisher(&server);
    let wanted = offer(2, Mode::All, &["unhealthy"]);
    publisher.reconcile(&wanted).await.unwrap();
    let since = time_of_taint(&server, 1);
    server.state().slices.remove(&name(1));
    let report = publisher.reconcile(&wanted).await.unwrap();
    assert_eq!((report.generation, report.written), (1, 1));
    assert_eq!(time_of_taint(&server, 1), since);
    // Kubelet that starts deletes all.
    server.state().slices.clear();
    let report = publisher.reconcile(&wanted).await.unwrap();
    assert_eq!((report.generation, report.written), (2, 3));
    assert_eq!(time_of_taint(&server, 1), since);
    // A taint that was gone in between is a new one.
    publisher.reconcile(&offer(2, Mode::All, &[])).await.unwrap();
    publisher.reconcile(&wanted).await.unwrap();
    assert_ne!(time_of_taint(&server, 1), since);
}

#[tokio::test]
async fn slices_that_nobody_here_wrote_go() {
    let server = FakeServer::default();
    let mut publisher = publisher(&server);
    let wanted = offer(1, Mode::Exclusive, &[]);
    publisher.reconcile(&wanted).await.unwrap();
    let mut foreign = server.state().slices[&name(0)].clone();
    foreign["metadata"]["name"] = json!("node0-gpu.carve.dev-x7k9m");
    server.state().slices.insert("node0-gpu.carve.dev-x7k9m".to_owned(), foreign);
    let report = publisher.reconcile(&wanted).await.unwrap();
    assert_eq!((report.deleted, report.generation), (1, 2));
    assert_eq!(server.state().slices.keys().cloned().collect::<Vec<_>>(), [name(0)]);
    publisher.withdraw().await.unwrap();
    assert!(server.state().slices.is_empty());
}

#[tokio::test]
async fn what_is_no_longer_wanted_is_not_missed_when_somebody_deletes_it_first() {
    let server = FakeServer::default();
    let mut publisher = publisher(&server);
    publisher.reconcile(&offer(2, Mode::Exclusive, &[])).await.unwrap();
    server.state().slices.remove(&name(1));
    let report = publisher.reconcile(&offer(1, Mode::Exclusive, &[])).await.unwrap();
    assert_eq!((report.deleted, report.written, report.generation), (0, 1, 2));
    let kept = publisher.kept.lock().await;
    let version = kept.slices[&name(0)].version;
    assert!(!kept.is_foreign_list(&BTreeMap::from([(name(0), version)])));
}

#[tokio::test]
async fn somebody_who_writes_at_the_same_time_is_looked_at_again() {
    for deletes in [false, true] {
        let server = FakeServer::default();
        let mut publisher = publisher(&server);
        publisher.reconcile(&offer(2, Mode::All, &[])).await.unwrap();
        server.state().interfere = Some((name(1), deletes));
        let report = publisher.reconcile(&offer(2, Mode::All, &["unhealthy"])).await.unwrap();
        assert_eq!((report.generation, report.written), (1, 1));
        assert!(time_of_taint(&server, 1).is_string());
        assert_eq!(server.state().slices.len(), 3);
    }
}

#[tokio::test]
async fn without_counters_no_device_is_ever_seen() {
    let server = FakeServer::default();
    server.state().gates_off.insert("DRAPartitionableDevices");
    let mut publisher = publisher(&server);
    for _ in 0..2 {
        let report = publisher.reconcile(&offer(2, Mode::All, &[])).await.unwrap();
        assert!(report.withheld);
        assert_eq!(server.writes(), [format!("POST {}", name(0)), format!("DELETE {}", name(0))]);
        assert!(server.state().slices.is_empty());
        let told: Vec<String> = report.dropped.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1);
        assert!(
            told[0].contains("spec.sharedCounters") && told[0].contains("DRAPartitionableDevices"),
            "{told:?}"
        );
    }
    // One way needs none.
    let report = publisher.reconcile(&offer(2, Mode::Fraction, &[])).await.unwrap();
    assert_eq!((report.withheld, report.written, report.dropped), (false, 2, Vec::new()));
}

#[tokio::test]
async fn fields_that_are_not_kept_are_told_and_not_written_for_ever() {
    let server = FakeServer::default();
    server.state().gates_off.extend(["DRAConsumableCapacity", "DRADeviceTaints"]);
    let mut publisher = publisher(&server);
    let wanted = offer(2, Mode::Fraction, &["unhealthy"]);
    let first = publisher.reconcile(&wanted).await.unwrap();
    assert_eq!((first.written, first.withheld), (2, false));
    let fields: Vec<(DroppedField, usize, &str)> = first
        .dropped
        .iter()
        .map(|dropped| (dropped.field, dropped.places, dropped.example.as_str()))
        .collect();
    assert_eq!(
        fields,
        [
            (DroppedField::AllowMultipleAllocations, 2, "gpu-0-frac"),
            (DroppedField::RequestPolicy, 2, "gpu-0-frac"),
            (DroppedField::Taints, 1, "gpu-0-frac"),
        ]
    );
    let told = first.dropped[0].to_string();
    assert!(told.contains("allowMultipleAllocations") && told.contains("DRAConsumableCapacity"), "{told}");
    assert!(told.contains("gpu-0-frac and 1 more"), "{told}");
    server.writes();
    let second = publisher.reconcile(&wanted).await.unwrap();
    assert_eq!((second.written, &second.dropped), (0, &first.dropped));
    assert_eq!(server.writes(), [""; 0]);
    // Somebody who changes what was kept is still noticed.
    server.state().slices.get_mut(&name(1)).unwrap()["spec"]["devices"][0]["attributes"]["uuid"]["string"] =
        json!("GPU-other");
    assert_eq!(publisher.reconcile(&wanted).await.unwrap().written, 1);
}

#[tokio::test]
async fn own_writes_are_told_from_those_of_others() {
    let server = FakeServer::default();
    let mut publisher = publisher(&server);
    publisher.reconcile(&offer(2, Mode::All, &[])).await.unwrap();
    let slice = |name: &str, version: u64| -> k8s_openapi::api::resource::v1::ResourceSlice {
        let mut slice = server.state().slices[&self::name(0)].clone();
        slice["metadata"] = json!({"name": name, "resourceVersion": version.to_string()});
        serde_json::from_value(slice).unwrap()
    };
    let kept = publisher.kept.lock().await;
    let versions: Vec<u64> = kept.slices.values().map(|kept| kept.version).collect();
    assert_eq!(versions, [1, 2, 3]);
    assert!(!kept.is_foreign_write(&slice(&name(1), 2)), "our own write");
    assert!(!kept.is_foreign_write(&slice(&name(1), 1)), "one that ours came after");
    assert!(kept.is_foreign_write(&slice(&name(1), 4)), "one that came after ours");
    assert!(kept.is_foreign_delete(&slice(&name(1), 4)), "a deletion of what should be there");
    assert!(!kept.is_foreign_delete(&slice(&name(1), 1)), "a deletion that ours came after");
    assert!(!kept.is_foreign_delete(&slice("old", 4)), "a deletion of what should not be there");
    assert!(kept.is_foreign_write(&slice("new", 4)), "a slice that nobody here wrote");
    assert!(!kept.is_foreign_write(&slice("old", 3)), "a slice of ours that we deleted since");
    let listed = |versions: &[(usize, u64)]| -> BTreeMap<String, u64> {
        versions.iter().map(|(index, version)| (name(*index), *version)).collect()
    };
    assert!(!kept.is_foreign_list(&listed(&[(0, 1), (1, 2), (2, 3)])));
    assert!(kept.is_foreign_list(&listed(&[(0, 1), (1, 2)])), "one is missing");
    assert!(kept.is_foreign_list(&listed(&[(0, 1), (1, 9), (2, 3)])), "one is newer");
    assert!(kept.is_foreign_list(&listed(&[(0, 1), (1, 2), (2, 3), (3, 4)])), "one is too much");
}
