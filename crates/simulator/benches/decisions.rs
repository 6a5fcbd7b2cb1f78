//! How long decisions take: the published experiment, and fleets that grow to 100,000 nodes.
//!
//! `cargo bench -p carve-simulator --bench decisions` prints processor time of whole runs, and for each size of fleet the
//! percentiles of one decision and the memory of the process. Machines differ; the growth does not.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use carve_placement::{Dice, Placer, Policy};
use carve_simulator::arrivals::{self, Sequence};
use carve_simulator::filling::fill;
use carve_simulator::{Trace, TraceNode, openb};
use carve_test_support::fixture_text;
use std::time::{Duration, Instant};

/// Fleets as many times as large as the published one.
const TIMES: [usize; 5] = [1, 2, 8, 33, 83];
/// Decisions that are timed, at a fleet that is filled to about this part.
const TIMED: usize = 20_000;
const FILLED: f64 = 0.9;

fn main() {
    let (Some(nodes), Some(pods)) = (
        fixture_text("traces/openb_node_list_gpu_node.csv"),
        fixture_text("traces/openb_pod_list_default.csv"),
    ) else {
        return;
    };
    let trace = Trace {
        nodes: openb::nodes(&nodes).expect("a node list"),
        pods: openb::pods(&pods).expect("a pod list"),
    };
    let sequence = arrivals::generate(&trace, 42, 130);
    println!("one run of {} arrivals on {} nodes, processor time:", sequence.pods.len(), trace.nodes.len());
    for policy in [Policy::BestFit, Policy::Fgd, Policy::BidPrice] {
        let mut times: Vec<Duration> = (0..5).map(|_| run(&trace, &sequence, policy)).collect();
        times.sort();
        println!("  {policy:10} {:6.1} ms", times[2].as_secs_f64() * 1000.0);
    }
    println!("one decision at about {:.0} % filled, wall time:", FILLED * 100.0);
    println!("  policy     nodes     prices      p50      p99    worst   whole fill   resident");
    for policy in [Policy::Fgd, Policy::BidPrice] {
        for times in TIMES {
            grow(&trace, times, policy);
        }
    }
}

fn run(trace: &Trace, sequence: &Sequence, policy: Policy) -> Duration {
    let start = processor_time();
    let filled = fill(trace, sequence, policy).expect("a run");
    assert!(filled.allocated() > 90.0);
    processor_time() - start
}

fn grow(trace: &Trace, times: usize, policy: Policy) {
    let copy = |number: usize| {
        trace
            .nodes
            .iter()
            .map(move |node| TraceNode { name: format!("{}-{number}", node.name), ..node.clone() })
    };
    let large = Trace { nodes: (0..times).flat_map(copy).collect(), pods: trace.pods.clone() };
    let mut fleet = large.fleet(0..large.nodes.len()).expect("a fleet");
    let claims = large.claims(&fleet);
    let workload = large.workload(&fleet);
    let start = Instant::now();
    let mut placer = Placer::new(policy, &fleet, &workload, 0);
    let prices = start.elapsed();
    let mut dice = Dice::new(7);
    let most = (fleet.gpus() as f64 * 1000.0 * FILLED) as u64;
    let mut used = 0;
    let start = Instant::now();
    while used < most {
        let claim = &claims[dice.below(claims.len())];
        if let Some(spot) = placer.decide(&fleet, claim) {
            fleet.place(claim, spot);
            used += claim.total();
        }
    }
    let filling = start.elapsed();
    // What comes goes again, so that the fleet stays as full.
    let mut taken: Vec<Duration> = Vec::with_capacity(TIMED);
    for _ in 0..TIMED {
        let claim = &claims[dice.below(claims.len())];
        let start = Instant::now();
        let spot = placer.decide(&fleet, claim);
        taken.push(start.elapsed());
        if let Some(spot) = spot {
            fleet.place(claim, spot);
            fleet.release(claim, spot);
        }
    }
    taken.sort();
    let at = |part: f64| taken[(part * (taken.len() - 1) as f64) as usize].as_secs_f64() * 1e6;
    println!(
        "  {policy:10} {:6} {:7.0} ms {:5.1} µs {:5.1} µs {:5.0} µs {:9.2} s {:6} MiB",
        fleet.len(),
        prices.as_secs_f64() * 1000.0,
        at(0.5),
        at(0.99),
        at(1.0),
        filling.as_secs_f64(),
        resident() / 1024
    );
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanoseconds)
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}
