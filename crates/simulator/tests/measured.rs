//! The figures of a run against the published ones, and against a small case by hand.

mod traces;

use carve_gpu_model::Mebibytes;
use carve_placement::{Claim, CpuMilli, GpuMilli, Policy};
use carve_simulator::arrivals::Sequence;
use carve_simulator::filling::fill;
use carve_simulator::measured::{TurnedAway, measure};
use carve_simulator::{Trace, TraceNode, TracePod};
use carve_test_support::fixture_text;
use traces::{sequences, trace};

/// The published figure of a run when so many percent had arrived.
fn published(table: &str, name: &str, policy: &str, seed: u64, percent: &str) -> f64 {
    let column = table.lines().next().unwrap().split(',').position(|name| name == percent).unwrap();
    let key = format!("openb_pod_list_{name},{policy},1.3,{seed},");
    let line = table.lines().find(|line| line.starts_with(&key)).expect("a published line");
    line.split(',').nth(column).unwrap().parse().unwrap()
}

#[test]
fn fragmentation_and_allocation_follow_the_published_curves() {
    let Some(fragmentation) = fixture_text("traces/fgd-expected/analysis_frag_ratio_discrete.csv") else {
        return;
    };
    let allocation = fixture_text("traces/fgd-expected/analysis_allo_discrete.csv").unwrap();
    for name in ["default", "gpuspec33", "multigpu50", "gpushare100"] {
        let trace = trace(name).unwrap();
        for sequence in &sequences(name, &trace).unwrap()[..2] {
            for (policy, theirs) in [
                (Policy::Fgd, "06-FGD"),
                (Policy::BestFit, "05-BestFit"),
                (Policy::Clustering, "03-GpuClustering"),
            ] {
                let filled = fill(&trace, sequence, policy).unwrap();
                let run = measure(&trace, policy, sequence.seed, &filled).unwrap();
                assert_eq!(run.curve.len(), 131, "{name}");
                for percent in [20, 60, 90, 100, 130] {
                    let point = run.curve[percent as usize];
                    assert_eq!(point.arrived, percent);
                    let of =
                        |table: &str| published(table, name, theirs, sequence.seed, &percent.to_string());
                    let (rate, used) = (of(&fragmentation), of(&allocation));
                    // Theirs is the mean of the arrivals half a percent around, ours the last one of them.
                    let near = if percent == 130 { 0.02 } else { 1.0 };
                    assert!(
                        (point.fragmentation - rate).abs() < near,
                        "{name} {policy} {percent}: {point:?}, {rate}"
                    );
                    assert!(
                        (point.allocated - used).abs() < near,
                        "{name} {policy} {percent}: {point:?}, {used}"
                    );
                }
                assert_eq!(run.allocated_at_100, Some(run.curve[100].allocated));
                assert!((run.allocated - filled.allocated()).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn a_small_run_by_hand() {
    let node = |name: &str, gpus: u8| TraceNode {
        name: name.to_owned(),
        cpu: CpuMilli(8000),
        memory: Mebibytes(1000),
        gpus,
        gpu_memory: Mebibytes(0),
        model: String::new(),
    };
    let (cpu, memory) = (CpuMilli(1000), Mebibytes(1));
    let claims = [
        Claim::part(GpuMilli(500), cpu, memory),
        Claim::whole(2, cpu, memory),
        Claim::whole(8, cpu, memory),
        Claim::cpu_only(CpuMilli(9000), memory),
        Claim::whole(1, cpu, memory),
    ];
    let pods = claims.iter().enumerate().map(|(index, claim)| TracePod {
        name: format!("p{index}"),
        claim: *claim,
        mig: Default::default(),
        models: String::new(),
        created: None,
        deleted: None,
        node: None,
    });
    let trace = Trace { nodes: vec![node("a", 2), node("b", 2)], pods: pods.collect() };
    // Half of one GPU, two whole, eight (nowhere), nine cores (nowhere), two whole again: only one is left on each node.
    let sequence = Sequence { seed: 3, pods: vec![0, 1, 2, 3, 1, 4, 4], nodes: vec![0, 1] };
    let filled = fill(&trace, &sequence, Policy::FirstFit).unwrap();
    let run = measure(&trace, Policy::FirstFit, 3, &filled).unwrap();
    assert_eq!(run.turned_away, TurnedAway { cpu_only: 1, part: 0, one: 1, several: 1, eight: 1 });
    assert_eq!(run.turned_away.total(), 4);
    // Asked for: 0.5 + 2 + 8 + 2 + 1 + 1 of 4. In use: 0.5 + 2 + 1.
    assert!((run.arrived - 362.5).abs() < 1e-9 && (run.allocated - 87.5).abs() < 1e-9, "{run:?}");
    // The first that fits an untouched node and is turned away is the second of two GPUs, after 0.5 + 2 + 8 + 2.
    assert_eq!(run.first_failure, Some(312.5));
    assert_eq!(run.free_gpus, 0);
    // Up to 12 % nothing had arrived, up to 62 % the half GPU, up to 262 % two more.
    let at = |percent: usize| run.curve[percent].allocated;
    assert_eq!((at(0), at(12), at(13), at(62), at(63), at(362)), (0.0, 0.0, 12.5, 12.5, 62.5, 87.5));
    assert_eq!(run.allocated_at_100, Some(62.5));
    // What is left is half a GPU: of five kinds, only the half one could use it; the CPU-only kind counts as one that can not.
    assert!((run.fragmentation - 80.0).abs() < 1e-9, "{}", run.fragmentation);
}
