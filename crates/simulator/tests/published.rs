//! The published experiment: 17 traces, 10 arrival sequences each, every policy but the random one, to the printed digit; and
//! two runs decision by decision.

mod traces;

use carve_placement::Policy;
use carve_simulator::arrivals;
use carve_simulator::filling::fill;
use carve_test_support::fixture_text;
use traces::{NAMES, sequences, trace, unpacked};

#[test]
fn every_policy_gives_the_published_allocation() {
    let mut wrong = Vec::new();
    let Some(expected) = fixture_text("traces/fgd-expected/analysis_allo_discrete.csv") else { return };
    let column = expected.lines().next().unwrap().split(',').position(|name| name == "130").unwrap();
    for name in NAMES {
        let trace = trace(name).unwrap();
        let sequences = sequences(name, &trace).unwrap();
        assert_eq!(sequences.len(), 10);
        for (policy, published) in [
            (Policy::Fgd, "06-FGD"),
            (Policy::BestFit, "05-BestFit"),
            (Policy::Packing, "04-GpuPacking"),
            (Policy::Clustering, "03-GpuClustering"),
            (Policy::DotProduct, "02-DotProd"),
        ] {
            for sequence in &sequences {
                let key = format!("openb_pod_list_{name},{published},1.3,{},", sequence.seed);
                let line = expected.lines().find(|line| line.starts_with(&key)).expect("a published line");
                let expected: f64 = line.split(',').nth(column).unwrap().parse().unwrap();
                let filled = fill(&trace, sequence, policy).unwrap();
                let ours = filled.allocated_at(130).unwrap();
                if (ours - expected).abs() > 0.0051 {
                    wrong.push(format!("{name} {policy} {}: {ours:.4}, published {expected}", sequence.seed));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of 850 differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_decision_of_two_runs_is_the_recorded_one() {
    let Some(trace) = trace("default") else { return };
    let sequences = sequences("default", &trace).unwrap();
    for (policy, name) in [(Policy::Fgd, "FGD"), (Policy::BestFit, "BestFit")] {
        let recorded = unpacked(&format!("traces/referee/placements_default_{name}_seed42.csv.gz")).unwrap();
        let filled = fill(&trace, &sequences[0], policy).unwrap();
        let recorded: Vec<&str> = recorded.lines().skip(1).collect();
        assert_eq!(recorded.len(), filled.decisions.len());
        for (index, (decided, recorded)) in filled.decisions.iter().zip(recorded).enumerate() {
            let cells: Vec<&str> = recorded.split(',').collect();
            let (node, gpu) = match decided.spot {
                None => ("", -1),
                Some(spot) => {
                    let part = trace.pods[decided.pod].claim.is_part();
                    let gpu = spot.gpus.iter().next().filter(|_| part).map_or(-1, |gpu| gpu as i64);
                    (filled.fleet.name(spot.node), gpu)
                }
            };
            let ours = format!(
                "{index},{},{node},{gpu},{},{}",
                trace.pods[decided.pod].name, decided.used, decided.arrived
            );
            let theirs = format!(
                "{},{},{},{},{},{}",
                cells[0],
                cells[1],
                if cells[2] == "-1" { "" } else { cells[2] },
                cells[3],
                cells[4],
                cells[5]
            );
            assert_eq!(ours, theirs, "{policy}, decision {index}");
        }
    }
}

#[test]
fn sequences_of_our_own_lie_within_the_published_spread() {
    let Some(expected) = fixture_text("traces/fgd-expected/analysis_allo_discrete.csv") else { return };
    let column = expected.lines().next().unwrap().split(',').position(|name| name == "130").unwrap();
    for name in ["default", "gpushare60", "multigpu50", "gpuspec33", "cpu250"] {
        let trace = trace(name).unwrap();
        for (policy, published) in
            [(Policy::Fgd, "06-FGD"), (Policy::BestFit, "05-BestFit"), (Policy::Random, "01-Random")]
        {
            let key = format!("openb_pod_list_{name},{published},");
            let lines = expected.lines().filter(|line| line.starts_with(&key));
            let figures: Vec<f64> =
                lines.map(|line| line.split(',').nth(column).unwrap().parse().unwrap()).collect();
            assert_eq!(figures.len(), 10);
            let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
            let most = figures.iter().copied().fold(0.0, f64::max);
            let runs = (1000..1010).map(|seed| {
                fill(&trace, &arrivals::generate(&trace, seed, 130), policy).unwrap().allocated()
            });
            let mean = runs.sum::<f64>() / 10.0;
            assert!(
                (least..=most).contains(&mean),
                "{name} {policy}: a mean of {mean:.3}, published from {least:.2} to {most:.2}"
            );
        }
    }
}
