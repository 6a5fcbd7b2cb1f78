//! A placer that remembers decides as one that looks at the whole fleet anew, through arrivals, departures and failures.

use carve_gpu_model::Mebibytes;
use carve_placement::{
    Claim, CpuMilli, Fleet, GpuMilli, Mechanisms, ModelId, Models, NodeIndex, NodeShape, Placer, Policy,
    Spot, Typical, Workload,
};
use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};

#[derive(Debug, Clone)]
enum Step {
    Arrive(usize),
    Leave(usize),
    Fail(usize),
    Return(usize),
}

fn claims() -> Vec<Claim> {
    let (cpu, memory) = (CpuMilli(4000), Mebibytes(8192));
    let mut claims = vec![
        Claim::cpu_only(CpuMilli(16_000), memory),
        Claim::part(GpuMilli(810), cpu, memory),
        Claim::part(GpuMilli(470), CpuMilli(11_000), memory),
        Claim::part(GpuMilli(160), cpu, memory),
        Claim::whole(1, CpuMilli(11_000), memory),
        Claim::whole(2, CpuMilli(20_000), memory),
        Claim::whole(4, CpuMilli(40_000), memory),
    ];
    claims.push(Claim { models: Models::NONE.with(ModelId(1)), ..claims[4] });
    claims.push(Claim { gpu_memory: Mebibytes(20_000), ..claims[3] });
    claims
}

fn fleet(nodes: usize) -> Fleet {
    let mut fleet = Fleet::new();
    let models = [fleet.model("A").unwrap(), fleet.model("B").unwrap()];
    for node in 0..nodes {
        let shape = NodeShape {
            model: models[usize::from(node % 3 == 0)],
            gpus: [1, 2, 4][node % 3],
            gpu_memory: Mebibytes(40_960),
            cpu: CpuMilli([8_000, 64_000, 48_000][node % 3]),
            memory: Mebibytes(131_072),
            pods: 110,
            mechanisms: Mechanisms::ANY,
            numa: Vec::new(),
            islands: Vec::new(),
        };
        fleet.add(&format!("node-{node}"), shape).unwrap();
    }
    fleet
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => any::<usize>().prop_map(Step::Arrive),
        2 => any::<usize>().prop_map(Step::Leave),
        1 => any::<usize>().prop_map(Step::Fail),
        1 => any::<usize>().prop_map(Step::Return),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn nothing_is_overlooked(policy in 0_usize..Policy::ALL.len(), nodes in 1_usize..9, steps in steps()) {
        let policy = Policy::ALL[policy];
        if policy == Policy::Random {
            return Ok(());
        }
        let claims = claims();
        let part = 1.0 / claims.len() as f64;
        let workload = Workload::new(claims.iter().map(|claim| Typical { claim: *claim, part }).collect());
        let mut fleet = fleet(nodes);
        let mut placer = Placer::new(policy, &fleet, &workload, 0);
        let fresh = placer.clone();
        let mut placed: Vec<(Claim, Spot)> = Vec::new();
        for step in steps {
            match step {
                Step::Arrive(which) => {
                    let claim = claims[which % claims.len()];
                    let spot = placer.decide(&fleet, &claim);
                    prop_assert_eq!(spot, fresh.clone().decide(&fleet, &claim));
                    let possible = fleet.nodes().any(|node| fleet.fits(node, &claim).is_ok());
                    prop_assert_eq!(spot.is_some(), possible, "placed if and only if it fits somewhere");
                    if let Some(spot) = spot {
                        prop_assert_eq!(fleet.fits(spot.node, &claim), Ok(()));
                        fleet.place(&claim, spot);
                        placed.push((claim, spot));
                    }
                }
                Step::Leave(which) if !placed.is_empty() => {
                    let (claim, spot) = placed.swap_remove(which % placed.len());
                    fleet.release(&claim, spot);
                }
                Step::Leave(_) => {}
                Step::Fail(which) => fleet.set_present(NodeIndex((which % nodes) as u32), false),
                Step::Return(which) => fleet.set_present(NodeIndex((which % nodes) as u32), true),
            }
        }
        for (claim, spot) in placed {
            fleet.release(&claim, spot);
        }
        for node in fleet.nodes() {
            fleet.set_present(node, true);
            assert!(fleet.is_untouched(node), "everything given back leaves nothing behind");
        }
    }
}
