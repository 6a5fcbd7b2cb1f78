//! Objects of ours, checked by their definitions as an API server checks them.

use super::Causes;
use crate::resources::Kind;
use cel::{Context, Program};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// What a definition says of an object.
#[derive(Debug)]
pub(super) struct Schema(Value);

static SCHEMAS: LazyLock<Vec<(String, Schema)>> = LazyLock::new(|| {
    let definitions = carve_slice_policy::definitions().into_iter();
    definitions
        .filter_map(|(_, definition)| {
            let plural = definition.spec.names.plural.clone();
            let version = definition.spec.versions.into_iter().next()?;
            let schema = serde_json::to_value(version.schema?.open_api_v3_schema?).ok()?;
            Some((plural, Schema(schema)))
        })
        .collect()
});

/// The definition of a kind, if it is one of ours.
pub(super) fn of(kind: &Kind) -> Option<&'static Schema> {
    if kind.group != carve_slice_policy::GROUP {
        return None;
    }
    SCHEMAS.iter().find(|(plural, _)| plural == kind.plural).map(|(_, schema)| schema)
}

/// What is collected on the way through an object.
struct Found<'a> {
    causes: &'a mut Causes,
    strangers: Vec<String>,
}

impl Schema {
    /// Fills in defaults, and tells which fields nobody knows.
    pub(super) fn check(&self, object: &mut Value, causes: &mut Causes) -> Vec<String> {
        let mut found = Found { causes, strangers: Vec::new() };
        for (field, schema) in self.0["properties"].as_object().into_iter().flatten() {
            if !matches!(field.as_str(), "metadata" | "apiVersion" | "kind")
                && let Some(value) = object.get_mut(field)
            {
                found.value(field, value, schema);
            }
        }
        for field in required(&self.0).filter(|field| object.get(field).is_none_or(Value::is_null)) {
            found.causes.push((field.to_owned(), "Required value".to_owned()));
        }
        found.strangers
    }
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

impl Found<'_> {
    fn wrong(&mut self, path: &str, why: String) {
        self.causes.push((path.to_owned(), why));
    }

    fn value(&mut self, path: &str, value: &mut Value, schema: &Value) {
        if value.is_null() && schema["nullable"] == true {
            return;
        }
        if let Some(wanted) = schema["type"].as_str().filter(|wanted| !is_of(value, wanted)) {
            let why = format!("Invalid value: {value}: must be of type {wanted}");
            return self.wrong(path, why);
        }
        if let Some(known) = schema["enum"].as_array().filter(|known| !known.contains(value)) {
            let words: Vec<String> = known.iter().map(Value::to_string).collect();
            let why = format!("Unsupported value: {value}: supported values: {}", words.join(", "));
            return self.wrong(path, why);
        }
        let before = self.causes.len();
        self.size(path, value, schema);
        match value {
            Value::Object(_) => self.object(path, value, schema),
            Value::Array(entries) => {
                for (number, entry) in entries.iter_mut().enumerate() {
                    self.value(&format!("{path}[{number}]"), entry, &schema["items"]);
                }
            }
            _ => {}
        }
        // Rules take it for granted that what they look at is of the right type.
        if self.causes.len() == before {
            self.rules(path, value, schema);
        }
    }

    fn size(&mut self, path: &str, value: &Value, schema: &Value) {
        let (number, what) = match value {
            Value::Number(number) => (number.as_f64().unwrap_or(0.0), ("minimum", "maximum", "")),
            Value::String(text) => (text.chars().count() as f64, ("minLength", "maxLength", " letters")),
            Value::Array(entries) => (entries.len() as f64, ("minItems", "maxItems", " entries")),
            Value::Object(fields) => (fields.len() as f64, ("minProperties", "maxProperties", " fields")),
            _ => return,
        };
        let (least, most, unit) = what;
        if let Some(least) = schema[least].as_f64().filter(|least| number < *least) {
            let why = format!("Invalid value: {value}: should be greater than or equal to {least}{unit}");
            self.wrong(path, why);
        }
        if let Some(most) = schema[most].as_f64().filter(|most| number > *most) {
            let why = format!("Invalid value: {value}: should be less than or equal to {most}{unit}");
            self.wrong(path, why);
        }
    }

    fn object(&mut self, path: &str, value: &mut Value, schema: &Value) {
        let known = schema["properties"].as_object();
        for (field, schema) in known.into_iter().flatten() {
            if let (None, Some(default)) = (value.get(field), schema.get("default")) {
                value[field.as_str()] = default.clone();
            }
        }
        for field in required(schema).filter(|field| value.get(field).is_none()) {
            self.wrong(&format!("{path}.{field}"), "Required value".to_owned());
        }
        let free = schema["x-kubernetes-preserve-unknown-fields"] == true;
        for (field, inner) in value.as_object_mut().into_iter().flatten() {
            let path = format!("{path}.{field}");
            match (known.and_then(|known| known.get(field)), &schema["additionalProperties"]) {
                (Some(schema), _) => self.value(&path, inner, schema),
                (None, Value::Object(schema)) => self.value(&path, inner, &Value::Object(schema.clone())),
                (None, Value::Bool(true)) => {}
                (None, _) if free => {}
                (None, _) => self.strangers.push(path),
            }
        }
    }

    fn rules(&mut self, path: &str, value: &Value, schema: &Value) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let Some(text) = rule["rule"].as_str() else { continue };
            match holds(text, value) {
                Ok(true) => {}
                Ok(false) => {
                    let message = rule["message"].as_str().unwrap_or(text);
                    self.wrong(path, format!("Invalid value: {message}"));
                }
                Err(error) => self.wrong(path, format!("the rule {text} can not be tried: {error}")),
            }
        }
    }
}

fn is_of(value: &Value, wanted: &str) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    }
}

fn holds(rule: &str, value: &Value) -> Result<bool, String> {
    let program = Program::compile(rule).map_err(|error| error.to_string())?;
    let mut context = Context::default();
    // Numbers of JSON without a sign would be another type than those in rules.
    context.add_variable("self", signed(value)).map_err(|error| error.to_string())?;
    match program.execute(&context).map_err(|error| error.to_string())? {
        cel::Value::Bool(holds) => Ok(holds),
        other => Err(format!("it is {other:?} and neither true nor false")),
    }
}

fn signed(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_i64().map_or_else(|| value.clone(), |number| json!(number)),
        Value::Array(entries) => entries.iter().map(signed).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(field, value)| (field.clone(), signed(value))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{SCHEMAS, holds};
    use serde_json::{Value, json};

    fn rules(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Object(fields) => {
                let own = fields.get("x-kubernetes-validations").and_then(Value::as_array);
                found.extend(
                    own.into_iter().flatten().filter_map(|rule| rule["rule"].as_str().map(str::to_owned)),
                );
                fields.values().for_each(|inner| rules(inner, found));
            }
            Value::Array(entries) => entries.iter().for_each(|inner| rules(inner, found)),
            _ => {}
        }
    }

    #[test]
    fn every_rule_of_our_definitions_can_be_tried() {
        let mut found = Vec::new();
        for (_, schema) in SCHEMAS.iter() {
            rules(&schema.0, &mut found);
        }
        assert!(found.len() >= 8, "{found:?}");
        for rule in found {
            cel::Program::compile(&rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
        }
        assert_eq!(holds("!has(self.a) || self.a > 0", &json!({})), Ok(true));
        assert_eq!(holds("!has(self.a) || self.a > 0", &json!({"a": 0})), Ok(false));
    }
}
