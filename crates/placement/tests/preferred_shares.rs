//! MIG devices and shares are chosen as NVIDIA's plugin could have chosen them, and by their GPU where it does not care.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod machines;

use carve_gpu_model::GpuIndex;
use carve_placement::preferred::{DeviceId, Kind, Policy, Pool, Request, Topology, choose, preferred};
use machines::{all, islands, parts};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, proptest};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A random resource, and what kubelet could ask about it.
#[derive(Debug, Clone)]
struct Case {
    gpus: Vec<usize>,
    shares: usize,
    available: Vec<bool>,
    required: Vec<bool>,
    more: usize,
    policy: Policy,
}

fn cases() -> impl Strategy<Value = Case> {
    (proptest::collection::vec(1..=3usize, 1..=4), 1..=4usize).prop_flat_map(|(gpus, shares)| {
        let count = gpus.iter().sum::<usize>() * shares;
        let policy =
            any::<bool>().prop_map(|packed| if packed { Policy::Packed } else { Policy::Distributed });
        (
            proptest::collection::vec(proptest::bool::weighted(0.7), count),
            proptest::collection::vec(proptest::bool::weighted(0.1), count),
            0..=count,
            policy,
            Just((gpus, shares)),
        )
            .prop_map(|(available, required, more, policy, (gpus, shares))| {
                let free = available.iter().zip(&required).filter(|(free, required)| **free && !**required);
                let more = more.min(free.count());
                Case { gpus, shares, available, required, more, policy }
            })
    })
}

fn marked(pool: &Pool, marks: &[bool]) -> Vec<DeviceId> {
    all(pool).into_iter().zip(marks).filter(|(_, mark)| **mark).map(|(id, _)| id).collect()
}

/// GPU and part of a device, out of its name.
fn origin(id: &DeviceId) -> (String, String) {
    let part = id.as_str().split("::").next().expect("a part");
    (part.split('/').next().expect("a GPU").to_owned(), part.to_owned())
}

proptest! {
    #[test]
    fn every_pick_is_one_that_nvidias_plugin_could_make(case in cases()) {
        let pool = parts(&case.gpus, case.shares);
        let (available, required) = (marked(&pool, &case.available), marked(&pool, &case.required));
        let topology = islands(&[case.gpus.len() as u32]);
        let request = Request {
            pool: &pool,
            topology: &topology,
            available: &available,
            must_include: &required,
            size: required.len() + case.more,
            kind: Kind::Parts(case.policy),
        };
        let answer = preferred(&request).expect("an answer");
        prop_assert_eq!(answer.len(), request.size);
        prop_assert_eq!(answer.iter().collect::<BTreeSet<_>>().len(), request.size, "each once");
        prop_assert_eq!(&answer[..required.len()], &required[..]);
        // Replayed pick by pick over single devices, as the plugin does it.
        let mut candidates: Vec<DeviceId> =
            available.iter().filter(|id| !required.contains(id)).cloned().collect();
        let everything = all(&pool);
        if candidates.len() == case.more {
            // All are taken, and the order says nothing.
            let rest: BTreeSet<&DeviceId> = answer[required.len()..].iter().collect();
            prop_assert_eq!(rest, candidates.iter().collect::<BTreeSet<_>>());
            return Ok(());
        }
        let mut picked: Vec<DeviceId> = Vec::new();
        for pick in &answer[required.len()..] {
            let same_part = |ids: &[DeviceId], id: &DeviceId| {
                ids.iter().filter(|other| origin(other).1 == origin(id).1).count() as i64
            };
            let same_gpu = |ids: &[DeviceId], id: &DeviceId| {
                ids.iter().filter(|other| origin(other).0 == origin(id).0).count() as i64
            };
            let sense = if case.policy == Policy::Packed { -1 } else { 1 };
            let upstream = |id: &DeviceId| {
                let allocated = same_part(&everything, id) - same_part(&candidates, id);
                (sense * allocated, same_part(&picked, id))
            };
            let best = candidates.iter().map(upstream).min().expect("a candidate");
            prop_assert!(candidates.contains(pick), "{} is free", pick);
            prop_assert_eq!(upstream(pick), best, "{} of {:?}", pick, candidates);
            // Among those that are equal to the plugin, the GPU decides.
            let on_gpu = |id: &DeviceId| sense * (same_gpu(&everything, id) - same_gpu(&candidates, id));
            let best_gpu = candidates.iter().filter(|id| upstream(id) == best).map(on_gpu).min();
            prop_assert_eq!(Some(on_gpu(pick)), best_gpu, "{} of {:?}", pick, candidates);
            candidates.retain(|id| id != pick);
            picked.push(pick.clone());
        }
        let mut backwards = available.clone();
        backwards.sort_by_key(|id| Reverse(id.clone()));
        prop_assert_eq!(preferred(&Request { available: &backwards, ..request }), Ok(answer));
    }
}

