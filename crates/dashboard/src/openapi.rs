//! What can be asked, for programs: an OpenAPI document made of the types themselves.

use crate::backend::About;
use crate::changes::{Delete, Label, Scale};
use crate::failure::Failure;
use crate::what_if::Asked;
use carve_fleet_picture::{Changes, Picture, Summary};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    serde_json::to_value(generator.subschema_for::<T>()).unwrap_or_default()
}

fn parameter(name: &str, schema: &Value, words: &str) -> Value {
    json!({"name": name, "in": "query", "required": false, "description": words, "schema": schema})
}

/// An answer that says what is wrong.
fn wrong(words: &str) -> Value {
    json!({"description": words, "content": {"application/json": {"schema": reference("Failure")}}})
}

/// The same where it is always a field that is wrong.
fn wrong_field(words: &str) -> Value {
    let schema = json!({"allOf": [reference("Failure")], "required": ["field"]});
    json!({"description": words, "content": {"application/json": {"schema": schema}}})
}

/// What an answer is, beside what goes wrong.
fn responses(schema: &Value, content: &str) -> Value {
    json!({
        "200": {"description": "the answer", "content": {content: {"schema": schema}}},
        "400": wrong_field("something in the question can not be so"),
        "401": wrong("a token is needed"),
        "403": wrong("it is not allowed here"),
        "404": wrong("there is no such thing"),
        "405": wrong("it can not be asked with this method"),
        "500": wrong("something here has failed"),
        "502": wrong("the cluster does not answer"),
    })
}

fn look(summary: &str, parameters: Vec<Value>, schema: &Value, content: &str) -> Value {
    json!({"get": {"summary": summary, "parameters": parameters, "responses": responses(schema, content)}})
}

fn act(summary: &str, body: &Value, contents: &[&str], example: &Value, schema: &Value) -> Value {
    let mut responses = responses(schema, "application/json");
    responses["409"] = wrong("somebody else has changed it");
    responses["413"] = wrong("the body is too large");
    responses["415"] = wrong_field("the body is of another kind");
    responses["422"] = wrong_field("an object can not be so");
    responses["507"] = wrong("there is no room to write the change down; nothing was changed");
    let content: Map<String, Value> = contents
        .iter()
        .map(|kind| ((*kind).to_owned(), json!({"schema": body, "example": example})))
        .collect();
    json!({"post": {
        "summary": summary,
        "requestBody": {"required": true, "content": content},
        "responses": responses,
    }})
}

/// A manifest, as far as it is the same for every kind of objects; several are a YAML stream.
fn manifest() -> Value {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"});
    json!({
        "type": "object", "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": {"type": "string", "minLength": 1}, "kind": {"type": "string", "minLength": 1},
            "metadata": {"type": "object", "required": ["name"], "properties": {"name": name, "namespace": {"type": ["string", "null"]}}},
        },
    })
}

