//! The chart's values: every one is described and checked, none is checked that is not there, a wrong one is refused by its name, and none makes a pod
//! privileged but the agent's.

use carve_cluster_tests::{Cluster, PATIENCE, documents};
use carve_conformance::helm;
use carve_test_support::reference::{cell, check_page};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a root").join("charts/carve")
}

fn read(file: &str) -> String {
    let path = chart().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is wrong between values and their schema, below a path.
fn compare(path: &str, values: &Value, schema: &Value, wrong: &mut Vec<String>) {
    if schema["description"].as_str().is_none_or(str::is_empty) {
        wrong.push(format!("{path} is not described in values.schema.json"));
    }
    let Some(properties) = schema["properties"].as_object() else { return };
    if schema["additionalProperties"] != false {
        wrong.push(format!("{path} takes what nobody knows: additionalProperties is not false"));
    }
    let empty = serde_json::Map::new();
    let given = values.as_object().unwrap_or(&empty);
    for key in given.keys().filter(|key| !properties.contains_key(*key)) {
        wrong.push(format!("{path}.{key} is in values.yaml and not in values.schema.json"));
    }
    for (key, below) in properties {
        // Helm gives it to every chart.
        if path.is_empty() && key == "global" {
            continue;
        }
        match given.get(key) {
            Some(value) => compare(&format!("{path}.{key}"), value, below, wrong),
            None => wrong.push(format!("{path}.{key} is in values.schema.json and not in values.yaml")),
        }
    }
}

#[test]
fn values_and_schema_say_the_same() {
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).expect("values.yaml reads");
    let schema: Value = serde_json::from_str(&read("values.schema.json")).expect("values.schema.json reads");
    let mut wrong = Vec::new();
    compare("", &values, &schema, &mut wrong);
    assert_eq!(wrong, Vec::<String>::new());
}

/// Values below a path, as rows of a table.
fn rows(path: &str, values: &Value, schema: &Value, text: &mut String) {
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let (path, value) = (format!("{path}.{name}"), &values[name]);
        if below["properties"].is_object() {
            rows(&path, value, below, text);
            continue;
        }
        let about = cell(below["description"].as_str().unwrap_or_default());
        let choice = below["enum"].as_array().into_iter().flatten().map(|one| format!("`{}`", plain(one)));
        let choice = choice.collect::<Vec<_>>().join(", ");
        let kind = below["type"].as_str().unwrap_or("anything");
        let kind = if choice.is_empty() { kind.to_owned() } else { choice };
        let default = match plain(value) {
            long if long.len() > 90 || long.contains('\n') => {
                " · default: `helm show values` prints it".to_owned()
            }
            none if none.is_empty() => String::new(),
            short => format!(" · default `{short}`"),
        };
        text.push_str(&format!("| `{path}` | {about}<br>*{kind}*{default} |\n"));
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn the_reference_is_what_values_and_schema_say() {
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).expect("values.yaml reads");
    let schema: Value = serde_json::from_str(&read("values.schema.json")).expect("values.schema.json reads");
    let mut text = "# Values of the chart\n\nMade of `values.yaml` and `values.schema.json`; a value that is not here is refused. Which of them matter, and what becomes of them: [install](../operations/install.md).\n".to_owned();
    let groups = schema["properties"].as_object().expect("properties");
    // Helm gives `global` to every chart.
    for (name, below) in groups.iter().filter(|(name, _)| *name != "global") {
        let about = below["description"].as_str().unwrap_or_default();
        text.push_str(&format!("\n## {name}\n\n{about}\n\n| value | |\n|---|---|\n"));
        rows(name, &values[name], below, &mut text);
    }
    assert!(text.contains("| `agent.mode` |"), "{text}");
    check_page("values.md", &text);
}

