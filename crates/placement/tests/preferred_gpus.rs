//! Whole GPUs are chosen by how they are connected: against every possible set, and on machines people have.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod machines;

use carve_gpu_host::{GpuHost, Link, Machine, PciPath, SimulatedHost};
use carve_gpu_model::GpuIndex;
use carve_placement::preferred::{
    Candidate, DeviceId, Kind, PartId, Pool, Request, Topology, choose, preferred,
};
use machines::{chosen, dgx1_v100, islands, names, whole};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert_eq, proptest};

const PATHS: [PciPath; 6] = [
    PciPath::SameBoard,
    PciPath::OneSwitch,
    PciPath::SeveralSwitches,
    PciPath::HostBridge,
    PciPath::SameNode,
    PciPath::AcrossNodes,
];

/// A random machine, and what kubelet could ask about it.
#[derive(Debug, Clone)]
struct Case {
    /// `table[from][to]`.
    table: Vec<Vec<Option<Link>>>,
    available: Vec<u32>,
    must_include: Vec<u32>,
    size: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    // Few different values, so that ties and lost GPUs are common.
    let link = (0..14usize, 0..4u32).prop_map(|(path, nvlinks)| {
        let nvlinks = if nvlinks < 2 { 0 } else { nvlinks * 6 };
        PATHS.get(path / 2).map(|pci| Link { pci: *pci, nvlinks })
    });
    (2..=10usize)
        .prop_flat_map(move |count| {
            let row = proptest::collection::vec(link.clone(), count);
            let table = proptest::collection::vec(row, count);
            let masks = (any::<u16>(), any::<u16>(), any::<u16>());
            (Just(count), table, masks, proptest::bool::weighted(0.3), 0..=count)
        })
        .prop_map(|(count, drawn, (free, must, lost), some_lost, size)| {
            // The same in both directions; a lost GPU has no link, not even with itself.
            let link = |from: usize, to: usize| {
                let gone = some_lost && [from, to].iter().any(|gpu| lost >> gpu & 3 == 3);
                let here = Link { pci: PciPath::SameBoard, nvlinks: 0 };
                if from == to { Some(here) } else { drawn[from.min(to)][from.max(to)] }.filter(|_| !gone)
            };
            let table = (0..count).map(|from| (0..count).map(|to| link(from, to)).collect()).collect();
            let all = 0..count as u32;
            let available: Vec<u32> = all.clone().filter(|gpu| free >> gpu & 1 == 1 || count < 6).collect();
            // Now and then one that is not named as free.
            let must_include: Vec<u32> = all.filter(|gpu| must >> gpu & 3 == 3).collect();
            let union =
                available.iter().chain(&must_include).collect::<std::collections::BTreeSet<_>>().len();
            let size = size.clamp(must_include.len(), union);
            Case { table, available, must_include, size }
        })
}

/// Every set looked at, and judged by what was promised rather than by how the search counts.
fn exhaustive(case: &Case, topology: &Topology) -> Vec<u32> {
    let count = case.table.len() as u32;
    let sums = |set: &[u32]| {
        let mut sums = (0u64, 0u64);
        for (number, from) in set.iter().enumerate() {
            for to in &set[number + 1..] {
                if let Some(link) = topology.link(GpuIndex(*from), GpuIndex(*to)) {
                    let steps = PATHS.iter().rev().position(|path| *path == link.pci).expect("a path");
                    sums = (sums.0 + u64::from(link.nvlinks), sums.1 + 1 + steps as u64);
                }
            }
        }
        sums
    };
    let mut best: Option<((i64, _, _), Vec<u32>)> = None;
    for mask in 0u32..1 << count {
        let (set, rest): (Vec<u32>, Vec<u32>) = (0..count)
            .filter(|gpu| case.available.contains(gpu) || case.must_include.contains(gpu))
            .partition(|gpu| mask >> gpu & 1 == 1);
        let legal = set.len() == case.size && case.must_include.iter().all(|gpu| set.contains(gpu));
        if mask.count_ones() as usize != case.size || !legal {
            continue;
        }
        let lost = set.iter().filter(|gpu| topology.is_lost(GpuIndex(**gpu))).count();
        let score = (-(lost as i64), sums(&set), sums(&rest));
        let better = match &best {
            None => true,
            Some((than, other)) => score > *than || score == *than && set < *other,
        };
        if better {
            best = Some((score, set));
        }
    }
    best.expect("some set is legal").1
}

