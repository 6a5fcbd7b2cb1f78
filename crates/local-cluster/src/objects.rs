//! What is read of objects in many places.

use serde_json::Value;

/// A text; empty where there is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn name_of(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

pub(crate) fn namespace_of(object: &Value) -> &str {
    text(&object["metadata"]["namespace"])
}

pub(crate) fn uid_of(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

/// Whether somebody has asked for its end.
pub(crate) fn is_ending(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether a pod has come to its end.
pub(crate) fn is_over(pod: &Value) -> bool {
    matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed")
}

/// The owner that keeps it as it should be.
pub(crate) fn keeper(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().find(|owner| owner["controller"] == true)
}

/// What made a pod: `Deployment/web`; itself where nothing did.
pub(crate) fn workload_of(pod: &Value) -> String {
    let Some(owner) = keeper(pod) else { return format!("Pod/{}", name_of(pod)) };
    let (kind, name) = (text(&owner["kind"]), text(&owner["name"]));
    let hash = text(&pod["metadata"]["labels"]["pod-template-hash"]);
    match name.strip_suffix(hash).and_then(|name| name.strip_suffix('-')) {
        Some(deployment) if kind == "ReplicaSet" => format!("Deployment/{deployment}"),
        _ => format!("{kind}/{name}"),
    }
}

/// A moment as objects have it, from milliseconds since 1970.
pub(crate) fn moment(millis: i64) -> String {
    jiff::Timestamp::from_second(millis.div_euclid(1000)).unwrap_or_default().to_string()
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
