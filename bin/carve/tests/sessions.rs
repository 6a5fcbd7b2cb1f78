//! Every session under `sessions/`, played against the built program.

use carve_test_support::check_session;
use std::path::Path;

fn session(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    let state = tempfile::tempdir().expect("a temporary folder");
    check_session(Path::new(env!("CARGO_BIN_EXE_carve")), &folder.join(name), state.path());
}

#[test]
fn first_five_minutes() {
    session("first-five-minutes.txt");
}

#[test]
fn gpus_claims() {
    session("gpus-claims.txt");
}

#[test]
fn mig_apply_and_back() {
    session("mig-apply-and-back.txt");
}

#[test]
fn mig_refusals() {
    session("mig-refusals.txt");
}

#[test]
fn machines() {
    session("machines.txt");
}

#[test]
fn bench() {
    session("bench.txt");
}

#[test]
fn advise() {
    session("advise.txt");
}

#[test]
fn cost() {
    session("cost.txt");
}

#[test]
fn advise_refusals() {
    session("advise-refusals.txt");
}

#[test]
fn plan() {
    session("plan.txt");
}

#[test]
fn plan_refusals() {
    session("plan-refusals.txt");
}

#[test]
fn validate() {
    session("validate.txt");
}

#[test]
fn karpenter() {
    session("karpenter.txt");
}

#[test]
fn dra() {
    session("dra.txt");
}

#[test]
fn run() {
    session("run.txt");
}

#[test]
fn simulate() {
    session("simulate.txt");
}

#[test]
fn policy() {
    session("policy.txt");
}

#[test]
fn every_session_is_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    let mut texts: Vec<String> = std::fs::read_dir(folder)
        .expect("the sessions")
        .map(|entry| entry.expect("a session").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".txt"))
        .collect();
    texts.sort();
    let played = [
        "advise-refusals.txt",
        "advise.txt",
        "bench.txt",
        "cost.txt",
        "dra.txt",
        "first-five-minutes.txt",
        "gpus-claims.txt",
        "karpenter.txt",
        "machines.txt",
        "mig-apply-and-back.txt",
        "mig-refusals.txt",
        "plan-refusals.txt",
        "plan.txt",
        "policy.txt",
        "run.txt",
        "simulate.txt",
        "validate.txt",
    ];
    assert_eq!(texts, played);
}