/// The answer by name.
fn chosen(pool: &Pool, topology: &Topology, taken: &[&str], size: usize, policy: Policy) -> Vec<String> {
    let available: Vec<DeviceId> = all(pool).into_iter().filter(|id| !taken.contains(&id.as_str())).collect();
    let request =
        Request { pool, topology, available: &available, must_include: &[], size, kind: Kind::Parts(policy) };
    preferred(&request).expect("an answer").into_iter().map(String::from).collect()
}

#[test]
fn mig_devices_spread_over_gpus_or_stay_together() {
    let (pool, topology) = (parts(&[7, 7, 7], 1), islands(&[3]));
    let spread = |taken: &[&str], size| chosen(&pool, &topology, taken, size, Policy::Distributed);
    let packed = |taken: &[&str], size| chosen(&pool, &topology, taken, size, Policy::Packed);
    assert_eq!(spread(&[], 3), ["0/0::0", "1/0::0", "2/0::0"]);
    assert_eq!(packed(&[], 3), ["0/0::0", "0/1::0", "0/2::0"]);
    assert_eq!(spread(&["0/3::0", "2/1::0"], 2), ["1/0::0", "0/0::0"]);
    assert_eq!(packed(&["0/3::0", "2/1::0", "2/2::0"], 2), ["2/0::0", "2/3::0"]);
}

#[test]
fn shares_of_mig_devices_go_by_the_part_first() {
    let (pool, topology) = (parts(&[2, 2], 2), islands(&[2]));
    let spread = chosen(&pool, &topology, &[], 4, Policy::Distributed);
    assert_eq!(spread, ["0/0::0", "1/0::0", "0/1::0", "1/1::0"], "every part once, GPUs in turn");
    let packed = chosen(&pool, &topology, &["1/1::0"], 4, Policy::Packed);
    assert_eq!(packed, ["1/1::1", "1/0::0", "1/0::1", "0/0::0"], "one part, then its GPU, then the other");
}

#[test]
fn shares_of_a_lost_gpu_come_last() {
    let pool = parts(&[1, 1], 4);
    let alone = Topology::new([GpuIndex(1)], |_, _| {
        Some(carve_gpu_host::Link { pci: carve_gpu_host::PciPath::SameBoard, nvlinks: 0 })
    });
    for policy in [Policy::Distributed, Policy::Packed] {
        let answer = chosen(&pool, &alone, &["1/0::0", "1/0::1"], 2, policy);
        assert_eq!(answer, ["1/0::2", "1/0::3"]);
        assert_eq!(chosen(&pool, &alone, &["1/0::0", "1/0::1"], 3, policy)[2], "0/0::0");
    }
}

#[test]
fn the_choice_is_told() {
    let (pool, topology) = (parts(&[1, 1], 4), islands(&[2]));
    let mut available = all(&pool);
    available.push(DeviceId::new("2/0::0"));
    let must_include = [DeviceId::new("1/0::3")];
    let mut request = Request {
        pool: &pool,
        topology: &topology,
        available: &available,
        must_include: &must_include,
        size: 4,
        kind: Kind::Parts(Policy::Packed),
    };
    let told = |request: &Request<'_>| choose(request).expect("an answer").explanation.to_string();
    assert_eq!(
        told(&request),
        "4 devices of GPU 1: packed, the most used first; 1 had to be included; \
         1 name of a free device is not known here"
    );
    request.must_include = &[];
    request.available = &available[..8];
    request.size = 3;
    request.kind = Kind::Parts(Policy::Distributed);
    assert_eq!(told(&request), "2 devices of GPU 0 and 1 of GPU 1: spread, the least used first");
    // Shares are no whole GPUs, whatever they are taken for.
    request.kind = Kind::WholeGpus;
    assert_eq!(told(&request), "2 devices of GPU 0 and 1 of GPU 1: spread, the least used first");
}
