//! Patches of kubectl, which know by which field the entries of a list are told apart.

use serde_json::{Map, Value};

/// By which field entries of a list are told apart; lists that are not here are replaced as a whole.
pub(super) fn merge_key(field: &str, entry: &Value) -> Option<&'static str> {
    let has = |key: &str| entry.get(key).is_some();
    match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "resourceClaims" => Some("name"),
        "conditions" => Some("type"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "ownerReferences" => Some("uid"),
        "addresses" if has("type") => Some("type"),
        "taints" => Some("key"),
        "ports" if has("containerPort") => Some("containerPort"),
        "ports" if has("port") => Some("port"),
        "hostAliases" => Some("ip"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

/// What directives are called.
fn is_directive(field: &str) -> bool {
    field.starts_with('$')
}

/// Merges a patch into a value.
pub(super) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *into = patch.clone();
        return;
    };
    if fields.get("$patch").is_some_and(|word| word == "replace") {
        *into = without_directives(fields);
        return;
    }
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Value::Object(target) = into else { return };
    if let Some(kept) = fields.get("$retainKeys").and_then(Value::as_array) {
        target.retain(|field, _| kept.iter().any(|one| one == field));
    }
    for (field, value) in fields {
        if let Some(list) = field.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value.as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(Value::Array(entries)) = target.get_mut(list) {
                entries.retain(|entry| !gone.contains(entry));
            }
            continue;
        }
        if is_directive(field) {
            continue;
        }
        match value {
            Value::Null => {
                target.remove(field);
            }
            Value::Object(inner) if inner.get("$patch").is_some_and(|word| word == "delete") => {
                target.remove(field);
            }
            Value::Array(entries) => merge_list(target, field, entries),
            _ => merge(target.entry(field.clone()).or_insert(Value::Null), value),
        }
    }
    for (field, order) in fields
        .iter()
        .filter_map(|(field, order)| Some((field.strip_prefix("$setElementOrder/")?, order.as_array()?)))
    {
        set_order(target, field, order);
    }
}

fn without_directives(fields: &Map<String, Value>) -> Value {
    let plain = fields.iter().filter(|(field, _)| !is_directive(field));
    Value::Object(plain.map(|(field, value)| (field.clone(), value.clone())).collect())
}

fn merge_list(target: &mut Map<String, Value>, field: &str, patch: &[Value]) {
    let real = |entry: &&Value| !entry.get("$patch").is_some_and(|word| word == "replace");
    let replaces = patch.iter().any(|entry| !real(&entry));
    let key = patch.iter().filter(real).find_map(|entry| merge_key(field, entry));
    let (Some(key), false) = (key, replaces) else {
        let entries = patch.iter().filter(real).cloned().collect();
        target.insert(field.to_owned(), Value::Array(entries));
        return;
    };
    let list = target.entry(field.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Value::Array(entries) = list else { return };
    for change in patch {
        let at =
            entries.iter().position(|entry| entry.get(key).is_some() && entry.get(key) == change.get(key));
        let deletes = change.get("$patch").is_some_and(|word| word == "delete");
        match (at, deletes) {
            (Some(at), true) => {
                entries.remove(at);
            }
            (None, true) => {}
            (Some(at), false) => merge(&mut entries[at], change),
            (None, false) => {
                let mut entry = Value::Null;
                merge(&mut entry, change);
                entries.push(entry);
            }
        }
    }
}

/// Puts entries into an order; those that it does not name come last, as they were.
fn set_order(target: &mut Map<String, Value>, field: &str, order: &[Value]) {
    let Some(Value::Array(entries)) = target.get_mut(field) else { return };
    let key = entries.first().and_then(|entry| merge_key(field, entry));
    let place = |entry: &Value| {
        let is = |one: &Value| match key {
            Some(key) => one.get(key) == entry.get(key),
            None => one == entry,
        };
        order.iter().position(is).unwrap_or(order.len())
    };
    entries.sort_by_key(place);
}

#[cfg(test)]
mod tests {
    use super::merge;
    use serde_json::{Value, json};

    fn merged(mut object: Value, patch: &Value) -> Value {
        merge(&mut object, patch);
        object
    }

    #[test]
    fn entries_are_told_apart_by_their_keys() {
        let object =
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}], "args": ["x"]});
        let patch = json!({
            "containers": [{"name": "b", "image": "3"}, {"name": "c", "image": "4"}, {"name": "a", "$patch": "delete"}],
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
            "args": ["y", "z"],
        });
        assert_eq!(
            merged(object, &patch),
            json!({"containers": [{"name": "c", "image": "4"}, {"name": "b", "image": "3"}], "args": ["y", "z"]})
        );
    }

    #[test]
    fn nothing_takes_away_and_directives_are_not_kept() {
        let object =
            json!({"a": {"b": 1, "c": 2}, "list": ["x", "y"], "strategy": {"type": "R", "rolling": {}}});
        let patch = json!({
            "a": {"b": null, "d": {"e": 1}},
            "$deleteFromPrimitiveList/list": ["x"],
            "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
        });
        assert_eq!(
            merged(object, &patch),
            json!({"a": {"c": 2, "d": {"e": 1}}, "list": ["y"], "strategy": {"type": "Recreate"}})
        );
        assert_eq!(
            merged(json!({"a": {"b": 1}}), &json!({"a": {"$patch": "replace", "c": 1}})),
            json!({"a": {"c": 1}})
        );
    }
}
