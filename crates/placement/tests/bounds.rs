//! No policy does better than the bounds say is possible.

use carve_gpu_model::Mebibytes;
use carve_placement::{
    Claim, CpuMilli, Fleet, GpuMilli, Mechanisms, NodeShape, Placer, Policy, Typical, Workload, bounds,
};
use proptest::prelude::{Strategy, any, prop_assert, proptest};

fn fleet(nodes: &[(u8, u64)]) -> Fleet {
    let mut fleet = Fleet::new();
    let model = fleet.model("A").unwrap();
    for (index, (gpus, cores)) in nodes.iter().enumerate() {
        let shape = NodeShape {
            model,
            gpus: *gpus,
            // Alike but for the memory of their GPUs: pooled all the same.
            gpu_memory: Mebibytes(if index % 2 == 0 { 20_480 } else { 40_960 }),
            cpu: CpuMilli(cores * 1000),
            memory: Mebibytes(1 << 20),
            pods: 110,
            mechanisms: Mechanisms::ANY,
            numa: Vec::new(),
            islands: Vec::new(),
        };
        fleet.add(&format!("node-{index}"), shape).unwrap();
    }
    fleet
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    // Parts that are no whole hundredths, and memory that binds before compute does.
    let part = (1_u16..1000, 0_u64..8, 0_u64..30_000).prop_map(|(compute, cores, memory)| Claim {
        gpu_memory: Mebibytes(memory),
        ..Claim::part(GpuMilli(compute), CpuMilli(cores * 1000), Mebibytes(64))
    });
    let whole = (1_u8..5, 0_u64..16)
        .prop_map(|(gpus, cores)| Claim::whole(gpus, CpuMilli(cores * 1000), Mebibytes(64)));
    let third = any::<bool>().prop_map(|third| {
        let compute = GpuMilli(if third { 333 } else { 250 });
        Claim::part(compute, CpuMilli(500), Mebibytes(64))
    });
    proptest::collection::vec(proptest::prop_oneof![part, whole, third], 1..40)
}

proptest! {
    #[test]
    fn nothing_gets_past_them(
        nodes in proptest::collection::vec((1_u8..3, proptest::prop_oneof![proptest::prelude::Just(16_u64), 4_u64..64]), 1..6),
        claims in claims(),
        policy in 0_usize..Policy::ALL.len(),
    ) {
        let mut fleet = fleet(&nodes);
        let untouched = fleet.clone();
        let part = 1.0 / claims.len() as f64;
        let workload = Workload::new(claims.iter().map(|claim| Typical { claim: *claim, part }).collect());
        let mut placer = Placer::new(Policy::ALL[policy], &fleet, &workload, 1);
        let (mut used, mut all) = (0, None);
        for (index, claim) in claims.iter().enumerate() {
            match placer.decide(&fleet, claim) {
                Some(spot) => {
                    fleet.place(claim, spot);
                    used += claim.total();
                }
                None if all.is_none()
                    && untouched.nodes().any(|node| untouched.fits(node, claim).is_ok()) => all = Some(index),
                None => {}
            }
        }
        let most = bounds::selective(&untouched, &claims).expect("an end");
        prop_assert!(used as f64 / 1000.0 <= most + 1e-3, "{used} in use, at most {most}");
        let accepted = bounds::accepting_all(&untouched, &claims, 1).expect("an end");
        let reached = all.unwrap_or(claims.len());
        prop_assert!(reached <= accepted, "{reached} accepted, at most {accepted}");
    }
}