proptest! {
    // Ties down to the last criterion are rare.
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_set_is_better(case in cases()) {
        let topology = Topology::from_table(&case.table);
        let mut ours = chosen(&topology, &case.available, &case.must_include, case.size);
        prop_assert_eq!(&ours[..case.must_include.len()], &case.must_include[..]);
        ours.sort_unstable();
        prop_assert_eq!(ours, exhaustive(&case, &topology));
    }

    #[test]
    fn the_order_of_the_question_does_not_matter(case in cases()) {
        let topology = Topology::from_table(&case.table);
        let forwards = chosen(&topology, &case.available, &case.must_include, case.size);
        let backwards: Vec<u32> = case.available.iter().rev().chain(&case.available).copied().collect();
        prop_assert_eq!(forwards, chosen(&topology, &backwards, &case.must_include, case.size));
    }
}

#[test]
fn a_dgx1_gives_its_doubled_links() {
    let machine = dgx1_v100();
    let every: Vec<u32> = (0..8).collect();
    // The first five agree with NVIDIA's allocator.
    assert_eq!(chosen(&machine, &[0, 1, 3], &[], 2), [0, 3], "two NVLinks rather than one");
    assert_eq!(chosen(&machine, &[0, 1, 4], &[], 2), [0, 4], "even across CPUs");
    assert_eq!(chosen(&machine, &every, &[4], 4), [4, 5, 6, 7]);
    assert_eq!(chosen(&machine, &every, &[0, 2, 4, 6], 4), [0, 2, 4, 6]);
    assert_eq!(chosen(&machine, &[0, 4, 5, 6], &[], 2), [5, 6], "as many as 0 and 4 have, and nearer");
    // NVIDIA's takes 4 and 5 with a single NVLink here, to leave 0 and 2 with another.
    assert_eq!(chosen(&machine, &[0, 2, 4, 5], &[], 2), [0, 4], "the container that asks comes first");
}

#[test]
fn islands_are_not_broken_for_one_gpu() {
    let pairs = islands(&[2, 2, 2, 2]);
    assert_eq!(chosen(&pairs, &[0, 1, 2, 3, 5, 6, 7], &[], 1), [5], "4 is in use: 5 has no partner to lose");
    assert_eq!(chosen(&pairs, &[0, 1, 3, 5, 6, 7], &[], 2), [0, 1]);
    let unequal = islands(&[4, 4]);
    assert_eq!(chosen(&unequal, &[0, 1, 2, 3, 6, 7], &[], 2), [6, 7], "the island that is broken already");
    assert_eq!(chosen(&unequal, &[0, 1, 2, 3, 5, 6, 7], &[], 1), [5]);
    assert_eq!(chosen(&unequal, &[0, 1, 2, 4, 5, 6, 7], &[], 3), [0, 1, 2]);
}

#[test]
fn what_is_left_counts_beside_what_is_required() {
    // With GPU 0 required, 1 and 2 are as good as 3 and 4; taking 1 and 2 leaves 12 NVLinks, 3 and 4 leaves 15.
    let nvlinks = [(0, 1, 6), (0, 2, 6), (3, 4, 12), (1, 5, 5), (1, 6, 5), (2, 7, 5)];
    let topology = Topology::new((0..8).map(GpuIndex), |from, to| {
        let found = nvlinks.iter().find(|(one, other, _)| (*one, *other) == (from.0, to.0));
        Some(Link { pci: PciPath::HostBridge, nvlinks: found.map_or(0, |(_, _, count)| *count) })
    });
    assert_eq!(chosen(&topology, &(0..8).collect::<Vec<u32>>(), &[0], 3), [0, 3, 4]);
}

/// The links of a simulated machine, as an agent reads them.
fn read(host: &SimulatedHost) -> Topology {
    let gpus = host.gpus().expect("GPUs");
    Topology::new(gpus.iter().map(|gpu| gpu.index), |from, to| host.link(from, to).ok())
}

#[test]
fn behind_switches_the_numa_node_decides() {
    let host = SimulatedHost::new(Machine::named("p4d.24xlarge").expect("a preset"));
    let topology = read(&host);
    let every: Vec<u32> = (0..8).collect();
    assert_eq!(chosen(&topology, &every, &[], 4), [0, 1, 2, 3]);
    assert_eq!(chosen(&topology, &every, &[6], 4), [6, 4, 5, 7]);
    assert_eq!(chosen(&topology, &[0, 1, 2, 3, 5, 6, 7], &[], 1), [5], "four of one node stay together");
    assert_eq!(chosen(&topology, &[0, 1, 2, 5, 6, 7], &[5], 3), [5, 6, 7]);
}

