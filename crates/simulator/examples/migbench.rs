//! Prints how long jobs wait for MIG instances under every policy, beside published figures of other systems in another harness.
//!
//! `cargo run --release -p carve-simulator --example migbench [FIRST COUNT]`: without numbers the seeds of the document.

use carve_simulator::mig_queue::{Costs, Outcome, Policy, jobs, simulate};

/// Mean of a figure over seeds.
fn mean(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(of).sum::<f64>() / outcomes.len().max(1) as f64
}

/// The mean of the differences, seed by seed, and half of its 95 % confidence interval, in percent of the mean of the second.
fn change(ours: &[Outcome], base: &[Outcome], of: impl Fn(&Outcome) -> f64) -> (f64, f64) {
    let differences: Vec<f64> = ours.iter().zip(base).map(|(one, other)| of(one) - of(other)).collect();
    let number = differences.len().max(2) as f64;
    let middle = differences.iter().sum::<f64>() / number;
    let spread = differences.iter().map(|one| (one - middle).powi(2)).sum::<f64>() / (number - 1.0);
    let percent = 100.0 / mean(base, of);
    (percent * middle, percent * 1.96 * (spread / number).sqrt())
}

fn worst_7g(outcome: &Outcome) -> f64 {
    outcome.worst_wait_ms("7g.80gb") as f64 / 1000.0
}

fn wait(outcome: &Outcome) -> f64 {
    outcome.mean_wait_ms() / 1000.0
}

/// Prints one table; the first policy is what the others are compared with.
fn table(first: u64, count: u64, policies: &[(&str, Policy)]) {
    println!(
        "500 jobs on 2 × 4 H100, seeds {first} to {}; means over seeds, in seconds; changes with 95 % confidence",
        first + count - 1
    );
    println!(
        "{:42} {:>6} {:>15} {:>6} {:>6} {:>8} {:>15} {:>10} {:>9} {:>5}",
        "policy", "wait", "change", "better", "p95", "worst 7g", "change", "longest 7g", "makespan", "made"
    );
    let traces: Vec<_> = (first..first + count).map(jobs::generate).collect();
    let mut base: Vec<Outcome> = Vec::new();
    for (name, policy) in policies {
        let outcomes: Vec<Outcome> =
            traces.iter().filter_map(|jobs| simulate(jobs, 8, *policy, Costs::PUBLISHED)).collect();
        if base.is_empty() {
            base.clone_from(&outcomes);
        }
        let (by, give) = change(&outcomes, &base, wait);
        let (by_7g, give_7g) = change(&outcomes, &base, worst_7g);
        println!(
            "{name:42} {:6.0} {by:+7.2} ±{give:4.2} % {:6} {:6.0} {:8.0} {by_7g:+7.2} ±{give_7g:4.2} % {:10.0} {:9.0} {:5.0}",
            mean(&outcomes, wait),
            outcomes.iter().zip(&base).filter(|(one, other)| wait(one) < wait(other)).count(),
            mean(&outcomes, |outcome| outcome.p95_wait_ms() as f64) / 1000.0,
            mean(&outcomes, worst_7g),
            outcomes.iter().map(worst_7g).fold(0.0, f64::max),
            mean(&outcomes, |outcome| outcome.makespan_ms as f64) / 1000.0,
            mean(&outcomes, |outcome| outcome.made as f64),
        );
    }
    println!();
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let without_run_times = &Policy::ALL[..4];
    if let [first, count] = numbers[..] {
        return table(first, count, without_run_times);
    }
    table(20_260_914, 20, &Policy::ALL);
    table(1, 20, &Policy::ALL);
    // Seeds that nothing was tuned on, and those that ours was tuned on.
    table(2001, 100, without_run_times);
    table(1001, 400, without_run_times);
    let published =
        [("HAMi master 6c17a8f", 2874.5), ("HAMi 2.10.0", 2945.3), ("NVIDIA DRA driver 0.5.0", 2756.0)];
    println!(
        "published for seed 20260914, in another harness (a real control plane, with back-off): mean wait"
    );
    for (system, wait) in published {
        println!("{system:42} {wait:8.0}");
    }
    let one = jobs::generate(20_260_914);
    for (name, policy) in Policy::ALL {
        if let Some(outcome) = simulate(&one, 8, policy, Costs::PUBLISHED) {
            println!("{:42} {:8.0}   (this simulator, the same jobs)", name, wait(&outcome));
        }
    }
}
