//! What holds of every object, of whatever kind: its outline, its labels and its annotations.

use super::{Causes, wrong_name};
use crate::failure::Failure;
use serde_json::{Value, json};

/// How deep objects may be nested. What is written down is read again by a reader that gives up at 128.
const DEEPEST: usize = 100;

/// Refuses what is no object, so that whoever comes after may look into it.
pub(crate) fn shape(object: &mut Value) -> Result<(), Failure> {
    let wrong = |field: &str, why: String| Err(Failure::unreadable(format!("{field}: {why}"), field, &why));
    if !object.is_object() {
        let why = "it is no object; write fields, as in {\"apiVersion\": \"v1\", \"kind\": \"Pod\"}";
        return Err(Failure::unreadable(format!("the body does not read: {why}"), "body", why));
    }
    if is_deeper(object, DEEPEST) {
        return wrong("body", format!("it is nested deeper than {DEEPEST} levels"));
    }
    match &object["metadata"] {
        Value::Null => object["metadata"] = json!({}),
        Value::Object(_) => {}
        _ => return wrong("metadata", "it is no object; write fields, as in {\"name\": \"a\"}".to_owned()),
    }
    for field in ["name", "generateName", "namespace"] {
        let value = &object["metadata"][field];
        if !value.is_null() && !value.is_string() {
            return wrong(&format!("metadata.{field}"), format!("{value} is no text"));
        }
    }
    Ok(())
}

fn is_deeper(value: &Value, than: usize) -> bool {
    let Some(left) = than.checked_sub(1) else { return true };
    match value {
        Value::Object(fields) => fields.values().any(|inner| is_deeper(inner, left)),
        Value::Array(entries) => entries.iter().any(|inner| is_deeper(inner, left)),
        _ => false,
    }
}

/// Checks labels and annotations of something that has a name.
pub(crate) fn labels_in(metadata: &Value, path: &str, causes: &mut Causes) {
    for (field, is_label) in [("labels", true), ("annotations", false)] {
        for (key, value) in metadata[field].as_object().into_iter().flatten() {
            let field = format!("{path}.{field}.{key}");
            if !is_key(key) {
                let why = "must be up to 63 letters, digits, '-', '_' and '.', with a domain and '/' in front where it has an owner";
                causes.push((field, format!("Invalid value: \"{key}\": {why}")));
            } else if is_label && !value.as_str().is_some_and(is_label_value) {
                let why = "a label value is up to 63 letters, digits, '-', '_' and '.'";
                causes.push((field, format!("Invalid value: {value}: {why}")));
            } else if !value.is_string() {
                causes.push((field, format!("Invalid value: {value}: must be a text; put it in quotes")));
            }
        }
    }
}

fn is_key(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    !name.is_empty() && is_label_value(name) && domain.is_none_or(|domain| wrong_name(domain).is_none())
}

fn is_label_value(value: &str) -> bool {
    let inside = |letter: u8| letter.is_ascii_alphanumeric();
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|letter| inside(*letter) || b"-_.".contains(letter))
        && bytes.first().is_none_or(|letter| inside(*letter))
        && bytes.last().is_none_or(|letter| inside(*letter))
}