/// One that can be applied.
fn deployment() -> Value {
    let container = json!({"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"limits": {"nvidia.com/gpu": 1}}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    })
}

/// A node, and what it could be.
fn node() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    let resource =
        json!({"type": "object", "required": ["all", "used"], "properties": {"all": count, "used": count}});
    json!({
        "type": "object", "required": ["name", "labels", "migConfigs", "resources"],
        "properties": {
            "name": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "migConfigs": {"type": "array", "items": {"type": "string"}},
            "resources": {"type": "object", "additionalProperties": resource},
        },
    })
}

/// The document.
pub(crate) fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let text = json!({"type": "string"});
    let whole = json!({"type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX});
    let any = json!({"type": "object"});
    let said = json!({"type": "object", "properties": {"message": text}, "required": ["message"]});
    let (about, picture, changes, summary) = (
        of::<About>(&mut generator),
        of::<Picture>(&mut generator),
        of::<Changes>(&mut generator),
        of::<Summary>(&mut generator),
    );
    let (what_if, scale, delete, label) = (
        of::<Asked>(&mut generator),
        of::<Scale>(&mut generator),
        of::<Delete>(&mut generator),
        of::<Label>(&mut generator),
    );
    of::<Failure>(&mut generator);
    let numbered = json!({
        "type": "object", "required": ["version", "picture"],
        "properties": {"version": whole, "picture": picture},
    });
    let looks = json!({"type": "object", "required": ["looks"], "properties": {"looks": {"type": "array", "items": summary}}});
    let by = json!({"type": "string", "enum": ["namespace", "workload", "node", "mechanism"]});
    let window = json!({"type": "string", "pattern": "^(today|yesterday|[0-9]+[smhdw]|[0-9][0-9TZ:.+-]*(,[0-9][0-9TZ:.+-]*)?)$"});
    let since = parameter(
        "since",
        &window,
        "a window: 90m, 24h, 7d, today, or two moments with a comma between them",
    );
    let mut paths = Map::new();
    let mut path = |name: &str, answer: Value| drop(paths.insert(name.to_owned(), answer));
    let json_text = "application/json";
    path("/api/v1/about", look("What this is", Vec::new(), &about, json_text));
    let at = parameter("at", &whole, "seconds since 1970; the newest where it is left away");
    path("/api/v1/picture", look("Every GPU as its slices", vec![at], &numbered, json_text));
    let version = parameter(
        "since",
        &json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}),
        "the version of the picture that you have",
    );
    path(
        "/api/v1/stream",
        look(
            "What changes, as server-sent events of this form",
            vec![version],
            &changes,
            "text/event-stream",
        ),
    );
    let from =
        parameter("since", &whole, "seconds since 1970; everything that is kept where it is left away");
    path("/api/v1/history", look("The last hours in a few numbers each", vec![from], &looks, json_text));
    path("/api/v1/ledger", look("The books, machine by machine", vec![since.clone()], &any, json_text));
    path(
        "/api/v1/cost",
        look("Who pays", vec![since.clone(), parameter("by", &by, "what rows are about")], &any, json_text),
    );
    let aggregate = parameter("aggregate", &text, "as OpenCost has it");
    path(
        "/allocation/compute",
        look("Who pays, in the words of OpenCost", vec![since, aggregate], &any, json_text),
    );
    path("/api/v1/advice", look("What should be changed, with its evidence", Vec::new(), &any, json_text));
    path("/api/v1/workloads", look("What makes pods", Vec::new(), &any, json_text));
    let mut named = parameter("name", &json!({"type": "string", "minLength": 1}), "the node");
    (named["required"], named["example"]) = (true.into(), "p4d-1".into());
    path("/api/v1/node", look("A node: its labels and what it could be", vec![named], &node(), json_text));
    path("/metrics", look("Series of what is used", Vec::new(), &text, "text/plain"));
    path(
        "/api/v1/what-if",
        act(
            "The same workloads on other machines",
            &what_if,
            &[json_text],
            &json!({"fleet": "p4d.24xlarge=1,g5.2xlarge=2", "mechanisms": ["mig"], "shares": 4}),
            &any,
        ),
    );
    path(
        "/api/v1/apply",
        act(
            "Applies manifests: all of them, or none",
            &manifest(),
            &["application/yaml", json_text],
            &deployment(),
            &any,
        ),
    );
    path(
        "/api/v1/scale",
        act(
            "Makes it so many",
            &scale,
            &[json_text],
            &json!({"kind": "Deployment", "namespace": "default", "name": "web", "replicas": 3}),
            &said,
        ),
    );
    path(
        "/api/v1/delete",
        act(
            "Deletes an object",
            &delete,
            &[json_text],
            &json!({"kind": "Deployment", "namespace": "default", "name": "web"}),
            &said,
        ),
    );
    path(
        "/api/v1/label",
        act(
            "Sets and takes away labels",
            &label,
            &[json_text],
            &json!({"kind": "Node", "name": "p4d-1", "labels": {"pool": "train", "old": null}}),
            &said,
        ),
    );
    json!({
        "openapi": "3.1.0",
        "info": {"title": "carve", "version": env!("CARGO_PKG_VERSION"), "description": "What the dashboard asks. Whatever is wrong with a question is said with its field and a hint."},
        "paths": paths,
        "components": {
            "schemas": generator.definitions(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::document;
    use serde_json::Value;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|inner| references(inner, found));
            }
            Value::Array(entries) => entries.iter().for_each(|inner| references(inner, found)),
            _ => {}
        }
    }

    #[test]
    fn everything_that_is_named_is_there() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 10, "{found:?}");
        for name in found {
            let pointer = name.strip_prefix('#').expect("inside");
            assert!(document.pointer(pointer).is_some(), "{name}");
        }
    }
}
