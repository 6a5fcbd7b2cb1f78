//! What holds for every advice, on random fleets.

mod fleets;

use carve_advisor::{Advice, Class, Settings, Situation, advise};
use carve_gpu_model::{Geometry, Isolation, Mechanism, Mechanisms, Product, ProfileName};
use carve_planner::{feasible, wanted};
use fleets::{node, replica, workload};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const TYPES: [&str; 6] =
    ["g4dn.xlarge", "g4dn.2xlarge", "g4dn.12xlarge", "g5.2xlarge", "p5.4xlarge", "p4d.24xlarge"];

#[derive(Debug, Clone)]
struct Draw {
    node: prop::sample::Index,
    pods: usize,
    gpus: u8,
    percents: Vec<u32>,
    memory: u64,
    domain: u8,
    isolation: u8,
    class: u8,
    hours: i64,
    cpu: u64,
}

/// Mostly light, so that there is something to gather.
fn percents() -> impl Strategy<Value = Vec<u32>> {
    let light = prop::collection::vec(0_u32..30, 1..6);
    prop_oneof![3 => light, 1 => prop::collection::vec(0_u32..101, 1..6)]
}

fn draws() -> impl Strategy<Value = Draw> {
    let first = (any::<prop::sample::Index>(), 1_usize..4, 1_u8..3, percents());
    let rest = (
        500_u64..22_000,
        0_u8..3,
        0_u8..8,
        0_u8..8,
        prop_oneof![Just(10_i64), Just(24), Just(48)],
        0_u64..4000,
    );
    (first, rest).prop_map(
        |((node, pods, gpus, percents), (memory, domain, isolation, class, hours, cpu))| Draw {
            node,
            pods,
            gpus: if gpus == 2 && memory % 5 != 0 { 1 } else { gpus },
            percents,
            memory,
            domain,
            isolation,
            class,
            hours,
            cpu,
        },
    )
}

/// A cluster in which every pod has the GPUs it asks for.
fn situation(types: &[usize], draws: &[Draw]) -> Situation {
    let nodes: Vec<_> =
        types.iter().enumerate().map(|(index, kind)| node(&format!("node-{index}"), TYPES[*kind])).collect();
    let mut free: Vec<u8> = nodes.iter().map(|node| node.gpus).collect();
    let mut cpu: Vec<u64> = nodes.iter().map(|node| node.cpu_milli).collect();
    let mut memory: Vec<u64> = nodes.iter().map(|node| node.memory.0).collect();
    let mut workloads = Vec::new();
    for (index, draw) in draws.iter().enumerate() {
        let at = draw.node.index(nodes.len());
        let mut replicas = Vec::new();
        for pod in 0..draw.pods {
            if free[at] >= draw.gpus && cpu[at] >= draw.cpu && memory[at] >= 2048 {
                free[at] -= draw.gpus;
                cpu[at] -= draw.cpu;
                memory[at] -= 2048;
                let seen = draw.memory + pod as u64 * 100;
                let name = format!("w{index}-{pod}");
                replicas.push(replica(&name, &nodes[at].name, draw.hours, &draw.percents, seen));
            }
        }
        if replicas.is_empty() {
            continue;
        }
        let mut one = workload(&format!("ns-{}", draw.domain), &format!("w{index}"), replicas);
        one.whole_gpus = Some(draw.gpus);
        one.cpu_milli = draw.cpu;
        one.isolation = match draw.isolation {
            0 => Isolation::Performance,
            1 => Isolation::Fault,
            2 => Isolation::Tenant,
            _ => Isolation::Unstated,
        };
        one.class = Class::ALL.get(usize::from(draw.class)).copied();
        workloads.push(one);
    }
    Situation { nodes, workloads, ..Situation::default() }
}

