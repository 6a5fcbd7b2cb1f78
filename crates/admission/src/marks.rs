//! What admission writes into a pod, how it is taken out again, and whether a pod carries it rightly.
//!
//! The API server may call a webhook twice, and backups are restored as they were saved: a pod that was admitted before must come out as it
//! is. Its dialect's resources may be gone by then, so the claim in its annotation is believed, but only where the pod is in every
//! other respect what admission makes of that claim. Who writes all of that by hand has asked for what it says, in our words, and is
//! held to the same limits as everybody.

use crate::Road;
use crate::claims::{ContainerClaim, Part, PodClaims};
use crate::keys;
use crate::reading::{self, LISTS, containers, containers_mut, is_in_annotations};
use crate::sums::Sums;
use carve_formats::workloads::{ContainerKind, Dialect, Quantity, dialect_of_resource};
use serde_json::{Map, Value, json};

/// Entries of `spec.resourceClaims` that are ours.
pub(crate) fn entries(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["spec"]["resourceClaims"].as_array().into_iter().flatten().filter(|entry| is_ours(entry))
}

fn is_ours(entry: &Value) -> bool {
    entry["resourceClaimTemplateName"].as_str().is_some_and(keys::is_template_name)
}

/// Whether a pod carries anything that only admission writes.
pub(crate) fn are_there(pod: &Value) -> bool {
    let has = |map: &Value, key: &str| map.get(key).is_some();
    keys::ANNOTATIONS.iter().any(|key| has(&pod["metadata"]["annotations"], key))
        || has(&pod["metadata"]["labels"], keys::ADMITTED)
        || entries(pod).next().is_some()
        || containers(pod).any(|(_, container)| {
            ["limits", "requests"].iter().any(|list| {
                keys::RESOURCES.iter().any(|resource| has(&container["resources"][list], resource))
            })
        })
}

/// Takes everything out that only admission writes.
pub(crate) fn strip(pod: &mut Value) {
    let ours: Vec<Value> = entries(pod).map(|entry| entry["name"].clone()).collect();
    for key in keys::ANNOTATIONS {
        take(pod, &["metadata", "annotations"], key);
    }
    take(pod, &["metadata", "labels"], keys::ADMITTED);
    for container in containers_mut(pod) {
        for list in ["limits", "requests"] {
            for resource in keys::RESOURCES {
                take(container, &["resources", list], resource);
            }
        }
        retain(container, &["resources", "claims"], |claim| !ours.contains(&claim["name"]));
    }
    retain(pod, &["spec", "resourceClaims"], |entry| !is_ours(entry));
}

/// Takes a key out of a map; a map that has nothing left goes as well.
fn take(value: &mut Value, path: &[&str], key: &str) {
    let Some((last, before)) = path.split_last() else { return };
    let Some(parent) = reach(value, before) else { return };
    let Some(map) = parent.get_mut(*last).and_then(Value::as_object_mut) else { return };
    if map.remove(key).is_some() && map.is_empty() {
        parent.remove(*last);
    }
}

/// Keeps some items of a list; a list that has nothing left goes as well.
fn retain(value: &mut Value, path: &[&str], keep: impl Fn(&Value) -> bool) {
    let Some((last, before)) = path.split_last() else { return };
    let Some(parent) = reach(value, before) else { return };
    let Some(list) = parent.get_mut(*last).and_then(Value::as_array_mut) else { return };
    let length = list.len();
    list.retain(keep);
    if list.is_empty() && length > 0 {
        parent.remove(*last);
    }
}

fn reach<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    path.iter().try_fold(value, |value, key| value.get_mut(*key))?.as_object_mut()
}

/// The map at the end of a path, made where there is none.
fn map_at<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let end = path.iter().try_fold(value, |value, key| {
        let map = value.as_object_mut()?;
        let next = map.entry(*key).or_insert_with(|| json!({}));
        if next.is_null() {
            *next = json!({});
        }
        Some(next)
    });
    end?.as_object_mut()
}

