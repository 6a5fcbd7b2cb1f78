//! Specs of other people, as the suite applies them: which there are, what they ask for, and what they become.

mod asked;
mod catalogue;

pub(crate) use asked::asked;
pub(crate) use catalogue::{Entry, FOLDERS, Spec, entries};

use carve_cluster_tests::{Unit, documents};
use carve_test_support::fixture_text;
use serde_json::{Value, json};

/// A spec ready to be applied; nothing where the fixtures are absent.
pub(crate) fn read(spec: &Spec, image: &str) -> Option<Unit> {
    let mut text = String::new();
    for file in spec.with.iter().chain([&spec.file]) {
        text.push_str("---\n");
        text.push_str(&fixture_text(&format!("dra/{file}"))?);
    }
    for (from, to) in spec.replace {
        assert!(text.contains(from), "{}: there is no {from} to be replaced", spec.file);
        text = text.replace(from, to);
    }
    let stem = spec.file.trim_start_matches("nvidia/").trim_end_matches(".tmpl").trim_end_matches(".yaml");
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = format!("spec-{stem}{}", spec.variant).chars().map(letter).collect();
    let mut unit = Unit::new(&name, spec.machine);
    documents(&text).into_iter().for_each(|document| unit.take(as_v1(document), image));
    Some(unit)
}

/// Specs written for v1beta1, which this Kubernetes does not serve, have the fields of a request one floor higher.
fn as_v1(mut object: Value) -> Value {
    if object["apiVersion"] != "resource.k8s.io/v1beta1" {
        return object;
    }
    object["apiVersion"] = "resource.k8s.io/v1".into();
    let of = if object["kind"] == "ResourceClaim" { "/spec/devices" } else { "/spec/spec/devices" };
    let devices = object.pointer_mut(of).unwrap_or_else(|| panic!("a claim without devices"));
    for request in devices["requests"].as_array_mut().into_iter().flatten() {
        let mut exactly = request.clone();
        exactly.as_object_mut().map(|fields| fields.remove("name"));
        *request = json!({"name": request["name"], "exactly": exactly});
    }
    object
}
