//! The study that is kept in `docs/study`: its pages are what its figures give, a second run agrees with it, and what is said of it is so. `UPDATE_STUDY=1` writes the
//! pages anew.

use carve_study::{Strategy, Study, Workload, compare, report};
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study")
}

fn study(name: &str) -> Study {
    let path = folder().join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Study::read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_pages_are_what_the_figures_give() {
    let study = study("h200.json");
    let mut files = vec![(folder().join("h200.md"), report::markdown(&study, "h200"))];
    files.extend(report::pictures(&study).into_iter().map(|picture| {
        let path = folder().join("h200").join(format!("{}.svg", picture.name));
        (path, picture.svg)
    }));
    if std::env::var_os("UPDATE_STUDY").is_some() {
        for (path, text) in &files {
            fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
    for (path, text) in &files {
        let found = fs::read_to_string(path).unwrap_or_default();
        assert!(
            found == *text,
            "{} is not what h200.json gives; UPDATE_STUDY=1 writes it anew",
            path.display()
        );
    }
    let drawn = fs::read_dir(folder().join("h200")).expect("the pictures' folder").count();
    assert_eq!(drawn, files.len() - 1, "a picture that no page shows");
}

#[test]
fn a_second_run_agrees_within_the_spreads() {
    for (first, second) in [("h200.json", "h200-again.json"), ("repeated-first.json", "repeated-second.json")]
    {
        let comparison = compare(&study(first), &study(second));
        assert!(comparison.lines.len() >= 139, "{comparison}");
        assert!(comparison.agrees().expect("figures in both") >= 0.97, "{comparison}");
    }
}

/// What `docs/study/README.md` says came as expected.
#[test]
fn directions_are_those_that_were_expected() {
    for name in ["h200.json", "h200-again.json", "repeated-first.json", "repeated-second.json"] {
        let study = study(name);
        assert!(!study.card.simulated && study.card.name.contains("H200"), "{:?}", study.card);
        let gain = |workload, strategy, tenants| {
            let shared = study.shared(workload, strategy, tenants).expect("it was measured");
            shared.total.median / study.dedicated(workload).expect("it was measured").total.median
        };
        let each = gain(Workload::Batch, Strategy::TimeSlicing, 4) / 4.0;
        assert!((0.70..0.80).contains(&each), "each of four jobs keeps {each} under time-slicing");
        let each = gain(Workload::Batch, Strategy::Mps, 4) / 4.0;
        assert!(each > 0.95, "each of four jobs keeps {each} under MPS");
        assert!(gain(Workload::Light, Strategy::Mps, 4) > 3.0);
        assert!(
            gain(Workload::Light, Strategy::Mps, 4) > 1.3 * gain(Workload::Light, Strategy::TimeSlicing, 4)
        );
        for strategy in [Strategy::TimeSlicing, Strategy::Mps] {
            let shared = study.shared(Workload::Heavy, strategy, 4).expect("it was measured");
            let rates: Vec<f64> = shared.tenants.iter().map(|tenant| tenant.rate.median).collect();
            let (least, most) =
                (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().copied().fold(0.0, f64::max));
            assert!(least / most > 0.97, "{strategy:?}: {rates:?}");
        }
    }
}
