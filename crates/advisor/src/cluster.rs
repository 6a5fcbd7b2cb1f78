//! A cluster as `kubectl get nodes,pods -A -o json` prints it.

mod node;
mod pod;

use crate::input::{Domains, Situation};
use carve_economics::Prices;
use carve_formats::kubernetes_yaml;
use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a cluster is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClusterError {
    /// Neither JSON nor YAML.
    #[error("{name}: {what}")]
    Text {
        /// The file.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// Something that is no object of Kubernetes.
    #[error(
        "{name}: {place}: expected an object of Kubernetes with a kind; write 'kubectl get nodes,pods -A -o json' into the file"
    )]
    NoObject {
        /// The file.
        name: String,
        /// Where.
        place: String,
    },
    /// No node with a GPU.
    #[error("no node with GPUs among {nodes} nodes and {pods} pods")]
    NoGpus {
        /// Nodes that were read.
        nodes: usize,
        /// Pods that were read.
        pods: usize,
    },
}

/// Objects by kind.
#[derive(Default)]
struct Objects {
    nodes: Vec<Value>,
    pods: Vec<Value>,
    claims: Vec<Value>,
    /// Tenants of namespaces that say one.
    tenants: BTreeMap<String, String>,
}

/// Reads lists and single objects of any kinds: name and text of each file.
pub fn read_cluster(
    texts: &[(&str, &str)],
    prices: &Prices,
    domains: Domains,
) -> Result<Situation, ClusterError> {
    let mut objects = Objects::default();
    for (name, text) in texts {
        for (number, document) in documents(name, text)?.into_iter().enumerate() {
            collect(name, &format!("document {}", number + 1), document, &mut objects)?;
        }
    }
    let mut situation = Situation::default();
    let mut shared = Vec::new();
    for object in &objects.nodes {
        let Some(found) = node::node(object, prices) else { continue };
        shared.extend(found.shared.then(|| found.node.name.clone()));
        situation.nodes.push(found.node);
    }
    situation.nodes.sort_by(|one, other| one.name.cmp(&other.name));
    situation.nodes.dedup_by(|one, other| one.name == other.name);
    if situation.nodes.is_empty() {
        return Err(ClusterError::NoGpus { nodes: objects.nodes.len(), pods: objects.pods.len() });
    }
    pod::pods(&objects.pods, &objects.claims, &objects.tenants, &shared, domains, &mut situation);
    Ok(situation)
}

fn documents(name: &str, text: &str) -> Result<Vec<Value>, ClusterError> {
    let wrong = |what: String| ClusterError::Text { name: name.to_owned(), what };
    if text.trim_start().starts_with(['{', '[']) {
        let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        return documents
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(format!("this is not JSON: {error}")));
    }
    let (nodes, error) = kubernetes_yaml::parse_stream(text);
    if let Some(error) = error {
        return Err(wrong(format!("this is not YAML: {error}")));
    }
    nodes
        .iter()
        .map(|node| serde_json::from_str(&node.to_json()).map_err(|error| wrong(error.to_string())))
        .collect()
}

fn collect(name: &str, place: &str, document: Value, objects: &mut Objects) -> Result<(), ClusterError> {
    let no_object = || ClusterError::NoObject { name: name.to_owned(), place: place.to_owned() };
    let kind = document["kind"].as_str().ok_or_else(no_object)?.to_owned();
    if kind.ends_with("List") {
        let Value::Object(mut list) = document else { return Err(no_object()) };
        let items = match list.remove("items") {
            Some(Value::Array(items)) => items,
            None | Some(Value::Null) => Vec::new(),
            Some(_) => return Err(no_object()),
        };
        // Items of lists of one kind do not say theirs.
        let of = kind.strip_suffix("List").unwrap_or_default();
        for (number, mut item) in items.into_iter().enumerate() {
            if let (Value::Object(fields), false) = (&mut item, of.is_empty()) {
                fields.entry("kind").or_insert_with(|| Value::from(of));
            }
            collect(name, &format!("{place}, items[{number}]"), item, objects)?;
        }
        return Ok(());
    }
    match kind.as_str() {
        "Node" => objects.nodes.push(document),
        "Pod" => objects.pods.push(document),
        "ResourceClaim" | "ResourceClaimTemplate" => objects.claims.push(document),
        "Namespace" => {
            let tenant = text(&document["metadata"]["labels"]["carve.dev/tenant"]);
            if let (Some(tenant), Some(namespace)) = (tenant, text(&document["metadata"]["name"])) {
                objects.tenants.insert(namespace.to_owned(), tenant.to_owned());
            }
        }
        _ => {}
    }
    Ok(())
}

/// A text that is not empty.
fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}