#[test]
fn a_lost_gpu_is_taken_last() {
    let mut host = SimulatedHost::new(Machine::named("p4d.24xlarge").expect("a preset"));
    host.lose(GpuIndex(2));
    let topology = read(&host);
    let every: Vec<u32> = (0..8).collect();
    assert!(topology.is_lost(GpuIndex(2)) && !topology.is_lost(GpuIndex(3)));
    for size in 1..=7 {
        let answer = chosen(&topology, &every, &[], size);
        assert!(!answer.contains(&2), "{size} without GPU 2: {answer:?}");
    }
    assert_eq!(chosen(&topology, &every, &[], 4), [4, 5, 6, 7], "GPU 2's node can not give four");
    assert_eq!(chosen(&topology, &every, &[], 8), [0, 1, 2, 3, 4, 5, 6, 7], "all there is");
    assert_eq!(chosen(&topology, &every, &[2], 2)[0], 2, "required all the same");
}

#[test]
fn a_gpu_that_the_driver_dropped_is_lost_too() {
    let here = Link { pci: PciPath::SeveralSwitches, nvlinks: 0 };
    let topology = Topology::new([0, 1, 3].map(GpuIndex), |_, _| Some(here));
    assert!(topology.is_lost(GpuIndex(2)));
    let pool = whole(4);
    let available = names(&[2, 3]);
    let request = Request {
        pool: &pool,
        topology: &topology,
        available: &available,
        must_include: &[],
        size: 1,
        kind: Kind::WholeGpus,
    };
    assert_eq!(preferred(&request), Ok(names(&[3])));
    // One that answers about itself alone, while the others know each other.
    let mute = Topology::new((0..3).map(GpuIndex), |from, to| {
        (from == to || from != GpuIndex(1) && to != GpuIndex(1)).then_some(here)
    });
    assert!(mute.is_lost(GpuIndex(1)) && !mute.is_lost(GpuIndex(0)));
    // Where nobody knows a link, nobody is lost.
    let silent = Topology::new((0..3).map(GpuIndex), |from, to| (from == to).then_some(here));
    assert!((0..3).all(|gpu| !silent.is_lost(GpuIndex(gpu))));
}

#[test]
fn numa_nodes_stand_in_for_unknown_links() {
    let here = Link { pci: PciPath::SameBoard, nvlinks: 0 };
    let topology = Topology::new((0..4).map(GpuIndex), |from, to| (from == to).then_some(here));
    let pool = Pool::new((0..4).map(|gpu| Candidate {
        id: machines::name(gpu),
        part: PartId::new(format!("GPU-{gpu}")),
        gpu: GpuIndex(gpu),
        numa: Some(gpu % 2),
    }));
    let available = names(&[0, 1, 2, 3]);
    let mut request = Request {
        pool: &pool,
        topology: &topology,
        available: &available,
        must_include: &[],
        size: 2,
        kind: Kind::WholeGpus,
    };
    assert_eq!(preferred(&request), Ok(names(&[0, 2])));
    request.available = &available[1..];
    assert_eq!(preferred(&request), Ok(names(&[1, 3])));
}

#[test]
fn more_than_sixteen_gpus_fill_whole_islands() {
    // 8 of 32 are ten million sets: too many to look at each.
    let topology = islands(&[8, 8, 8, 8]);
    let every: Vec<u32> = (0..32).collect();
    assert_eq!(chosen(&topology, &every, &[], 8), (0..8).collect::<Vec<u32>>());
    let without: Vec<u32> = every.iter().copied().filter(|gpu| ![1, 9, 25].contains(gpu)).collect();
    assert_eq!(chosen(&topology, &without, &[], 8), (16..24).collect::<Vec<u32>>(), "the only whole one");
    assert_eq!(
        chosen(&topology, &without, &[], 15),
        [0, 2, 3, 4, 5, 6, 7].into_iter().chain(16..24).collect::<Vec<u32>>()
    );
    let broken: Vec<u32> = every.iter().copied().filter(|gpu| ![17, 18].contains(gpu)).collect();
    assert_eq!(chosen(&topology, &broken, &[], 6), [16, 19, 20, 21, 22, 23], "the broken island");
    assert_eq!(chosen(&topology, &every, &[20], 8)[0], 20);
    let mut around = chosen(&topology, &every, &[20], 8);
    around.sort_unstable();
    assert_eq!(around, (16..24).collect::<Vec<u32>>());
    let mut lost: Vec<u32> = chosen(&islands(&[20]), &(0..20).collect::<Vec<u32>>(), &[], 10);
    lost.dedup();
    assert_eq!(lost, (0..10).collect::<Vec<u32>>(), "of equals the lowest numbers");
}

