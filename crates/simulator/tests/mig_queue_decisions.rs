//! Decisions on a queue of MIG jobs, one by one: always legal, final, and made of nothing but what has happened so far.

use carve_gpu_model::{Placed, Product, ProfileTable};
use carve_simulator::mig_queue::jobs::{PROFILES, generate};
use carve_simulator::mig_queue::{Costs, Job, Moves, Order, Outcome, Policy, Start, simulate};
use proptest::prelude::*;

fn table() -> ProfileTable {
    Product::by_key("h100-sxm-80gb").and_then(Product::profile_table).unwrap()
}

fn run(jobs: &[Job], gpus: usize, policy: Policy) -> Outcome {
    simulate(jobs, gpus, policy, Costs::PUBLISHED).unwrap()
}

/// A job of one of the benchmark's profiles, by its number of slices; times in seconds.
fn job(arrival_s: u64, slices: u64, run_s: u64) -> Job {
    let profile = [1, 2, 3, 7].iter().position(|of| *of == slices).unwrap();
    Job { id: 0, arrival_ms: 1000 * arrival_s, profile, run_ms: 1000 * run_s }
}

/// Everything a run may not do: start a job twice, never or before it came, let instances overlap, or take one from a job that runs.
fn check(jobs: &[Job], outcome: &Outcome) {
    let table = table();
    let placed = |start: &Start| {
        let (profile, _) = table.by_name(&PROFILES[jobs[start.job].profile].name.parse().unwrap()).unwrap();
        Placed { profile, start: start.slot }
    };
    let end = |start: &Start| start.start_ms + jobs[start.job].run_ms;
    let mut started: Vec<usize> = outcome.starts.iter().map(|start| start.job).collect();
    started.sort_unstable();
    assert!(started.into_iter().eq(0..jobs.len()), "every job starts once");
    assert_eq!(outcome.starts.iter().map(end).max().unwrap_or(0), outcome.makespan_ms, "none is cut short");
    for (number, start) in outcome.starts.iter().enumerate() {
        assert!(jobs[start.job].arrival_ms <= start.decided_ms && start.decided_ms <= start.start_ms);
        assert_eq!(outcome.waits_ms[start.job], start.start_ms - jobs[start.job].arrival_ms);
        let earlier = outcome.starts[..number].iter();
        let running = earlier.filter(|other| other.gpu == start.gpu && end(other) > start.decided_ms);
        let mut together: Vec<Placed> = running.map(placed).collect();
        together.push(placed(start));
        assert!(table.check(&together).is_ok(), "{start:?} among {together:?}");
    }
}

fn without_moves() -> impl Iterator<Item = (&'static str, Policy)> {
    Policy::ALL.into_iter().filter(|(_, policy)| policy.moves == Moves::None)
}

#[test]
fn every_decision_on_the_benchmark_is_legal_and_final() {
    for seed in [1, 20_260_914] {
        let jobs = generate(seed);
        for (_, policy) in without_moves() {
            check(&jobs, &run(&jobs, 8, policy));
        }
    }
}

proptest! {
    #[test]
    fn every_decision_on_any_trace_is_legal_and_final_and_nobody_is_forgotten(
        drawn in prop::collection::vec((0u64..40, 0usize..4, 0u64..3_000), 1..60),
        gpus in 1usize..4,
    ) {
        let jobs: Vec<Job> = drawn
            .iter()
            .scan(0, |now, (gap, profile, run)| {
                *now += gap;
                Some(job(*now, [1, 2, 3, 7][*profile], *run))
            })
            .collect();
        for (_, policy) in without_moves() {
            check(&jobs, &run(&jobs, gpus, policy));
        }
    }
}

