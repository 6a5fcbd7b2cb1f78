//! What may change about a pod after it was created: nothing about its GPUs.

use crate::claims::PodClaims;
use crate::guard::{Guarded, of_containers};
use crate::keys;
use crate::policy::Policy;
use crate::refusal::Refusal;
use carve_formats::workloads::is_request_annotation;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Whether a pod may become another one, by an update of the pod itself, of its status or of its ephemeral containers.
///
/// What it asked for was decided when it was created and is booked; a change would be believed by nobody, or by the wrong one. What a pod got
/// (`carve.dev/slices`) is written by the binding and by nothing else. Containers that are added for looking around are held to what
/// holds for the others.
pub fn update(old: &Value, new: &Value, policy: &Policy) -> Result<(), Vec<Refusal>> {
    let admitted = old["metadata"]["labels"].get(keys::ADMITTED).is_some();
    let mut refusals = Vec::new();
    let guarded = |name: &str| keys::ANNOTATIONS.contains(&name) || (admitted && is_request_annotation(name));
    changed(old, new, "annotations", guarded, &mut refusals);
    changed(old, new, "labels", |name| name == keys::ADMITTED, &mut refusals);
    if admitted {
        refusals.extend(late_containers(old, new, policy));
    }
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

fn changed(
    old: &Value,
    new: &Value,
    list: &str,
    guarded: impl Fn(&str) -> bool,
    refusals: &mut Vec<Refusal>,
) {
    let nothing = Map::new();
    let entries =
        |pod: &'_ Value| pod["metadata"][list].as_object().cloned().unwrap_or_else(|| nothing.clone());
    let (before, after) = (entries(old), entries(new));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names.into_iter().filter(|name| guarded(name)) {
        if before.get(name) == after.get(name) {
            continue;
        }
        let example = match before.get(name).and_then(Value::as_str) {
            Some(value) => format!(
                "leave it at '{}', or delete the pod and make one that asks for something else",
                value.chars().take(80).collect::<String>()
            ),
            None => "leave it out, or delete the pod and make one that asks for something else".to_owned(),
        };
        let reason = "what a pod has of GPUs is decided when it is created and does not change";
        refusals.push(Refusal::new(format!("metadata.{list}.{name}"), reason, example));
    }
}

/// Containers that were not there before.
fn late_containers(old: &Value, new: &Value, policy: &Policy) -> Vec<Refusal> {
    let list = |pod: &Value| pod["spec"]["ephemeralContainers"].as_array().cloned().unwrap_or_default();
    let before = list(old);
    if list(new).iter().all(|container| before.contains(container)) {
        return Vec::new();
    }
    // At their places, so that messages name the right one; those that were there before are let be.
    let late = list(new).into_iter().map(|one| if before.contains(&one) { json!({}) } else { one });
    let mut only = json!({"spec": {"ephemeralContainers": late.collect::<Vec<_>>()}});
    let mut found = Guarded::default();
    // Ephemeral containers ask for nothing; nothing can be taken out of them in an update, so what would be is refused.
    of_containers(&mut only, &PodClaims::default(), &policy.strictly(), &mut found);
    found.refusals
}
