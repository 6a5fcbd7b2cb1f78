//! What must hold of pods, and of what pods are made after.

use super::{Causes, labels_in, wrong_name};
use crate::resources::Kind;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The most pods that one object may ask for: one process keeps them all.
pub(crate) const MOST_REPLICAS: i64 = 100_000;

pub(super) fn check(object: &mut Value, kind: &Kind, causes: &mut Causes) {
    match kind.kind {
        "Pod" => pod(&mut object["spec"], "spec", causes),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => {
            count(object, "replicas", causes);
            selects(object, causes);
            pod(&mut object["spec"]["template"]["spec"], "spec.template.spec", causes);
        }
        "Job" => {
            for field in ["parallelism", "completions", "backoffLimit"] {
                count(object, field, causes);
            }
            labels_in(&object["spec"]["template"]["metadata"], "spec.template.metadata", causes);
            pod(&mut object["spec"]["template"]["spec"], "spec.template.spec", causes);
            if !matches!(
                object["spec"]["template"]["spec"]["restartPolicy"].as_str(),
                Some("Never" | "OnFailure")
            ) {
                let field = "spec.template.spec.restartPolicy".to_owned();
                causes.push((field, "Required value: valid values: \"OnFailure\", \"Never\"".to_owned()));
            }
        }
        _ => {}
    }
}

fn count(object: &Value, field: &str, causes: &mut Causes) {
    let Some(number) = object["spec"][field].as_i64() else { return };
    if number < 0 {
        let why = format!("Invalid value: {number}: must be greater than or equal to 0");
        causes.push((format!("spec.{field}"), why));
    } else if number > MOST_REPLICAS {
        let why = format!("Invalid value: {number}: must be {MOST_REPLICAS} at most");
        causes.push((format!("spec.{field}"), why));
    }
}

/// A workload finds its own pods.
fn selects(object: &Value, causes: &mut Causes) {
    let selector = object["spec"]["selector"]["matchLabels"].as_object();
    let expressions = object["spec"]["selector"]["matchExpressions"].as_array();
    if selector.is_none_or(serde_json::Map::is_empty) && expressions.is_none_or(Vec::is_empty) {
        causes.push(("spec.selector".to_owned(), "Required value".to_owned()));
    }
    labels_in(&object["spec"]["template"]["metadata"], "spec.template.metadata", causes);
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    if selector.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
        let why = "Invalid value: `selector` does not match template `labels`".to_owned();
        causes.push(("spec.template.metadata.labels".to_owned(), why));
    }
}

fn pod(spec: &mut Value, path: &str, causes: &mut Causes) {
    let mut names = BTreeSet::new();
    for (list, needed) in [("containers", true), ("initContainers", false)] {
        let containers = spec[list].as_array_mut();
        if needed && containers.as_ref().is_none_or(|containers| containers.is_empty()) {
            causes.push((format!("{path}.containers"), "Required value".to_owned()));
        }
        for (number, container) in containers.into_iter().flatten().enumerate() {
            let path = format!("{path}.{list}[{number}]");
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            match wrong_name(&name) {
                Some(_) if name.is_empty() => {
                    causes.push((format!("{path}.name"), "Required value".to_owned()))
                }
                Some(why) => {
                    causes.push((format!("{path}.name"), format!("Invalid value: \"{name}\": {why}")))
                }
                None if !names.insert(name.clone()) => {
                    causes.push((format!("{path}.name"), format!("Duplicate value: \"{name}\"")));
                }
                None => {}
            }
            if container["image"].as_str().is_none_or(str::is_empty) {
                causes.push((format!("{path}.image"), "Required value".to_owned()));
            }
            resources(&mut container["resources"], &format!("{path}.resources"), causes);
        }
    }
}

/// A resource that Kubernetes does not know itself is counted in whole numbers.
fn is_counted(name: &str) -> bool {
    name.contains('/') && !name.starts_with("kubernetes.io/")
}

/// Checks amounts; what is limited and not requested is requested as it is limited.
fn resources(resources: &mut Value, path: &str, causes: &mut Causes) {
    if resources.is_null() {
        return;
    }
    for list in ["limits", "requests"] {
        for (name, amount) in resources[list].as_object().into_iter().flatten() {
            let field = format!("{path}.{list}[{name}]");
            let text = match amount {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            match amount_of(&text) {
                None => causes.push((
                    field,
                    format!("Invalid value: \"{text}\": it is no quantity, such as 2, 500m or 4Gi"),
                )),
                Some(value) if value < 0.0 => {
                    causes.push((field, format!("Invalid value: \"{text}\": must not be negative")))
                }
                Some(value) if is_counted(name) && value.fract() != 0.0 => {
                    causes.push((field, format!("Invalid value: \"{text}\": must be an integer")));
                }
                Some(_) => {}
            }
        }
    }
    let limits = resources["limits"].as_object().cloned().unwrap_or_default();
    for (name, limit) in &limits {
        match resources["requests"].get(name) {
            None => {
                if !resources["requests"].is_object() {
                    resources["requests"] = json!({});
                }
                resources["requests"][name] = limit.clone();
            }
            Some(request) if is_counted(name) && request != limit => {
                let why = format!("Invalid value: {request}: must be equal to {name} limit of {limit}");
                causes.push((format!("{path}.requests"), why));
            }
            Some(_) => {}
        }
    }
}

/// A quantity as a number.
pub(crate) fn amount_of(text: &str) -> Option<f64> {
    const UNITS: &[(&str, f64)] = &[
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
    ];
    let number = |text: &str| -> Option<f64> {
        let plain = !text.is_empty()
            && text.bytes().all(|letter| letter.is_ascii_digit() || b".+-eE".contains(&letter));
        text.parse().ok().filter(|number: &f64| plain && number.is_finite())
    };
    let with_unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    match with_unit {
        Some((text, factor)) => number(text).map(|number| number * factor),
        None => number(text),
    }
}