/// Writes a road's marks into a pod that has none.
pub(crate) fn write(
    pod: &mut Value,
    claims: &PodClaims,
    road: Road,
    template: impl Fn(&Part) -> String,
    sums: impl Fn(&ContainerClaim) -> Sums,
) {
    if let Some(annotations) = map_at(pod, &["metadata", "annotations"]) {
        annotations.insert(keys::CLAIM.to_owned(), json!(claims.to_annotation()));
        annotations.insert(keys::UNDERSTOOD_AS.to_owned(), json!(claims.to_string()));
    }
    if let Some(labels) = map_at(pod, &["metadata", "labels"]) {
        labels.insert(keys::ADMITTED.to_owned(), json!(road.word()));
    }
    let gone = |resource: &str, amount: &Value| match (dialect_of_resource(resource), road) {
        (None, _) => false,
        (Some(_), Road::Claims) => true,
        // Nodes have these, and would count them beside ours. The others nobody has; quotas go on counting them. None of something is not
        // counted, and says that HAMi's words beside it ask for nothing.
        (Some(dialect), Road::Scheduler) => dialect == Dialect::Nvidia && !is_zero(amount),
    };
    for container in containers_mut(pod) {
        for list in ["limits", "requests"] {
            let Some(map) = reach(container, &["resources", list]) else { continue };
            map.retain(|resource, amount| !gone(resource, amount));
        }
    }
    match road {
        Road::Claims => write_claims(pod, claims, template),
        Road::Scheduler => write_tokens(pod, claims, sums),
    }
}

fn quantity(amount: &Value) -> Option<Quantity> {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    text.trim().parse().ok()
}

fn is_zero(amount: &Value) -> bool {
    quantity(amount).is_some_and(|quantity| quantity.whole() == Some(0))
}

/// Puts amounts as a pod has them where they come to what was written: the API server makes `3k` of `3000`, which is no change.
pub(crate) fn keep_wording(before: &Value, pod: &mut Value) {
    for list in LISTS {
        let old = before["spec"][list].as_array().map(Vec::as_slice).unwrap_or_default();
        let new = pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (old, new) in old.iter().zip(new) {
            for kind in ["limits", "requests"] {
                let Some(map) = reach(new, &["resources", kind]) else { continue };
                for resource in keys::RESOURCES {
                    let written = &old["resources"][kind][resource];
                    if let Some(amount) = map.get_mut(resource)
                        && quantity(written).is_some_and(|known| quantity(amount) == Some(known))
                    {
                        amount.clone_from(written);
                    }
                }
            }
        }
    }
}

fn write_tokens(pod: &mut Value, claims: &PodClaims, sums: impl Fn(&ContainerClaim) -> Sums) {
    for container in containers_mut(pod) {
        let name = container["name"].as_str().unwrap_or_default();
        let Some(claim) = claims.container(name) else { continue };
        let Sums { memory, compute } = sums(claim);
        let amounts = [(keys::SLICE, claim.devices()), (keys::MEMORY, memory), (keys::COMPUTE, compute)];
        for list in ["limits", "requests"] {
            let Some(map) = map_at(container, &["resources", list]) else { continue };
            for (resource, amount) in amounts.iter().filter(|(_, amount)| *amount > 0) {
                map.insert((*resource).to_owned(), json!(amount.to_string()));
            }
        }
    }
}

/// One entry for each part, and one for parts that are never there at once: an init container that asks for what another container has
/// before or after it uses the same claim. A sidecar is beside both.
fn write_claims(pod: &mut Value, claims: &PodClaims, template: impl Fn(&Part) -> String) {
    let list = pod["spec"]["resourceClaims"].as_array().cloned().unwrap_or_default();
    let taken: Vec<String> =
        list.iter().filter_map(|entry| Some(entry["name"].as_str()?.to_owned())).collect();
    let mut names = (0..).map(|number| format!("carve-gpu-{number}")).filter(|name| !taken.contains(name));
    let mut made: Vec<(&Part, ContainerKind, String)> = Vec::new();
    let mut given: Vec<(&str, String)> = Vec::new();
    let (first, others): (Vec<_>, Vec<_>) =
        claims.containers().iter().partition(|container| container.kind == ContainerKind::Init);
    for container in others.into_iter().chain(first) {
        for part in &container.parts {
            let own = |name: &String| given.contains(&(container.name.as_str(), name.clone()));
            let again = made.iter().find(|(other, kind, name)| {
                let apart = container.kind == ContainerKind::Init && *kind != ContainerKind::Sidecar;
                apart && other.is_alike(part) && !own(name)
            });
            let name = match again {
                Some((_, _, name)) => name.clone(),
                None => {
                    let Some(name) = names.next() else { continue };
                    made.push((part, container.kind, name.clone()));
                    name
                }
            };
            given.push((&container.name, name));
        }
    }
    let new =
        made.iter().map(|(part, _, name)| json!({"name": name, "resourceClaimTemplateName": template(part)}));
    let all: Vec<Value> = list.into_iter().chain(new).collect();
    if let Some(spec) = reach(pod, &["spec"]) {
        spec.insert("resourceClaims".to_owned(), json!(all));
    }
    for container in containers_mut(pod) {
        let name = container["name"].as_str().unwrap_or_default().to_owned();
        let own: Vec<Value> =
            given.iter().filter(|(to, _)| *to == name).map(|(_, claim)| json!({"name": claim})).collect();
        if own.is_empty() {
            continue;
        }
        if let Some(resources) = map_at(container, &["resources"]) {
            let before = resources.get("claims").and_then(Value::as_array).cloned().unwrap_or_default();
            resources.insert("claims".to_owned(), before.into_iter().chain(own).collect());
        }
    }
}

