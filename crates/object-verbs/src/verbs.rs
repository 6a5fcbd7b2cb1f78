//! The verbs.

use crate::VerbError;
use crate::documents::Document;
use crate::found::{Found, find};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Under which name fields are applied.
const MANAGER: &str = "carve";

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not there.
    Created,
    /// It has changed.
    Configured,
    /// It was so already.
    Unchanged,
}

impl Outcome {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Created => "created",
            Outcome::Configured => "configured",
            Outcome::Unchanged => "unchanged",
        }
    }
}

/// An object that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// `deployment.apps/web`.
    pub object: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// Where objects of a kind are asked for; refuses names that would lead elsewhere, because they become a part of a path.
fn api(client: &Client, found: &Found, namespace: &str, name: &str) -> Result<Api<DynamicObject>, VerbError> {
    for (field, written) in [("namespace", namespace), ("name", name)] {
        let plain = |letter: char| letter.is_ascii_graphic() && !"/%?#\\\"<>^`{|}".contains(letter);
        if !written.chars().all(plain) || matches!(written, "." | "..") {
            let failure = VerbError::new(400, format!("'{}' is no {field}", written.escape_debug()));
            return Err(VerbError { field: Some(format!("metadata.{field}")), ..failure }
                .hint("write lower case letters, digits, '-' and '.'"));
        }
    }
    Ok(match found.namespaced {
        true => Api::namespaced_with(client.clone(), namespace, &found.resource),
        false => Api::all_with(client.clone(), &found.resource),
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

async fn apply_one(
    client: &Client,
    found: &Found,
    document: &Document,
    namespace: &str,
    rehearsal: bool,
) -> Result<Applied, VerbError> {
    let name = text(&document.object["metadata"]["name"]);
    let said = |error: VerbError| VerbError {
        message: format!("{}, line {}: {}", document.title(), document.line, error.message),
        ..error
    };
    if name.is_empty() {
        let failure = VerbError::new(422, "metadata.name is missing");
        let failure = VerbError { field: Some("metadata.name".to_owned()), ..failure };
        return Err(said(failure.hint("write metadata.name: what the object is called")));
    }
    let namespace = Some(text(&document.object["metadata"]["namespace"]))
        .filter(|written| !written.is_empty())
        .unwrap_or(namespace);
    let api = api(client, found, namespace, name).map_err(said)?;
    let before = api.get_metadata_opt(name).await.map_err(|error| said(error.into()))?;
    let mut params = PatchParams::apply(MANAGER).force();
    params.dry_run = rehearsal;
    params.field_validation = Some(kube::api::ValidationDirective::Strict);
    let after = api
        .patch(name, &params, &Patch::Apply(&document.object))
        .await
        .map_err(|error| said(error.into()))?;
    let outcome = match before {
        None => Outcome::Created,
        Some(before) if before.metadata.resource_version == after.metadata.resource_version => {
            Outcome::Unchanged
        }
        Some(_) => Outcome::Configured,
    };
    Ok(Applied { object: format!("{}/{name}", found.title()), outcome })
}

/// Applies objects: all of them, or none where one would be refused. Those that others are in come first.
pub async fn apply(
    client: &Client,
    documents: &[Document],
    namespace: &str,
    rehearsal: bool,
) -> Result<Vec<Applied>, VerbError> {
    let mut all: Vec<(Found, &Document)> = Vec::new();
    for document in documents {
        let found =
            find(client, text(&document.object["apiVersion"]), text(&document.object["kind"])).await?;
        all.push((found, document));
    }
    all.sort_by_key(|(found, _)| match found.resource.kind.as_str() {
        "Namespace" => 0,
        "CustomResourceDefinition" | "PriorityClass" => 1,
        _ => 2,
    });
    let mut new_namespaces: Vec<&str> = Vec::new();
    let (mut rehearsed, mut inside_new) = (Vec::new(), Vec::new());
    for (found, document) in &all {
        // What goes into a namespace that is made with it can not be rehearsed before that is there.
        let inside = Some(text(&document.object["metadata"]["namespace"]))
            .filter(|written| !written.is_empty())
            .unwrap_or(namespace);
        if found.namespaced && new_namespaces.contains(&inside) {
            inside_new.push((found, *document));
            continue;
        }
        let one = apply_one(client, found, document, namespace, true).await?;
        if found.resource.kind == "Namespace" && one.outcome == Outcome::Created {
            new_namespaces.push(text(&document.object["metadata"]["name"]));
        }
        rehearsed.push(one);
    }
    if rehearsal {
        return Ok(rehearsed);
    }
    let mut applied: Vec<Applied> = Vec::new();
    let mut rest = all.iter().peekable();
    while let Some((found, document)) = rest.next_if(|(found, _)| found.resource.kind == "Namespace") {
        applied.push(apply_one(client, found, document, namespace, false).await?);
    }
    for (found, document) in inside_new {
        if let Err(error) = apply_one(client, found, document, namespace, true).await {
            take_back(client, &all, &new_namespaces).await;
            return Err(error);
        }
    }
    for (found, document) in rest {
        let one = apply_one(client, found, document, namespace, false).await;
        applied.push(one.map_err(|error| so_far(error, &applied))?);
    }
    Ok(applied)
}

/// Namespaces that were made for what was then refused go again.
async fn take_back(client: &Client, all: &[(Found, &Document)], namespaces: &[&str]) {
    let Some((found, _)) = all.iter().find(|(found, _)| found.resource.kind == "Namespace") else { return };
    for name in namespaces {
        // The refusal is what its author should read.
        let _ = delete(client, found, "", name, None).await;
    }
}

/// What was rehearsed and is refused all the same comes too late to take the others back, so they are named.
fn so_far(error: VerbError, applied: &[Applied]) -> VerbError {
    if applied.is_empty() {
        return error;
    }
    let names: Vec<&str> = applied.iter().map(|one| one.object.as_str()).collect();
    VerbError {
        message: format!("{}; before that these were applied: {}", error.message, names.join(", ")),
        ..error
    }
}

/// An object.
pub async fn get(client: &Client, found: &Found, namespace: &str, name: &str) -> Result<Value, VerbError> {
    let object = api(client, found, namespace, name)?.get(name).await?;
    Ok(typed(&object, found))
}

/// An object with what it is.
fn typed(object: &DynamicObject, found: &Found) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or(Value::Null);
    value["apiVersion"] = found.resource.api_version.clone().into();
    value["kind"] = found.resource.kind.clone().into();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    value
}

/// Objects of a kind; everywhere without a namespace.
pub async fn list(
    client: &Client,
    found: &Found,
    namespace: Option<&str>,
    labels: Option<&str>,
) -> Result<Vec<Value>, VerbError> {
    let api = match (found.namespaced, namespace) {
        (true, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &found.resource),
        _ => Api::<DynamicObject>::all_with(client.clone(), &found.resource),
    };
    let mut params = ListParams::default();
    if let Some(labels) = labels {
        params = params.labels(labels);
    }
    Ok(api.list(&params).await?.items.iter().map(|object| typed(object, found)).collect())
}

/// Deletes an object.
pub async fn delete(
    client: &Client,
    found: &Found,
    namespace: &str,
    name: &str,
    grace: Option<u32>,
) -> Result<(), VerbError> {
    let mut params = DeleteParams::background();
    params.grace_period_seconds = grace;
    api(client, found, namespace, name)?.delete(name, &params).await?;
    Ok(())
}

/// Makes it so many.
pub async fn scale(
    client: &Client,
    found: &Found,
    namespace: &str,
    name: &str,
    replicas: u32,
) -> Result<(), VerbError> {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let scaled =
        api(client, found, namespace, name)?.patch_scale(name, &PatchParams::default(), &patch).await;
    scaled.map(drop).map_err(|error| match VerbError::from(error) {
        error if error.code == 404 && error.message.contains("could not find the requested resource") => {
            VerbError::new(400, format!("{} can not be scaled", found.title()))
                .hint("Deployments, ReplicaSets and StatefulSets can")
        }
        error => error,
    })
}

/// Sets labels, and takes those away that have no value.
pub async fn label(
    client: &Client,
    found: &Found,
    namespace: &str,
    name: &str,
    labels: &BTreeMap<String, Option<String>>,
) -> Result<(), VerbError> {
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    api(client, found, namespace, name)?.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}
