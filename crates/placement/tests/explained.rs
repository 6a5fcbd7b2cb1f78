//! Decisions are told: why here, why not there.

use carve_gpu_model::Mebibytes;
use carve_placement::{
    Claim, CpuMilli, Fleet, GpuMilli, Mechanisms, Misfit, Models, NodeShape, Placer, Policy, Together,
    Typical, Workload, explain,
};

fn shape(fleet: &mut Fleet, model: &str, gpus: u8, cores: u64) -> NodeShape {
    NodeShape {
        model: fleet.model(model).unwrap(),
        gpus,
        gpu_memory: Mebibytes(40_960),
        cpu: CpuMilli(cores * 1000),
        memory: Mebibytes(262_144),
        pods: 110,
        mechanisms: Mechanisms::ANY,
        numa: (0..gpus).map(|gpu| gpu / 4).collect(),
        islands: Vec::new(),
    }
}

fn fleet() -> Fleet {
    let mut fleet = Fleet::new();
    for (name, model, gpus, cores) in
        [("small", "T4", 1, 8), ("large", "A100", 8, 96), ("larger", "A100", 8, 128), ("poor", "A100", 4, 2)]
    {
        let shape = shape(&mut fleet, model, gpus, cores);
        fleet.add(name, shape).unwrap();
    }
    fleet
}

fn workload() -> Workload {
    let half = Claim::part(GpuMilli(500), CpuMilli(4000), Mebibytes(8192));
    let whole = Claim::whole(1, CpuMilli(12_000), Mebibytes(8192));
    Workload::new(vec![Typical { claim: half, part: 0.5 }, Typical { claim: whole, part: 0.5 }])
}

#[test]
fn a_choice_names_its_reason_and_the_others_theirs() {
    let mut fleet = fleet();
    let mut placer = Placer::new(Policy::BidPrice, &fleet, &workload(), 0);
    let claim = Claim {
        models: fleet.models_named(["A100"]),
        ..Claim::part(GpuMilli(500), CpuMilli(4000), Mebibytes(8192))
    };
    let spot = placer.decide(&fleet, &claim).unwrap();
    let told = explain(&mut placer, &fleet, &claim);
    assert_eq!(told.chosen.unwrap().spot, spot, "what is explained is what is done");
    assert_eq!(told.fitting, 2);
    let refused: Vec<(Misfit, usize)> =
        told.refused.iter().map(|refused| (refused.misfit, refused.nodes)).collect();
    assert_eq!(refused, [(Misfit::Model, 1), (Misfit::Cpu, 1)]);
    let words = told.words(&fleet);
    assert!(words.starts_with("large, GPU 0: the room it takes there is worth 0.5"), "{words}");
    assert!(words.contains("1 node: another GPU model, such as T4."), "{words}");
    assert!(words.contains("1 node: less than 4 cores left; the nearest is poor with 2 cores."), "{words}");
    fleet.place(&claim, spot);
    assert_eq!(placer.decide(&fleet, &claim).unwrap(), spot, "the other half of the same GPU");
}

#[test]
fn nowhere_says_what_is_missing() {
    let fleet = fleet();
    let mut placer = Placer::new(Policy::Fgd, &fleet, &workload(), 0);
    let claim = Claim { together: Together::Numa, ..Claim::whole(8, CpuMilli(8000), Mebibytes(1024)) };
    let told = explain(&mut placer, &fleet, &claim);
    assert!(told.chosen.is_none());
    let words = told.words(&fleet);
    assert!(words.starts_with("No node has room for it.\n"), "{words}");
    assert!(words.contains("2 nodes: fewer than 8 free GPUs; the nearest is poor with 4."), "{words}");
    assert!(words.contains("2 nodes: 8 free GPUs, but not close enough to each other."), "{words}");
}

#[test]
fn gpus_of_one_claim_are_as_close_as_it_asks() {
    let fleet = fleet();
    let mut placer = Placer::new(Policy::FirstFit, &fleet, &workload(), 0);
    let mut occupied = fleet.clone();
    let first = Claim::whole(3, CpuMilli(1000), Mebibytes(0));
    let spot = placer.decide(&occupied, &first).unwrap();
    occupied.place(&first, spot);
    let two = Claim { together: Together::Numa, ..Claim::whole(2, CpuMilli(1000), Mebibytes(0)) };
    let spot = placer.decide(&occupied, &two).unwrap();
    assert_eq!(occupied.name(spot.node), "large");
    assert_eq!(spot.gpus.iter().collect::<Vec<_>>(), [4, 5], "GPU 3 has no free neighbour on its NUMA node");
    let any = Claim { together: Together::Node, ..two };
    assert_eq!(placer.decide(&occupied, &any).unwrap().gpus.iter().collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn gpu_memory_counts_beside_compute() {
    let mut fleet = fleet();
    let mut placer = Placer::new(Policy::BidPrice, &fleet, &workload(), 0);
    let models = fleet.models_named(["T4"]);
    let most = Claim {
        gpu_memory: Mebibytes(30_000),
        models,
        ..Claim::part(GpuMilli(100), CpuMilli(100), Mebibytes(0))
    };
    let spot = placer.decide(&fleet, &most).unwrap();
    fleet.place(&most, spot);
    assert!(placer.decide(&fleet, &most).is_none(), "compute is left, memory is not");
    let rest = Claim { gpu_memory: Mebibytes(10_000), ..most };
    assert!(placer.decide(&fleet, &rest).is_some());
    let nowhere = Claim { models: Models::NONE, ..rest };
    assert!(placer.decide(&fleet, &nowhere).is_none());
}