/// The sentence for a question about whole GPUs.
fn told(topology: &Topology, available: &[u32], must_include: &[u32], size: usize) -> String {
    let pool = whole(topology.gpus().len() as u32);
    let (available, must_include) = (names(available), names(must_include));
    let request = Request {
        pool: &pool,
        topology,
        available: &available,
        must_include: &must_include,
        size,
        kind: Kind::WholeGpus,
    };
    let choice = choose(&request).expect("an answer");
    assert_eq!(preferred(&request), Ok(choice.devices));
    choice.explanation.to_string()
}

#[test]
fn the_choice_is_told() {
    let pairs = islands(&[2, 2, 2]);
    assert_eq!(told(&pairs, &[1, 2, 3, 4], &[], 2), "GPUs 2 and 3: 12 NVLinks between them");
    assert_eq!(
        told(&pairs, &[1, 2, 3, 4], &[], 3),
        "GPUs 1, 2 and 3: 0 to 12 NVLinks between every two, at the farthest across NUMA nodes"
    );
    assert_eq!(told(&pairs, &[1, 2, 3], &[], 1), "GPU 1: the other GPUs are connected best without it");
    assert_eq!(
        told(&pairs, &[1, 2, 4, 5], &[1], 2),
        "GPUs 1 and 2: no NVLink between them, across NUMA nodes; 1 had to be included"
    );
    assert_eq!(told(&pairs, &[1, 2], &[], 2), "GPUs 1 and 2: nothing else was free");
    assert_eq!(told(&pairs, &[0, 1, 2], &[1], 1), "GPU 1: all had to be included");
    assert_eq!(
        told(&islands(&[16, 16]), &(0..32).collect::<Vec<u32>>(), &[], 16),
        "GPUs 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 and 15: 12 NVLinks between every two \
         (not every set was looked at)"
    );
    let mut host = SimulatedHost::new(Machine::named("p4d.24xlarge").expect("a preset"));
    host.lose(GpuIndex(4));
    assert_eq!(
        told(&read(&host), &[2, 3, 4, 5], &[], 2),
        "GPUs 2 and 3: 12 NVLinks between them; GPU 4 is lost, and left alone"
    );
    assert_eq!(
        told(&read(&host), &[3, 4], &[4], 2),
        "GPUs 3 and 4: nothing else was free; 1 had to be included; GPU 4 is lost, and taken all the same"
    );
}

#[test]
fn what_can_not_be_answered_is_said() {
    let topology = islands(&[4]);
    let pool = whole(4);
    let mut available = names(&[0, 1, 2]);
    available.push(DeviceId::new("GPU-of-last-year"));
    let must_include = names(&[0, 3]);
    let mut request = Request {
        pool: &pool,
        topology: &topology,
        available: &available,
        must_include: &must_include,
        size: 5,
        kind: Kind::WholeGpus,
    };
    let said = |request: &Request<'_>| preferred(request).expect_err("no answer").to_string();
    assert_eq!(
        said(&request),
        "cannot choose 5 devices for a container: only 4 can be chosen (1 more was named that this resource does \
         not have); the container has to wait until others release theirs, or ask for fewer"
    );
    request.size = 1;
    assert_eq!(
        said(&request),
        "cannot choose devices for a container: 2 devices must be included, but only 1 may be chosen; the question \
         contradicts itself, so compare kubelet's device checkpoint with the pods that run here"
    );
    request.size = 4;
    assert_eq!(preferred(&request), Ok(names(&[0, 3, 1, 2])), "3 must be included though it is not free");
    request.size = 0;
    request.must_include = &[];
    assert_eq!(preferred(&request), Ok(Vec::new()));
    let strange = [DeviceId::new("GPU-of-last-year")];
    request.must_include = &strange;
    request.size = 2;
    let answer = preferred(&request).expect("an answer");
    assert_eq!(
        answer,
        [strange[0].clone(), machines::name(0)],
        "what must be included comes back as it came"
    );
}