/// Checks an advice against the situation alone, without knowing how it was made.
fn check(situation: &Situation, advice: &Advice, settings: &Settings) {
    let money = &advice.fleet.money;
    assert_eq!(money.saved_cents, money.now_cents - money.then_cents);
    assert!(money.saved_cents >= 0);
    let kept: BTreeSet<&str> = advice.fleet.kept.iter().map(|node| node.name.as_str()).collect();
    let freed: BTreeSet<&str> = advice.fleet.freed.iter().map(String::as_str).collect();
    assert!(kept.is_disjoint(&freed));
    assert_eq!(kept.len() + freed.len(), situation.nodes.len());
    let by_title: BTreeMap<String, usize> =
        situation.workloads.iter().enumerate().map(|(index, one)| (one.title(), index)).collect();
    for (workload, told) in situation.workloads.iter().zip(&advice.workloads) {
        let peak = workload
            .replicas
            .iter()
            .flat_map(|one| &one.memory)
            .map(|one| one.value.0.div_ceil(1 << 20))
            .max();
        if let (true, Some(memory), Some(peak)) = (told.advised.change, told.advised.memory_mib, peak) {
            assert!(memory * 100 >= peak * (100 + settings.margin_percent), "{told:#?}");
        }
        assert!(!told.reasons.is_empty());
    }
    if freed.is_empty() {
        assert_eq!(money.saved_cents, 0);
        return;
    }
    // Everybody has a place, on as many GPUs as it needs, with room for all who are there.
    let mut placed: BTreeMap<&str, usize> = BTreeMap::new();
    for then in &advice.fleet.kept {
        let node = situation.nodes.iter().find(|node| node.name == then.name).unwrap();
        let product = node.product.unwrap();
        let mut here: BTreeSet<&str> = BTreeSet::new();
        for gpu in &then.gpus {
            let domains: BTreeSet<&str> = gpu
                .parts
                .iter()
                .map(|part| situation.workloads[by_title[&part.workload]].domain.as_str())
                .collect();
            match gpu.mechanism.as_str() {
                "exclusive" => assert_eq!(gpu.parts.len(), 1),
                "MIG" => assert!(legal(product, gpu.parts.iter().filter_map(|part| part.profile.as_deref()))),
                "free" => assert!(gpu.parts.is_empty()),
                _ => {
                    assert_eq!(domains.len(), 1, "strangers share: {gpu:#?}");
                    let memory: u64 = gpu.parts.iter().filter_map(|part| part.memory_mib).sum();
                    assert!(memory <= product.memory().unwrap().value.0);
                    let compute: u16 = gpu.parts.iter().filter_map(|part| part.compute_percent).sum();
                    assert!(compute <= 100);
                }
            }
            for part in &gpu.parts {
                let workload = &situation.workloads[by_title[&part.workload]];
                if workload.isolation == Isolation::Tenant {
                    assert!(matches!(gpu.mechanism.as_str(), "exclusive" | "MIG"));
                }
                let was = workload.replicas.iter().find(|one| one.pod == part.pod).unwrap();
                let was = situation.nodes.iter().find(|node| node.name == was.node).unwrap();
                assert_eq!(was.product.unwrap().key, product.key);
                *placed.entry(part.pod.as_str()).or_default() += 1;
                here.insert(part.pod.as_str());
            }
        }
        let cpu: u64 = situation
            .workloads
            .iter()
            .map(|one| {
                one.cpu_milli
                    * one.replicas.iter().filter(|pod| here.contains(pod.pod.as_str())).count() as u64
            })
            .sum();
        assert!(cpu <= node.cpu_milli);
    }
    for (workload, told) in situation.workloads.iter().zip(&advice.workloads) {
        for pod in &workload.replicas {
            let gpus = told.advised.gpus.unwrap_or(1);
            assert_eq!(placed.get(pod.pod.as_str()), Some(&usize::from(gpus)), "{}", pod.pod);
        }
    }
}

fn legal<'a>(product: &Product, profiles: impl Iterator<Item = &'a str>) -> bool {
    let geometry: Geometry = profiles.map(|name| (name.parse::<ProfileName>().unwrap(), 1)).collect();
    let table = product.profile_table().unwrap();
    let wanted = wanted(&table, geometry.iter().map(|(name, count)| (name, u64::from(count))));
    wanted.is_ok_and(|wanted| feasible(&table, &wanted).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn every_advice_is_sound(
        types in prop::collection::vec(0_usize..TYPES.len(), 1..8),
        draws in prop::collection::vec(draws(), 0..24),
        without in 0_u8..5,
    ) {
        let situation = situation(&types, &draws);
        let mechanisms = match without {
            0 => Mechanisms::ANY,
            1 => Mechanisms::ANY.without(Mechanism::Mig),
            2 => Mechanisms::ANY.without(Mechanism::Mps).without(Mechanism::Limiter),
            3 => Mechanisms::NONE.with(Mechanism::TimeSlicing),
            _ => Settings::default().mechanisms,
        };
        let settings = Settings { mechanisms, ..Settings::default() };
        let advice = advise(&situation, &settings, &Default::default());
        check(&situation, &advice, &settings);
        prop_assert_eq!(&advise(&situation, &settings, &Default::default()), &advice, "the same twice");
    }
}
