//! What can be asked for, for clients that look before they ask.

use crate::resources::{KINDS, Kind};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn groups() -> BTreeSet<(&'static str, &'static str)> {
    KINDS.iter().filter(|kind| !kind.group.is_empty()).map(|kind| (kind.group, kind.version)).collect()
}

fn group(name: &str, version: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

fn resources(group: &str, version: &str) -> Option<Value> {
    let of_group: Vec<&Kind> =
        KINDS.iter().filter(|kind| (kind.group, kind.version) == (group, version)).collect();
    let first = of_group.first()?;
    let mut list = Vec::new();
    for kind in &of_group {
        list.push(json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": VERBS, "shortNames": kind.short,
        }));
        for part in kind.parts {
            let (what, verbs): (&str, &[&str]) = match *part {
                "scale" => ("Scale", &["get", "patch", "update"]),
                "binding" => ("Binding", &["create"]),
                "eviction" => ("Eviction", &["create"]),
                _ => (kind.kind, &["get", "patch", "update"]),
            };
            let mut entry = json!({
                "name": format!("{}/{part}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": what, "verbs": verbs,
            });
            match what {
                "Scale" => (entry["group"], entry["version"]) = ("autoscaling".into(), "v1".into()),
                "Eviction" => (entry["group"], entry["version"]) = ("policy".into(), "v1".into()),
                _ => {}
            }
            list.push(entry);
        }
    }
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": first.api_version(), "resources": list,
    }))
}

/// The answer to a path that asks what there is.
pub(crate) fn answer(path: &str) -> Option<Value> {
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    match &words[..] {
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        ["api", version] => resources("", version),
        ["apis"] => {
            let list: Vec<Value> = groups().into_iter().map(|(name, version)| group(name, version)).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list}))
        }
        ["apis", name] => {
            let (name, version) = groups().into_iter().find(|(group, _)| group == name)?;
            let mut found = group(name, version);
            (found["kind"], found["apiVersion"]) = ("APIGroup".into(), "v1".into());
            Some(found)
        }
        ["apis", name, version] => resources(name, version),
        ["version"] => Some(json!({
            "major": "1", "minor": "36", "gitVersion": concat!("v1.36.0+carve-", env!("CARGO_PKG_VERSION")),
            "gitCommit": "", "gitTreeState": "clean", "buildDate": "", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
        })),
        _ => None,
    }
}

/// A list of what is described, and where; `prefix` is how whoever asks comes here.
pub(crate) fn described(path: &str, prefix: &str) -> Option<Value> {
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    match &words[..] {
        ["openapi", "v3"] => {
            let mut paths = serde_json::Map::new();
            for (group, version) in std::iter::once(("", "v1")).chain(groups()) {
                let name = if group.is_empty() {
                    format!("api/{version}")
                } else {
                    format!("apis/{group}/{version}")
                };
                let url = format!("{prefix}/openapi/v3/{name}");
                paths.insert(name, json!({"serverRelativeURL": url}));
            }
            Some(json!({"paths": paths}))
        }
        ["openapi", "v3", "api", version] => Some(fields_are_checked("", version)),
        ["openapi", "v3", "apis", group, version] => Some(fields_are_checked(group, version)),
        _ => None,
    }
}

/// No more than kubectl looks for before it sends anything: that the other side checks fields itself.
fn fields_are_checked(group: &str, version: &str) -> Value {
    let mut paths = serde_json::Map::new();
    for kind in KINDS.iter().filter(|kind| (kind.group, kind.version) == (group, version)) {
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let place = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let operation = json!({
            "operationId": format!("patch{}", kind.kind),
            "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        });
        paths.insert(format!("{root}{place}/{}/{{name}}", kind.plural), json!({"patch": operation}));
    }
    json!({"openapi": "3.0.0", "info": {"title": "carve", "version": "v1"}, "paths": paths})
}
