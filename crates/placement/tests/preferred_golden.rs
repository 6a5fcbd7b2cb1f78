//! What NVIDIA's device plugin preferred when it was recorded, and what carve prefers for the same question.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_gpu_host::{Link, PciPath};
use carve_gpu_model::GpuIndex;
use carve_placement::preferred::{
    Candidate, DeviceId, Kind, PartId, Policy, Pool, Request, Topology, preferred,
};
use carve_test_support::{fixture_text, fixtures};
use serde_json::Value;
use std::collections::BTreeMap;

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn part(id: &str) -> &str {
    id.split("::").next().unwrap_or(id)
}

/// The GPU out of the names of the recorded machine: `GPU-10000003-…` is number 3, and MIG devices are on GPU 0 alone.
fn gpu(id: &str) -> GpuIndex {
    let number = id.strip_prefix("GPU-1").and_then(|rest| rest.get(..7));
    GpuIndex(number.map_or(0, |number| u32::from_str_radix(number, 16).expect("a number")))
}

fn pool(resource: &Value) -> Pool {
    let mut ids: Vec<&str> = resource["Devices"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|device| device["ID"].as_str())
        .collect();
    ids.sort_unstable();
    Pool::new(ids.into_iter().map(|id| Candidate {
        id: DeviceId::new(id),
        part: PartId::new(part(id)),
        gpu: gpu(id),
        numa: None,
    }))
}

/// The machine of the recordings: no NVLink, and of GPUs that are lost nothing is known.
fn topology(pool: &Pool, lost: Option<GpuIndex>) -> Topology {
    Topology::new(pool.devices().iter().map(|device| device.gpu), |from, to| {
        let gone = lost.is_some_and(|lost| from == lost || to == lost);
        (!gone).then_some(Link { pci: PciPath::HostBridge, nvlinks: 0 })
    })
}

fn ask(pool: &Pool, lost: Option<GpuIndex>, call: &Value, policy: Policy) -> Vec<DeviceId> {
    let whole = pool
        .devices()
        .iter()
        .all(|device| device.id.as_str().starts_with("GPU-") && device.part.as_str() == device.id.as_str());
    let available: Vec<DeviceId> = match call.get("Available") {
        Some(named) => texts(named).into_iter().map(DeviceId::new).collect(),
        None => pool.devices().iter().map(|device| device.id.clone()).collect(),
    };
    let request = Request {
        pool,
        topology: &topology(pool, lost),
        available: &available,
        must_include: &[],
        size: call["Size"].as_u64().expect("a size") as usize,
        kind: if whole { Kind::WholeGpus } else { Kind::Parts(policy) },
    };
    preferred(&request).expect("an answer")
}

/// How many devices were taken of each part, whichever part it was: between equal ones NVIDIA's plugin tosses a coin.
fn counts<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
    for id in ids {
        *parts.entry(part(id)).or_default() += 1;
    }
    let mut counts: Vec<usize> = parts.into_values().collect();
    counts.sort_unstable();
    counts
}

#[test]
fn recorded_preferences_agree() {
    let Some(folder) = fixtures("device-plugin/golden-plugin") else { return };
    let (mut calls, mut shared) = (0, 0);
    for entry in std::fs::read_dir(folder).expect("the recordings") {
        let path = entry.expect("an entry").path();
        let recording: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).expect("a recording")).expect("JSON");
        let policy = match recording["scenario"]["args"].as_str() {
            Some(args) if args.contains("policy=packed") => Policy::Packed,
            _ => Policy::Distributed,
        };
        let mig = recording["scenario"]["mig"].as_str().unwrap_or_default();
        assert!(mig.split(';').all(|gpu| gpu.is_empty() || gpu.starts_with("0=")), "MIG on GPU 0 alone");
        let resources = recording["observed"]["resources"].as_object().cloned().unwrap_or_default();
        for (name, resource) in &resources {
            let pool = pool(resource);
            let recorded = resource["Calls"].as_array().into_iter().flatten();
            for call in recorded.filter(|call| call.get("Preferred").is_some()) {
                let theirs = texts(&call["Preferred"]);
                let ours = ask(&pool, None, call, policy);
                assert_eq!(
                    counts(ours.iter().map(DeviceId::as_str)),
                    counts(theirs.iter().copied()),
                    "{} {name}: {ours:?}; recorded {theirs:?}",
                    path.display()
                );
                calls += 1;
                shared += usize::from(theirs.len() > 1 && theirs[0].contains("::"));
            }
        }
    }
    assert!(calls >= 50 && shared >= 10, "only {calls} recorded preferences, {shared} of several shares");
}

#[test]
fn a_lost_gpu_that_silenced_nvidias_plugin_does_not_silence_carve() {
    let Some(text) = fixture_text("device-plugin/golden-health/full4_lost2.json") else { return };
    let recording: Value = serde_json::from_str(&text).expect("JSON");
    let resource = &recording["resources"]["nvidia.com/gpu"];
    let pool = pool(resource);
    let failed: Vec<&Value> = resource["Calls"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|call| call["Error"].as_str().is_some_and(|error| error.contains("GPU is lost")))
        .collect();
    assert!(!failed.is_empty(), "the recording has a question that failed");
    for call in failed {
        let ours = ask(&pool, Some(GpuIndex(2)), call, Policy::Distributed);
        assert_eq!(ours.len() as u64, call["Size"].as_u64().expect("a size"));
        assert!(ours.iter().all(|id| gpu(id.as_str()) != GpuIndex(2)), "{ours:?}");
    }
}