#[test]
fn every_value_has_a_word_in_values_yaml() {
    // A group may be explained by the line above it; what stands alone must be.
    let text = read("values.yaml");
    let lines: Vec<&str> = text.lines().collect();
    let top = |line: &&str| !line.starts_with([' ', '#']) && line.contains(':');
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| top(line)) {
        let above = number.checked_sub(1).map(|above| lines[above]).unwrap_or_default();
        let below = lines.get(number + 1).copied().unwrap_or_default();
        let told = above.starts_with('#') || below.trim_start().starts_with('#');
        assert!(told, "line {}: nothing says what {line} is", number + 1);
    }
}

#[test]
fn agents_come_to_nodes_whose_gpus_are_not_cut_yet() {
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).expect("values.yaml reads");
    let tolerated = values["agent"]["tolerations"].as_array().cloned().unwrap_or_default();
    // With every value, because it says how far the node is.
    let tolerates =
        |taint: &str| tolerated.iter().any(|one| one["key"] == taint && one["operator"] == "Exists");
    assert!(tolerates(carve_karpenter::NOT_READY) && tolerates("nvidia.com/gpu"), "{tolerated:?}");
}

#[test]
fn a_wrong_value_is_refused_by_its_name() {
    let Some(helm) = helm() else { return };
    let refused = |setting: &str| {
        let words =
            ["template", "carve", &chart().display().to_string(), "--set", setting].map(str::to_owned);
        let output = Command::new(&helm).args(words).output().expect("helm runs");
        assert!(!output.status.success(), "{setting} is taken");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (setting, name) in [
        ("scheduler.enabled=true,controller.enabled=false", "set controller.enabled=true"),
        ("agent.mode=bogus", "/agent/mode"),
        ("agent.mod=claims", "'mod'"),
        ("controller.replicas=0", "/controller/replicas"),
        ("mig.strategy=some", "/mig/strategy"),
        ("agent.without={driver}", "/agent/without/0"),
        ("dra.driverName=GPU", "/dra/driverName"),
        ("toolkit.version=v1.13.1-centos7", "'toolkit'"),
        ("leave.patience=soon", "/leave/patience"),
    ] {
        let said = refused(setting);
        assert!(said.contains(name), "{setting}: {name} is not named:\n{said}");
    }
}

/// Namespaces may refuse pods with rights on their node: everything but the agent is let in where only the harmless are.
#[test]
fn every_pod_but_the_agents_is_a_restricted_one() {
    let (Some(cluster), Some(helm)) = (Cluster::connect(), helm()) else { return };
    let namespace = cluster.namespace("chart-restricted");
    let level = "pod-security.kubernetes.io/enforce=restricted";
    let labelled = cluster.try_kubectl(&["label", "namespace", namespace.name(), level], None);
    labelled.unwrap_or_else(|error| panic!("{error}"));
    let on = ["scheduler.enabled=true", "dashboard.enabled=true", "agent.mode=claims"];
    let settings = on.iter().flat_map(|setting| ["--set", setting]);
    let output = Command::new(&helm).args(["template", "carve"]).arg(chart()).args(settings).output();
    let rendered = String::from_utf8(output.expect("helm runs").stdout).expect("text");
    let mut let_in = Vec::new();
    for object in documents(&rendered) {
        let (name, template) = (&object["metadata"]["name"], &object["spec"]["template"]);
        if template["spec"]["containers"].is_null() {
            continue;
        }
        let mut pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template["spec"]});
        // The release's accounts are not here.
        pod["spec"]["serviceAccountName"] = "default".into();
        let words = ["create", "--dry-run=server", "-n", namespace.name(), "-f", "-"];
        let asked = || cluster.try_kubectl(&words, Some(&pod.to_string()));
        // A new namespace has its account after a moment.
        let answers = || !asked().is_err_and(|error| error.contains("serviceaccount \"default\" not found"));
        cluster.until("the namespace has an account", PATIENCE, answers);
        match asked() {
            Ok(_) => let_in.push(name.as_str().unwrap_or_default().to_owned()),
            Err(error) => {
                assert!(error.contains("violates PodSecurity \"restricted:"), "{name}: {error}");
                assert_eq!(name, "carve-agent", "{error}");
            }
        }
    }
    let_in.sort();
    assert_eq!(let_in, ["carve-controller", "carve-leave", "carve-scheduler"]);
}
