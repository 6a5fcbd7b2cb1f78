//! What a container runtime finds in the CDI files of a plugin.

use carve_conformance::side_by_side::Told;
use serde_json::Value;
use std::path::Path;

/// Adds what all files in a folder say.
pub(crate) fn tell(folder: &Path, told: &mut Told) {
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let spec: Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
        let kind = spec["kind"].as_str().unwrap_or_default();
        told.insert(format!("cdi file {kind}"), file.file_name().to_string_lossy().into_owned());
        told.insert(format!("cdi {kind} version"), spec["cdiVersion"].to_string());
        for device in spec["devices"].as_array().into_iter().flatten() {
            let name = device["name"].as_str().unwrap_or_default();
            tell_edits(&format!("cdi {kind}={name}"), &device["containerEdits"], told);
        }
        tell_edits(&format!("cdi {kind} every container"), &spec["containerEdits"], told);
    }
}

fn tell_edits(place: &str, edits: &Value, told: &mut Told) {
    let all = |field: &str, one: &dyn Fn(&Value) -> String| {
        let mut texts: Vec<String> = edits[field].as_array().into_iter().flatten().map(one).collect();
        texts.sort();
        texts
    };
    for node in all("deviceNodes", &tell_node) {
        told.insert(format!("{place} node {node}"), "there".to_owned());
    }
    for mount in all("mounts", &|mount| format!("{} {}", mount["containerPath"], mount["options"])) {
        told.insert(format!("{place} mount {mount}"), "there".to_owned());
    }
    for variable in all("env", &Value::to_string) {
        told.insert(format!("{place} env {variable}"), "there".to_owned());
    }
    let hooks = all("hooks", &|hook| format!("{} {}", hook["hookName"], hook["args"][1]));
    told.insert(format!("{place} hooks"), hooks.join("; "));
}

/// A node whose path on the host is the same need not say so, and means the same if it does.
fn tell_node(node: &Value) -> String {
    let mut node = node.clone();
    if let Some(fields) = node.as_object_mut()
        && fields.get("hostPath") == fields.get("path")
    {
        fields.remove("hostPath");
    }
    node.to_string()
}
