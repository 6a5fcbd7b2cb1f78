//! The bounds of the linear programme on the published traces.

mod traces;

use carve_placement::{Claim, bounds};
use traces::{sequences, trace};

#[test]
fn the_bounds_are_those_known() {
    // Percent of all GPUs: what can all be accepted, and what can be filled by choosing.
    for (name, all, chosen) in [("default", 96.30, 99.88), ("gpushare100", 88.18, 91.58)] {
        let Some(trace) = trace(name) else { return };
        let sequence = &sequences(name, &trace).unwrap()[0];
        let fleet = trace.fleet(sequence.nodes.iter().copied()).unwrap();
        let claims = trace.claims(&fleet);
        let arriving: Vec<Claim> = sequence.pods.iter().map(|pod| claims[*pod]).collect();
        let gpus = fleet.gpus() as f64;
        let most = bounds::selective(&fleet, &arriving).expect("an end") * 100.0 / gpus;
        assert!((most - chosen).abs() < 0.02, "{name}: {most:.2} by choosing");
        let count = bounds::accepting_all(&fleet, &arriving, 8).expect("an end");
        let asked: u64 = arriving[..count].iter().map(Claim::total).sum();
        let accepted = asked as f64 / 10.0 / gpus;
        assert!((accepted - all).abs() < 0.15, "{name}: {accepted:.2} accepted");
    }
}
