//! The manifests that are shipped say what the code needs.

use carve_formats::workloads::{Dialect, resource_names};
use serde_json::Value;
use std::collections::BTreeSet;

const RIGHTS: &str = include_str!("../../../examples/controller/rbac.yaml");
const SCHEDULER: &str = include_str!("../../../examples/controller/scheduler.yaml");

#[test]
fn the_scheduler_looks_for_no_resource_that_only_quotas_count() {
    let first = SCHEDULER.split("\n---\n").next().expect("a ConfigMap");
    let map: Value = serde_saphyr::from_str(first).expect("YAML");
    let text = map["data"]["config.yaml"].as_str().expect("a text");
    let config: Value = serde_saphyr::from_str(text).expect("YAML");
    let managed = config["extenders"][0]["managedResources"].as_array().expect("a list");
    let named = |ignored: bool| -> BTreeSet<String> {
        let of = |one: &&Value| (one["ignoredByScheduler"] == true) == ignored;
        managed.iter().filter(of).map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    };
    // The device plugin's are taken out of pods; ours the scheduler counts.
    let counted = ["carve.dev/slice", "carve.dev/memory", "carve.dev/compute"];
    let left =
        resource_names().filter(|(name, dialect)| *dialect != Dialect::Nvidia && !counted.contains(name));
    assert_eq!(named(true), left.map(|(name, _)| name.to_owned()).collect());
    assert_eq!(named(false), BTreeSet::from(["carve.dev/slice".to_owned()]));
}

/// Pods that stand in for others are the controller's own: it makes and deletes none elsewhere, and no class of priority but theirs is changed.
#[test]
fn the_controller_makes_pods_in_its_namespace_only() {
    let documents: Vec<Value> =
        RIGHTS.split("\n---\n").map(|text| serde_saphyr::from_str(text).expect("YAML")).collect();
    let allowed = |kind: &str, resource: &str, verb: &str| -> Vec<Value> {
        let has = |list: &Value, word: &str| list.as_array().expect("a list").iter().any(|one| one == word);
        let roles = documents.iter().filter(|document| document["kind"] == kind);
        let rules = roles.flat_map(|role| role["rules"].as_array().expect("rules"));
        let fits = rules.filter(|rule| has(&rule["resources"], resource) && has(&rule["verbs"], verb));
        fits.map(|rule| rule["resourceNames"].clone()).collect()
    };
    for verb in ["create", "delete"] {
        assert!(allowed("ClusterRole", "pods", verb).is_empty(), "{verb}");
        assert_eq!(allowed("Role", "pods", verb), [Value::Null], "{verb}");
    }
    for verb in ["create", "patch"] {
        let named = [serde_json::json!(["carve-stand-in"])];
        assert_eq!(allowed("ClusterRole", "priorityclasses", verb), named, "{verb}");
    }
    for verb in ["delete", "update", "*"] {
        assert!(allowed("ClusterRole", "priorityclasses", verb).is_empty(), "{verb}");
    }
}

/// Whoever installs the dashboard gives the controller nothing but looks.
#[test]
fn the_dashboard_changes_nothing() {
    const DASHBOARD: &str = include_str!("../../../examples/controller/dashboard.yaml");
    let documents: Vec<Value> =
        DASHBOARD.split("\n---\n").map(|text| serde_saphyr::from_str(text).expect("YAML")).collect();
    let rules = documents.iter().filter_map(|document| document["rules"].as_array()).flatten();
    let verbs: BTreeSet<&str> =
        rules.flat_map(|rule| rule["verbs"].as_array().expect("verbs")).filter_map(Value::as_str).collect();
    assert_eq!(verbs, BTreeSet::from(["get", "list", "watch"]));
    // Numbers of pictures are a process's own, so only the leader is asked.
    let service = documents.iter().find(|document| document["kind"] == "Service").expect("a Service");
    assert_eq!(service["spec"]["selector"]["carve.dev/leader"], "true");
}
