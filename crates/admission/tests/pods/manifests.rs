//! Pods and pod templates of the manifests that people have for other systems.

use carve_formats::kubernetes_yaml::parse_stream;
use carve_formats::workloads::read_containers;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Every manifest below a folder.
pub(crate) fn manifests(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder of fixtures") {
            let path = entry.expect("a fixture").path();
            let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default().to_owned();
            match (path.is_dir(), kind.as_str()) {
                (true, _) => open.push(path),
                (false, "yaml" | "yml" | "json") => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// Pods and pod templates of a document, with the name of their object.
fn pods_of(document: &Value, found: &mut Vec<(String, Value)>) {
    let kind = document["kind"].as_str().unwrap_or_default();
    if kind.ends_with("List") {
        document["items"].as_array().into_iter().flatten().for_each(|item| pods_of(item, found));
        return;
    }
    let meta = &document["metadata"];
    let name = meta["name"].as_str().or(meta["generateName"].as_str()).unwrap_or("(unnamed)");
    let object = format!("{kind} {name}");
    match kind {
        "Pod" => found.push((object, document.clone())),
        // They hold templates that make no pods.
        "CustomResourceDefinition" | "ConfigMap" | "Secret" | "PodTemplate" | "" => {}
        _ => templates(&object, &document["spec"], found),
    }
}

fn templates(object: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    for (key, inner) in value.as_object().into_iter().flatten() {
        let is_pod = inner["spec"]["containers"].as_array().is_some_and(|list| !list.is_empty());
        if key.to_ascii_lowercase().ends_with("template") && is_pod {
            found.push((object.to_owned(), inner.clone()));
        } else {
            templates(object, inner, found);
        }
    }
    value.as_array().into_iter().flatten().for_each(|item| templates(object, item, found));
}

/// Pods and pod templates of a manifest, with the name of their object.
pub(crate) fn pods_in(path: &Path) -> Vec<(String, Value)> {
    let (documents, _) = parse_stream(&std::fs::read_to_string(path).expect("a fixture"));
    let mut found = Vec::new();
    for document in documents {
        let document: Value = serde_json::from_str(&document.to_json()).expect("JSON");
        pods_of(&document, &mut found);
    }
    found
}

/// Dialects and what is asked for in them; nothing if no GPU of NVIDIA is.
pub(crate) fn asked(pod: &Value) -> Option<(String, String)> {
    let read = read_containers(&pod.to_string());
    let errors = read.errors().count();
    let asks: Vec<_> = read.value.iter().flatten().flat_map(|container| &container.gpus).collect();
    let claims = pod["spec"]["resourceClaims"].as_array().map_or(0, Vec::len);
    if asks.is_empty() && errors == 0 && claims == 0 {
        return None;
    }
    let mut dialects: BTreeSet<&str> = asks.iter().map(|ask| ask.dialect.title()).collect();
    let mut words: Vec<String> = asks.iter().map(ToString::to_string).collect();
    if claims > 0 {
        dialects.insert("resource claim");
        words.push(format!("claims of its own: {claims}"));
    }
    Some((dialects.into_iter().collect::<Vec<_>>().join(", "), words.join("; ")))
}
