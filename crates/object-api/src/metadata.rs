//! What every object has: who it is, when it was made, which of its versions it is.

use crate::failure::Failure;
use crate::resources::Kind;
use serde_json::{Value, json};

/// A moment as objects have it.
pub(crate) fn now() -> String {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// A few letters that no other object of that name has.
fn suffix() -> String {
    let letters: Vec<char> = "bcdfghjklmnpqrstvwxz2456789".chars().collect();
    let random = uuid::Uuid::new_v4();
    random.as_bytes()[..5].iter().map(|byte| letters[usize::from(*byte) % letters.len()]).collect()
}

/// A new object gets its name and its identity.
pub(crate) fn born(object: &mut Value, kind: &Kind, namespace: Option<&str>) -> Result<String, Failure> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let metadata = &mut object["metadata"];
    if metadata["name"].as_str().is_none_or(str::is_empty) {
        let prefix =
            metadata["generateName"].as_str().filter(|prefix| !prefix.is_empty()).ok_or_else(|| {
                let cause = (
                    "metadata.name".to_owned(),
                    "Required value: name or generateName is required".to_owned(),
                );
                Failure::invalid(kind.kind, "", vec![cause])
            })?;
        metadata["name"] = format!("{prefix}{}", suffix()).into();
    }
    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
    match namespace {
        Some(namespace) => match metadata["namespace"].as_str().filter(|written| !written.is_empty()) {
            Some(written) if written != namespace => {
                return Err(Failure::bad_request(format!(
                    "the namespace of the provided object does not match the namespace sent on the request ({written}, {namespace})"
                )));
            }
            _ => metadata["namespace"] = namespace.into(),
        },
        None => {
            metadata.as_object_mut().map(|fields| fields.remove("namespace"));
        }
    }
    metadata["uid"] = uuid::Uuid::new_v4().to_string().into();
    metadata["creationTimestamp"] = now().into();
    if let Some(fields) = metadata.as_object_mut() {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            fields.remove(field);
        }
    }
    if has_generation(kind) {
        metadata["generation"] = 1.into();
    }
    Ok(name)
}

fn has_generation(kind: &Kind) -> bool {
    kind.parts.contains(&"status")
}

/// A changed object keeps its identity, whatever was written.
pub(crate) fn grown(object: &mut Value, before: &Value, kind: &Kind) {
    let old = &before["metadata"];
    for field in
        ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "name", "namespace"]
    {
        match &old[field] {
            Value::Null => {
                object["metadata"].as_object_mut().map(|fields| fields.remove(field));
            }
            value => object["metadata"][field] = value.clone(),
        }
    }
    if has_generation(kind) {
        let number = old["generation"].as_i64().unwrap_or(1);
        let changed = object["spec"] != before["spec"];
        object["metadata"]["generation"] = (number + i64::from(changed)).into();
    }
}

/// Whether two objects differ in nothing but their version.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    let plain = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
            if let Some(fields) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
                for entry in fields {
                    entry.as_object_mut().map(|entry| entry.remove("time"));
                }
            }
        }
        object
    };
    plain(one) == plain(other)
}
