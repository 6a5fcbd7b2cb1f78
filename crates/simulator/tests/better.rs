//! carve's own policy against the best published one, on seeds that nothing was tuned on.

mod traces;

use carve_placement::Policy;
use carve_simulator::Trace;
use carve_simulator::arrivals;
use carve_simulator::filling::{Filled, Size, fill};
use traces::{NAMES, trace};

/// Allocated percent, percent arrived at the first failure, failures of claims for several GPUs.
fn figures(trace: &Trace, filled: &Filled) -> [f64; 3] {
    let several = filled.failures(trace).into_iter().filter(|(size, _)| matches!(size, Size::Several(_)));
    let several: u64 = several.map(|(_, count)| count).sum();
    [filled.allocated(), filled.first_failure(trace).unwrap_or(130.0), several as f64]
}

#[test]
fn on_every_trace_more_is_allocated_nothing_fails_earlier_and_large_claims_fail_less() {
    let seeds = 52_u64..72;
    let mut table = String::new();
    let (mut gains, mut bad) = (Vec::new(), 0);
    for name in NAMES {
        let Some(trace) = trace(name) else { return };
        let mut mean = [[0.0; 3]; 2];
        for seed in seeds.clone() {
            let sequence = arrivals::generate(&trace, seed, 130);
            for (policy, mean) in [Policy::Fgd, Policy::BidPrice].into_iter().zip(&mut mean) {
                let figures = figures(&trace, &fill(&trace, &sequence, policy).unwrap());
                for (sum, figure) in mean.iter_mut().zip(figures) {
                    *sum += figure / (seeds.end - seeds.start) as f64;
                }
            }
        }
        let [theirs, ours] = mean;
        table.push_str(&format!(
            "{name:12} allocated {:.2} against {:.2}, first failure at {:.2} against {:.2}, large claims lost {:.2} against {:.2}\n",
            ours[0], theirs[0], ours[1], theirs[1], ours[2], theirs[2]
        ));
        gains.push(ours[0] - theirs[0]);
        bad += usize::from(ours[0] <= theirs[0] || ours[1] < theirs[1] || ours[2] > theirs[2]);
    }
    let gain = gains.iter().sum::<f64>() / gains.len() as f64;
    println!("{table}mean gain {gain:.3} points");
    assert_eq!(bad, 0, "{table}");
    assert!(gain >= 0.3, "{gain:.3} points on the mean of all\n{table}");
}
