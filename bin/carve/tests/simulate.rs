//! `carve simulate` on the published default trace, replayed from its recorded order of arrival.

use carve_test_support::fixtures;
use std::process::Command;

fn carve(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_carve")).args(arguments).output().expect("carve runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_published_run_prints_the_published_figures() {
    let (Some(trace), Some(sequence)) =
        (fixtures("traces/openb_pod_list_default.csv"), fixtures("traces/sequences/default.csv.gz"))
    else {
        return;
    };
    let (trace, sequence) = (trace.display().to_string(), sequence.display().to_string());
    let common = ["simulate", &trace, "--sequence", &sequence, "--policy", "fgd", "--seeds", "42"];
    let table = carve(&common);
    let row = table.lines().find(|line| line.starts_with("fgd ")).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[2], "95.29", "in use at the end: {table}");
    assert_eq!(cells[10], "99.58", "fragmented, as published: {table}");
    assert!(table.contains("accept all    96.3"), "{table}");
    assert!(table.contains("by choosing   99.88 %"), "{table}");

    let json = carve(&[&common[..], &["-o", "json", "--no-bounds"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let run = &json["runs"][0];
    let away = &run["turnedAway"];
    let total: u64 =
        ["cpuOnly", "part", "one", "several", "eight"].map(|size| away[size].as_u64().unwrap()).iter().sum();
    assert_eq!(total, 2532, "as the published log says: {away}");
    assert_eq!((run["arrivals"].as_u64(), json["gpus"].as_u64()), (Some(10_866), Some(6212)));
    assert_eq!(run["curve"].as_array().map(Vec::len), Some(131));
    assert!(json["bounds"].is_null());
}

#[test]
fn all_seeds_of_a_file_are_replayed_and_a_seed_it_lacks_is_named() {
    let (Some(trace), Some(sequence)) =
        (fixtures("traces/openb_pod_list_default.csv"), fixtures("traces/sequences/default.csv.gz"))
    else {
        return;
    };
    let (trace, sequence) = (trace.display().to_string(), sequence.display().to_string());
    let common = ["simulate", &trace, "--sequence", &sequence, "--policy", "best-fit", "-o", "csv"];
    let csv = carve(&common);
    let ends: Vec<String> = csv
        .lines()
        .skip(1)
        .map(|line| format!("{:.2}", line.split(',').nth(5).unwrap().parse::<f64>().unwrap()))
        .collect();
    let published =
        ["93.13", "93.25", "93.09", "93.14", "93.19", "93.04", "92.95", "93.21", "92.87", "92.89"];
    assert_eq!(ends, published);
    let output = Command::new(env!("CARGO_BIN_EXE_carve"))
        .args([&common[..], &["--seeds", "41"]].concat())
        .output()
        .expect("carve runs");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("no sequence for seed 41; it has 42, 43"), "{error}");
}