/// The claims of a pod that was admitted before, on either road; nothing if its marks are not what admission would have written.
pub(crate) fn confirmed(pod: &Value) -> Option<PodClaims> {
    let text = pod["metadata"]["annotations"][keys::CLAIM].as_str()?;
    let claims = PodClaims::from_annotation(text).ok().filter(|claims| !claims.is_empty())?;
    let road = Road::from_word(pod["metadata"]["labels"][keys::ADMITTED].as_str()?)?;
    // Which template serves a part, and what it comes to on the smallest GPU, depends on the cluster and may have changed.
    let any = "carve-000000000000";
    let mut before = pod.clone();
    let spec = before.get_mut("spec")?;
    for entry in spec.get_mut("resourceClaims").and_then(Value::as_array_mut).into_iter().flatten() {
        if is_ours(entry) {
            entry["resourceClaimTemplateName"] = json!(any);
        }
    }
    for container in containers_mut(&mut before) {
        for list in ["limits", "requests"] {
            take(container, &["resources", list], keys::MEMORY);
            take(container, &["resources", list], keys::COMPUTE);
        }
    }
    let mut again = before.clone();
    strip(&mut again);
    write(&mut again, &claims, road, |_| any.to_owned(), |_| Sums::default());
    // Others may have put claims behind ours.
    let in_order = |list: &Value| {
        let mut items: Vec<String> = list.as_array().into_iter().flatten().map(Value::to_string).collect();
        items.sort();
        items
    };
    let resources = |pod: &Value| -> Vec<(Value, Value, Vec<String>)> {
        let each = containers(pod).map(|(_, container)| {
            let resources = &container["resources"];
            (resources["limits"].clone(), resources["requests"].clone(), in_order(&resources["claims"]))
        });
        each.collect()
    };
    let same = in_order(&again["spec"]["resourceClaims"]) == in_order(&before["spec"]["resourceClaims"])
        && resources(&again) == resources(&before)
        && again["metadata"]["annotations"][keys::CLAIM] == before["metadata"]["annotations"][keys::CLAIM];
    (same && is_what_is_left(pod, &claims, road)).then_some(claims)
}

/// Whether the words of dialects that admission leaves in a pod say what the claim says.
fn is_what_is_left(pod: &Value, claims: &PodClaims, road: Road) -> bool {
    let Ok(left) = reading::read(pod) else { return false };
    let Ok(left) = reading::claims(&left.containers) else { return false };
    let stays = |part: &Part| match road {
        Road::Claims => is_in_annotations(part.dialect),
        Road::Scheduler => part.dialect != Dialect::Nvidia,
    };
    let remains = |claims: &PodClaims| {
        PodClaims::new(claims.containers().iter().map(|container| {
            let parts = container.parts.iter().filter(|part| stays(part)).map(|part| Part {
                // HAMi's number of GPUs stood in a word that is gone.
                count: if part.dialect == Dialect::Hami { 1 } else { part.count },
                ..part.clone()
            });
            ContainerClaim { parts: parts.collect(), ..container.clone() }
        }))
    };
    remains(claims) == remains(&left)
}
