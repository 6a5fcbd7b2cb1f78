//! Prints how long jobs wait for MIG instances under every policy, beside published figures of other systems in another harness.

use carve_simulator::mig_queue::{Costs, Outcome, Policy, jobs, simulate};

/// Mean over seeds of what one policy does.
fn mean(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(of).sum::<f64>() / outcomes.len().max(1) as f64
}

fn main() {
    for (title, first) in [("seeds 20260914 to 20260933", 20_260_914), ("seeds 1 to 20", 1)] {
        println!("500 jobs on 2 × 4 H100, {title}; means over seeds, in seconds");
        println!(
            "{:42} {:>8} {:>7} {:>6} {:>9} {:>9} {:>10} {:>6}",
            "policy", "wait", "", "better", "p95", "worst 7g", "makespan", "made"
        );
        let traces: Vec<_> = (first..first + 20).map(jobs::generate).collect();
        let mut base: Vec<Outcome> = Vec::new();
        for (name, policy) in Policy::ALL {
            let outcomes: Vec<Outcome> =
                traces.iter().filter_map(|jobs| simulate(jobs, 8, policy, Costs::PUBLISHED)).collect();
            if base.is_empty() {
                base.clone_from(&outcomes);
            }
            let wait = mean(&outcomes, Outcome::mean_wait_ms);
            let change = 100.0 * (wait / mean(&base, Outcome::mean_wait_ms) - 1.0);
            let pairs = outcomes.iter().zip(&base);
            let better = pairs.filter(|(one, other)| one.mean_wait_ms() < other.mean_wait_ms()).count();
            println!(
                "{name:42} {:8.0} {change:+6.2}% {better:6} {:9.0} {:9.0} {:10.0} {:6.0}",
                wait / 1000.0,
                mean(&outcomes, |outcome| outcome.p95_wait_ms() as f64) / 1000.0,
                mean(&outcomes, |outcome| outcome.worst_wait_ms("7g.80gb") as f64) / 1000.0,
                mean(&outcomes, |outcome| outcome.makespan_ms as f64) / 1000.0,
                mean(&outcomes, |outcome| outcome.made as f64),
            );
        }
        println!();
    }
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
            println!("{:42} {:8.0}   (this simulator, the same jobs)", name, outcome.mean_wait_ms() / 1000.0);
        }
    }
}
