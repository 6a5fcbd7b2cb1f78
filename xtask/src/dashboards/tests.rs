//! Dashboards and rules name only what is told, every alert says what to do, and the files are what is made here.

use super::{Dashboard, all};
use crate::root;
use serde_json::Value;
use std::collections::BTreeSet;

/// Every series that a program can tell: made of what they answer, and held to it where they are.
fn told() -> BTreeSet<String> {
    let page = read("docs/reference/metrics.md");
    let names =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next().map(str::to_owned));
    names.collect()
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn rules() -> Vec<Value> {
    let file: Value = serde_saphyr::from_str(&read("monitoring/prometheus/carve-alerts.yaml")).unwrap();
    let groups = file["groups"].as_array().unwrap().iter();
    groups.flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// Every alert, by name.
fn alerts() -> Vec<(String, Value)> {
    rules().into_iter().filter_map(|rule| Some((rule["alert"].as_str()?.to_owned(), rule))).collect()
}

/// Names of series in a query.
fn series(query: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let words = query.split(|letter| !is_part(letter));
    words
        .filter(|word| {
            word.starts_with("carve_") || word.starts_with("carve:") || word.starts_with("DCGM_FI_")
        })
        .map(str::to_owned)
        .collect()
}

/// Everything that dashboards and rules ask.
fn queries() -> Vec<String> {
    let mut queries: Vec<String> =
        rules().iter().filter_map(|rule| Some(rule["expr"].as_str()?.to_owned())).collect();
    for dashboard in all().iter().map(Dashboard::json) {
        for panel in dashboard["panels"].as_array().unwrap() {
            let targets = panel["targets"].as_array().into_iter().flatten();
            queries.extend(targets.filter_map(|target| Some(target["expr"].as_str()?.to_owned())));
        }
        let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
        queries.extend(variables.filter_map(|one| Some(one["definition"].as_str()?.to_owned())));
    }
    queries
}

#[test]
fn files_are_what_is_made_here() {
    for (path, text) in all().iter().map(Dashboard::file) {
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{}: `cargo xtask dashboards` writes it anew", path.display());
    }
}

#[test]
fn dashboards_can_be_loaded_anywhere_and_say_what_they_show() {
    for dashboard in all().iter().map(Dashboard::json) {
        let (name, text) = (dashboard["uid"].as_str().unwrap(), dashboard.to_string());
        for leftover in ["${DS_", "__inputs", "__requires", "\"id\":null"] {
            assert!(!text.contains(leftover), "{name}: {leftover}");
        }
        let mut ids = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = format!("{name}: {}", panel["title"]);
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: two panels with one id");
            let place = &panel["gridPos"];
            assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{title}: {place}");
            if panel["type"] == "row" {
                continue;
            }
            assert!(panel["description"].as_str().is_some_and(|says| !says.is_empty()), "{title}");
            assert!(panel["targets"].as_array().is_some_and(|targets| !targets.is_empty()), "{title}");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}

#[test]
fn whatever_is_asked_for_is_told() {
    let recorded: BTreeSet<String> =
        rules().iter().filter_map(|rule| Some(rule["record"].as_str()?.to_owned())).collect();
    let told = told();
    let asked: BTreeSet<String> = queries().iter().flat_map(|query| series(query)).collect();
    assert!(asked.len() > 30, "{asked:?}");
    for name in asked.iter().filter(|name| !recorded.contains(*name)) {
        // A histogram is asked for by its parts.
        let whole = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        assert!(told.contains(whole.unwrap_or(name)), "no program tells {name}");
    }
}

#[test]
fn pages_name_only_series_that_are_told() {
    let told = told();
    let mut named = BTreeSet::new();
    for page in carve_test_support::book::pages(&root().join("docs")).unwrap() {
        for name in series(&read(&format!("docs/{page}"))) {
            let is_ours = SUBJECTS
                .iter()
                .any(|subject| name.strip_prefix(subject).is_some_and(|rest| !rest.is_empty()));
            if is_ours {
                assert!(told.contains(&name), "docs/{page}: no program tells {name}");
                named.insert(name);
            }
        }
    }
    assert!(named.len() > 50, "{named:?}");
}

/// What series are about; other words that begin with `carve_` are names of crates.
const SUBJECTS: [&str; 7] = [
    "carve_agent_",
    "carve_container_",
    "carve_controller_",
    "carve_cost_",
    "carve_fleet_",
    "carve_gpu_",
    "carve_node_",
];

#[test]
fn every_alert_says_what_to_do_and_is_tried() {
    let runbook = read("docs/operations/alerts.md");
    let tried = read("monitoring/prometheus/carve-alerts.test.yaml");
    let alerts = alerts();
    for (name, rule) in &alerts {
        let said = &rule["annotations"];
        assert!(said["summary"].as_str().is_some_and(|text| text.len() > 20), "{name}");
        assert!(said["description"].as_str().is_some_and(|text| text.len() > 120), "{name}");
        let severity = rule["labels"]["severity"].as_str().unwrap_or_default();
        assert!(["critical", "warning", "info"].contains(&severity), "{name}: {severity}");
        let section = format!("docs/operations/alerts.md#{}", name.to_lowercase());
        assert_eq!(said["runbook_url"], section.as_str(), "{name}");
        assert!(
            runbook.contains(&format!("\n## {name}\n")),
            "docs/operations/alerts.md has no section {name}"
        );
        assert!(tried.contains(&format!("- name: {name}\n")), "carve-alerts.test.yaml does not try {name}");
    }
    let sections: BTreeSet<&str> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let names: BTreeSet<&str> = alerts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(sections, names);
}
