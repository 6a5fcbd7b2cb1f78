//! What people may change: workloads with their numbers, and what a node is and could be.

use crate::api::Door;
use crate::asked::Asked;
use crate::failure::Failure;
use axum::Json;
use axum::extract::State;
use carve_gpu_model::Product;
use carve_object_verbs::{VerbError, find, get, list};
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Kinds that make pods and that people scale.
const KINDS: [(&str, &str); 4] =
    [("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("batch/v1", "Job"), ("v1", "Pod")];

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) async fn workloads(State(door): State<Door>) -> Result<Json<Value>, Failure> {
    let client = door.backend.client();
    let picture = door.live.picture();
    let mut running: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut pods = std::collections::BTreeSet::new();
    for slice in picture.nodes.values().flat_map(|node| &node.gpus).flat_map(|gpu| &gpu.slices) {
        if pods.insert(slice.pod.clone()) {
            let namespace = slice.pod.split('/').next().unwrap_or_default().to_owned();
            *running.entry((namespace, slice.workload.clone())).or_default() += 1;
        }
    }
    let mut items = Vec::new();
    for (version, kind) in KINDS {
        let found = find(&client, version, kind).await?;
        for object in list(&client, &found, None, None).await? {
            let metadata = &object["metadata"];
            let owned = metadata["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
            if owned || text(&metadata["namespace"]) == "kube-system" {
                continue;
            }
            let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
            let workload = format!("{kind}/{name}");
            let prefix = format!("{namespace}/");
            let waits: Vec<_> = picture
                .waiting
                .iter()
                .filter(|(pod, waiting)| pod.starts_with(&prefix) && waiting.workload == workload)
                .collect();
            let template = if kind == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] };
            items.push(json!({
                "kind": kind, "namespace": namespace, "name": name,
                "replicas": object["spec"]["replicas"],
                "running": running.get(&(namespace.to_owned(), workload)).copied().unwrap_or(0),
                "waiting": waits.len(),
                "asks": asks(template),
            }));
        }
    }
    Ok(Json(json!({"items": items})))
}

/// What the containers of a template ask for of GPUs, as it is written.
fn asks(spec: &Value) -> String {
    let mut words = Vec::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        for (name, amount) in container["resources"]["limits"].as_object().into_iter().flatten() {
            if name.contains('/') {
                let amount = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
                words.push(format!("{amount} × {}", name.trim_start_matches("nvidia.com/")));
            }
        }
    }
    words.join(", ")
}

/// Which node.
#[derive(Deserialize)]
pub(crate) struct Named {
    name: Option<String>,
}

pub(crate) async fn node(
    State(door): State<Door>,
    Asked(named): Asked<Named>,
) -> Result<Json<Value>, Failure> {
    let name = named.name.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Failure::wrong("name", "no node is named", "as in ?name=p4d-1"))?;
    let client = door.backend.client();
    let found = find(&client, "v1", "Node").await?;
    let node = get(&client, &found, "", &name).await?;
    let picture = door.live.picture();
    let pictured = picture.nodes.get(&name);
    let used = held(&client, &name).await?;
    let mut resources = serde_json::Map::new();
    for (resource, all) in node["status"]["allocatable"].as_object().into_iter().flatten() {
        if resource.starts_with("nvidia.com/") {
            let (all, used) = (count(all), used.get(resource).copied().unwrap_or(0));
            resources.insert(resource.clone(), json!({"all": all, "used": used}));
        }
    }
    let product = pictured.and_then(|node| node.gpus.first()).map(|gpu| gpu.product.as_str());
    Ok(Json(json!({
        "name": name,
        "labels": node["metadata"]["labels"],
        "migConfigs": product.map(mig_configs).unwrap_or_default(),
        "resources": resources,
    })))
}

/// A number of devices, as it is written.
fn count(amount: &Value) -> u64 {
    amount.as_str().map_or_else(|| amount.as_u64(), |text| text.parse().ok()).unwrap_or(0)
}

/// What pods on a node hold of each resource.
async fn held(client: &kube::Client, node: &str) -> Result<BTreeMap<String, u64>, Failure> {
    let found = find(client, "v1", "Pod").await?;
    let pods: Api<DynamicObject> = Api::all_with(client.clone(), &found.resource);
    let on_it = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    for pod in pods.list(&on_it).await.map_err(VerbError::from)? {
        if matches!(pod.data["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            continue;
        }
        for container in pod.data["spec"]["containers"].as_array().into_iter().flatten() {
            for (name, amount) in container["resources"]["limits"].as_object().into_iter().flatten() {
                let sum = held.entry(name.clone()).or_default();
                *sum = sum.saturating_add(count(amount));
            }
        }
    }
    Ok(held)
}

/// Configs that such GPUs can have, by the names that NVIDIA's operator gives them.
fn mig_configs(product: &str) -> Vec<String> {
    let known = carve_gpu_model::products::CATALOGUE.iter();
    let found = known.into_iter().find(|one| one.boards.iter().any(|board| board.name == product));
    let Some(table) = found.and_then(Product::profile_table) else { return Vec::new() };
    let mut names = vec!["all-disabled".to_owned(), "all-enabled".to_owned(), "all-balanced".to_owned()];
    let plain = table.profiles().iter().filter(|profile| profile.name.attributes().is_empty());
    names.extend(plain.map(|profile| format!("all-{}", profile.name)));
    names
}
