//! `docs/reference/policies.md` is what the definitions of our objects say.

use carve_slice_policy::definitions;
use carve_test_support::reference::{cell, check_page};
use serde_json::Value;
use std::fmt::Write;

const HEAD: &str = "# SlicePolicy and SlicePlan

Made of the definitions in `deploy/crds`; `kubectl explain slicepolicy.spec` says the same. How they are used: [policies](../operations/policies.md), [MIG on demand](../operations/repartition.md), [autoscaling](../operations/autoscaling.md).
";

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

/// What may stand there.
fn kind(field: &Value) -> String {
    let plain = |schema: &Value| schema["type"].as_str().unwrap_or("object").to_owned();
    let choice = |schema: &Value| {
        let all = schema["enum"].as_array().into_iter().flatten().filter(|one| !one.is_null()).map(words);
        all.collect::<Vec<_>>().join(", ")
    };
    let (items, values) = (&field["items"], &field["additionalProperties"]);
    match plain(field).as_str() {
        "array" if items["enum"].is_array() => format!("list of {}", choice(items)),
        "array" => format!("list of {}s", plain(items)),
        "object" if values.is_object() => format!("map of {}s", plain(values)),
        _ if field["enum"].is_array() => choice(field),
        "integer" => {
            // Of a bound that only the field's size sets, nobody reads.
            let most = field["maximum"].as_f64().filter(|most| *most < f64::from(u32::MAX));
            let most = most.map(|most| format!(" to {most}")).unwrap_or_default();
            let least = field["minimum"].as_f64().map(|least| format!(" from {least}")).unwrap_or_default();
            format!("integer{least}{most}")
        }
        other => other.to_owned(),
    }
}

/// An object's fields, the rules about it, and then each object below it.
fn object(path: &str, schema: &Value, text: &mut String) {
    let Some(fields) = schema["properties"].as_object() else { return };
    let required = |name: &str| {
        schema["required"].as_array().into_iter().flatten().any(|one| one.as_str() == Some(name))
    };
    let _ = writeln!(text, "\n| field | |\n|---|---|");
    for (name, field) in fields {
        let default = match &field["default"] {
            Value::Null => String::new(),
            // What is below says it field by field.
            Value::Object(_) => String::new(),
            Value::Array(all) => {
                format!(" · default {}", all.iter().map(words).collect::<Vec<_>>().join(", "))
            }
            one => format!(" · default {}", words(one)),
        };
        let needed = if required(name) { " · required" } else { "" };
        let about = cell(field["description"].as_str().unwrap_or_default());
        let _ = writeln!(text, "| `{name}` | {about}<br>*{}*{default}{needed} |", kind(field));
    }
    let rules: Vec<&str> = schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|rule| rule["message"].as_str())
        .collect();
    if !rules.is_empty() {
        text.push_str("\nRefused otherwise:\n\n");
        for rule in rules {
            let _ = writeln!(text, "- {rule}.");
        }
    }
    for (name, field) in fields {
        for (below, path) in
            [(field, format!("{path}.{name}")), (&field["items"], format!("{path}.{name}[]"))]
        {
            if below["properties"].is_object() {
                let _ = writeln!(text, "\n### {path}");
                object(&path, below, text);
            }
        }
    }
}

fn page() -> String {
    let mut text = HEAD.to_owned();
    for (file, definition) in definitions() {
        let definition = serde_json::to_value(definition).expect("a definition");
        let versions = definition["spec"]["versions"].as_array().expect("versions");
        let schema = |version: &Value| version["schema"]["openAPIV3Schema"]["properties"].clone();
        let names: Vec<String> = versions
            .iter()
            .map(|version| {
                format!(
                    "`{}/{}`",
                    definition["spec"]["group"].as_str().unwrap_or_default(),
                    version["name"].as_str().unwrap_or_default()
                )
            })
            .collect();
        let first = versions.first().expect("a version");
        for other in versions {
            assert_eq!(
                schema(other),
                schema(first),
                "{file}: versions differ, and the page has one table for all"
            );
        }
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let about = first["schema"]["openAPIV3Schema"]["description"].as_str().unwrap_or_default();
        // An example stands at the end of it, where it would not be read in a line.
        let about = about.split(" An example").next().unwrap_or_default();
        let _ = writeln!(text, "\n## {kind}\n\n{about}\n\nServed as {}.", names.join(" and "));
        for part in ["spec", "status"] {
            let schema = &schema(first)[part];
            let _ = writeln!(text, "\n### {kind} {part}");
            object(&format!("{kind} {part}"), schema, &mut text);
        }
    }
    text
}

#[test]
fn the_reference_is_what_the_definitions_say() {
    let page = page();
    for line in ["\n### SlicePolicy spec.mig\n", "| `nodeSelector` |", "\n## SlicePlan\n"] {
        assert!(page.contains(line), "{line}");
    }
    check_page("policies.md", &page);
}