/// The trace with other run times for all jobs that have not ended at a time. They still do not end before it.
fn other_future(jobs: &[Job], outcome: &Outcome, cut_ms: u64) -> Vec<Job> {
    let mut changed = jobs.to_vec();
    for start in &outcome.starts {
        let job = &mut changed[start.job];
        if start.start_ms + job.run_ms >= cut_ms {
            let still = cut_ms.saturating_sub(start.start_ms);
            job.run_ms = still + 1 + (start.job as u64 * 7_919_000) % 3_000_017;
        }
    }
    changed
}

fn decided_before(outcome: &Outcome, cut_ms: u64) -> Vec<Start> {
    outcome.starts.iter().filter(|start| start.decided_ms < cut_ms).copied().collect()
}

#[test]
fn run_times_of_jobs_that_have_not_ended_change_no_decision() {
    let cuts = [0, 60_000, 600_000, 1_500_000, 4_000_000, 7_000_000, 9_000_000, 13_000_000];
    for seed in [1, 2, 20_260_914] {
        let jobs = generate(seed);
        for (name, policy) in Policy::ALL {
            let outcome = run(&jobs, 8, policy);
            let same = cuts.iter().all(|cut| {
                let other = run(&other_future(&jobs, &outcome, *cut), 8, policy);
                decided_before(&other, *cut) == decided_before(&outcome, *cut)
            });
            // The policies that know run times are found out, so the test can tell.
            assert_eq!(same, policy.order != Order::Short, "{name}, seed {seed}");
        }
    }
}

fn waits_s(jobs: &[Job]) -> Vec<u64> {
    run(jobs, 1, Policy::OURS).waits_ms.iter().map(|wait| wait / 1000).collect()
}

#[test]
fn a_1g_job_leaves_an_empty_right_half_alone_for_a_while_and_not_longer() {
    let seven: Vec<Job> = (0..7).map(|_| job(0, 1, 5_000)).collect();
    assert_eq!(waits_s(&seven), [0, 0, 0, 0, 900, 900, 900], "patience ends without any other event");
    let mut with_3g = seven.clone();
    with_3g.push(job(60, 3, 100));
    assert_eq!(waits_s(&with_3g), [0, 0, 0, 0, 900, 900, 900, 0], "the 3g finds its half");
    let mut with_2g = seven;
    with_2g.push(job(60, 2, 5_000));
    assert_eq!(
        waits_s(&with_2g),
        [0, 0, 0, 0, 60, 5_000, 5_000, 0],
        "a broken half is open to all: one takes the rest of it"
    );
}

#[test]
fn a_1g_job_leaves_a_pair_to_a_2g_job_that_waits() {
    let full = [job(0, 3, 9_000), job(0, 2, 9_000), job(0, 2, 100)];
    let then = |one: Job, other: Job| [full.as_slice(), &[one, other]].concat();
    let waits = waits_s(&then(job(10, 1, 500), job(20, 2, 500)));
    assert_eq!(waits[3..], [590, 80], "the pair comes free at 100 s, the 2g has it until 600 s");
    let first_fit = run(&then(job(10, 1, 500), job(20, 2, 500)), 1, Policy::FIRST_FIT);
    assert!(first_fit.waits_ms[3] < 100_000 && first_fit.waits_ms[4] > 500_000);
    let waits = waits_s(&then(job(10, 1, 500), job(20, 1, 500)));
    assert_eq!(waits[3..], [90, 80], "with no 2g waiting there is nothing to wait for");
}

#[test]
fn a_3g_job_takes_the_half_where_it_wastes_nothing_and_small_jobs_fill_up() {
    let jobs =
        [job(0, 3, 900), job(1, 2, 900), job(2, 1, 900), job(3, 1, 900), job(4, 3, 900), job(5, 1, 900)];
    let outcome = run(&jobs, 2, Policy::OURS);
    let places: Vec<(usize, u8)> = outcome.starts.iter().map(|start| (start.gpu, start.slot)).collect();
    assert_eq!(places, [(0, 4), (0, 0), (0, 2), (0, 3), (1, 4), (1, 0)]);
}
