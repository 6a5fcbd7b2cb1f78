//! Objects as rows, the way `get` prints them.

mod columns;

use crate::resources::Kind;
use carve_object_store::Version;
use columns::{Column, columns};
use serde_json::{Value, json};

/// A table of objects of one kind.
pub(crate) fn of(kind: &Kind, objects: &[&Value], version: Option<Version>) -> Value {
    let columns = columns(kind);
    let heads: Vec<Value> = columns
        .iter()
        .map(|Column { name, wide, .. }| {
            let format = if *name == "Name" { "name" } else { "" };
            json!({"name": name, "type": "string", "format": format, "description": "", "priority": u8::from(*wide)})
        })
        .collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells: Vec<String> = columns.iter().map(|column| (column.cell)(object)).collect();
            let head = json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"],
            });
            json!({"cells": cells, "object": head})
        })
        .collect();
    let metadata = version.map_or(json!({}), |version| json!({"resourceVersion": version.to_string()}));
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": metadata,
        "columnDefinitions": heads, "rows": rows,
    })
}
