//! What people change from the page, where that is allowed.

use crate::api::Door;
use crate::asked::Sent;
use crate::failure::Failure;
use axum::Json;
use axum::extract::State;
use carve_object_verbs::{Found, documents, find_named};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An object to be scaled.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scale {
    /// As in `Deployment`.
    kind: String,
    namespace: String,
    name: String,
    /// How many.
    #[schemars(range(max = 100_000))]
    replicas: u32,
}

/// An object to be deleted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Delete {
    /// As in `Deployment`.
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
}

/// Labels to be set; one without a value is taken away.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Label {
    /// As in `Node`.
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
    labels: BTreeMap<String, Option<String>>,
}

fn name_is_there(name: &str) -> Result<(), Failure> {
    match name.is_empty() || name.contains('/') {
        true => Err(Failure::wrong(
            "name",
            format!("'{name}' is no name of an object"),
            "as in \"name\": \"web\"",
        )),
        false => Ok(()),
    }
}

async fn found(door: &Door, kind: &str) -> Result<Found, Failure> {
    let found = find_named(&door.backend.client(), kind).await;
    found.map_err(|error| Failure {
        field: Some("kind".to_owned()),
        code: if error.code == 404 { 400 } else { error.code },
        ..error.into()
    })
}

fn namespace(found: &Found, written: &str) -> Result<String, Failure> {
    match (found.namespaced, written) {
        (true, "") => {
            Err(Failure::wrong("namespace", "the namespace is missing", "as in \"namespace\": \"default\""))
        }
        (_, written) => Ok(written.to_owned()),
    }
}

pub(crate) async fn apply(State(door): State<Door>, sent: Sent) -> Result<Json<Value>, Failure> {
    let documents = documents(sent.text()?)?;
    let applied = carve_object_verbs::apply(&door.backend.client(), &documents, "default", false).await?;
    let results: Vec<Value> =
        applied.iter().map(|one| json!({"object": one.object, "outcome": one.outcome.word()})).collect();
    Ok(Json(json!({"results": results})))
}

pub(crate) async fn scale(State(door): State<Door>, sent: Sent) -> Result<Json<Value>, Failure> {
    let asked: Scale = sent.read()?;
    name_is_there(&asked.name)?;
    if asked.replicas > 100_000 {
        return Err(Failure::wrong("replicas", format!("{} are too many", asked.replicas), "100000 at most"));
    }
    let found = found(&door, &asked.kind).await?;
    let namespace = namespace(&found, &asked.namespace)?;
    carve_object_verbs::scale(&door.backend.client(), &found, &namespace, &asked.name, asked.replicas)
        .await?;
    Ok(Json(json!({"message": format!("{}/{} scaled to {}", found.title(), asked.name, asked.replicas)})))
}

pub(crate) async fn delete(State(door): State<Door>, sent: Sent) -> Result<Json<Value>, Failure> {
    let asked: Delete = sent.read()?;
    name_is_there(&asked.name)?;
    let found = found(&door, &asked.kind).await?;
    let namespace = namespace(&found, &asked.namespace)?;
    carve_object_verbs::delete(&door.backend.client(), &found, &namespace, &asked.name, None).await?;
    Ok(Json(json!({"message": format!("{}/{} deleted", found.title(), asked.name)})))
}

pub(crate) async fn label(State(door): State<Door>, sent: Sent) -> Result<Json<Value>, Failure> {
    let asked: Label = sent.read()?;
    name_is_there(&asked.name)?;
    let found = found(&door, &asked.kind).await?;
    let namespace = namespace(&found, &asked.namespace)?;
    carve_object_verbs::label(&door.backend.client(), &found, &namespace, &asked.name, &asked.labels).await?;
    Ok(Json(json!({"message": format!("{}/{} labelled", found.title(), asked.name)})))
}
