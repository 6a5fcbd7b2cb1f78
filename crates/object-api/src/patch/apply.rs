//! Server-side apply: whoever applies an object owns the fields it names, and what it names no more goes.
//!
//! Owners stand in `metadata.managedFields` as Kubernetes has it. Entries of lists are told apart as in kubectl's patches; other lists are one field.

use super::strategic::merge_key;
use crate::failure::Failure;
use crate::metadata::now;
use crate::resources::Kind;
use serde_json::{Map, Value, json};

/// Who applies, and how.
#[derive(Debug, Clone)]
pub(crate) struct Applied<'a> {
    pub(crate) manager: &'a str,
    /// Takes fields from others.
    pub(crate) force: bool,
    /// The part that is written, such as `status`.
    pub(crate) part: Option<&'a str>,
}

/// Fields that nobody owns.
const NOBODYS: &[&str] =
    &["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "name", "namespace"];

/// The fields of a value, as a set in Kubernetes' notation.
fn fields(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(inner) => {
            let inside = inner.iter().map(|(field, value)| (format!("f:{field}"), fields(field, value)));
            Value::Object(inside.collect())
        }
        Value::Array(entries) => match entries.first().and_then(|entry| merge_key(name, entry)) {
            Some(key) => {
                let inside = entries.iter().map(|entry| {
                    let mut set = fields("", entry);
                    set["."] = json!({});
                    (format!("k:{}", json!({key: entry[key]})), set)
                });
                Value::Object(inside.collect())
            }
            None => json!({}),
        },
        _ => json!({}),
    }
}

/// What an object owns when it is applied.
fn owned(object: &Value) -> Value {
    let mut set = Map::new();
    for (field, value) in object.as_object().into_iter().flatten() {
        match field.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                let inner = value.as_object().into_iter().flatten();
                let own = inner.filter(|(field, _)| !NOBODYS.contains(&field.as_str()));
                let own: Map<String, Value> =
                    own.map(|(field, value)| (format!("f:{field}"), fields(field, value))).collect();
                if !own.is_empty() {
                    set.insert("f:metadata".to_owned(), Value::Object(own));
                }
            }
            _ => {
                set.insert(format!("f:{field}"), fields(field, value));
            }
        }
    }
    Value::Object(set)
}

fn is_leaf(set: &Value) -> bool {
    set.as_object().is_none_or(Map::is_empty)
}

/// Where in a value an entry of a set leads: a field, or the position in a list.
enum Step {
    Field(String),
    Entry(Value),
    Itself,
}

fn step(word: &str) -> Step {
    match word.split_at_checked(2) {
        Some(("f:", field)) => Step::Field(field.to_owned()),
        Some(("k:", key)) => Step::Entry(serde_json::from_str(key).unwrap_or(Value::Null)),
        _ => Step::Itself,
    }
}

fn entry_at(list: &[Value], key: &Value) -> Option<usize> {
    let key = key.as_object()?;
    list.iter().position(|entry| key.iter().all(|(field, value)| entry.get(field) == Some(value)))
}

/// The value that an entry of a set leads to.
fn inside<'a>(value: &'a Value, word: &str) -> Option<&'a Value> {
    match step(word) {
        Step::Field(field) => value.get(&field),
        Step::Entry(key) => {
            let list = value.as_array()?;
            list.get(entry_at(list, &key)?)
        }
        Step::Itself => None,
    }
}

/// Takes away the fields of one set that are in no other.
fn take_away(value: &mut Value, gone: &Value, kept: &[&Value]) {
    for (word, below) in gone.as_object().into_iter().flatten() {
        let still: Vec<&Value> = kept.iter().filter_map(|set| set.get(word)).collect();
        match step(word) {
            Step::Itself => {}
            Step::Field(field) => {
                let Some(target) = value.get_mut(&field) else { continue };
                if !is_leaf(below) {
                    take_away(target, below, &still);
                }
                let empty = target.as_object().is_some_and(Map::is_empty)
                    || (target.as_array().is_some_and(Vec::is_empty) && !is_leaf(below));
                let full = target.as_object().is_some_and(|fields| !fields.is_empty());
                if still.is_empty() && ((is_leaf(below) && !full) || empty) {
                    value.as_object_mut().map(|fields| fields.remove(&field));
                }
            }
            Step::Entry(key) => {
                let Some(list) = value.as_array_mut() else { continue };
                let Some(at) = entry_at(list, &key) else { continue };
                if still.is_empty() {
                    list.remove(at);
                } else {
                    take_away(&mut list[at], below, &still);
                }
            }
        }
    }
}

/// Leaves that two sets have in common and that are to be changed.
fn conflicts(mine: &Value, theirs: &Value, wanted: &Value, now: &Value, path: &str, found: &mut Vec<String>) {
    for (word, below) in mine.as_object().into_iter().flatten() {
        let Some(other) = theirs.get(word) else { continue };
        let (Some(wanted), Some(now)) = (inside(wanted, word), inside(now, word)) else { continue };
        let path = match step(word) {
            Step::Field(field) => format!("{path}.{field}"),
            Step::Entry(key) => format!("{path}[{key}]"),
            Step::Itself => continue,
        };
        if is_leaf(below) || is_leaf(other) {
            // Whoever wants a map that is empty has nothing against what others have in it.
            if wanted != now && !wanted.is_object() {
                found.push(path);
            }
        } else {
            conflicts(below, other, wanted, now, &path, found);
        }
    }
}

/// Takes fields that somebody else has now out of a set.
fn give_up(theirs: &mut Value, mine: &Value, wanted: &Value, now: &Value) {
    let Some(sets) = theirs.as_object_mut() else { return };
    sets.retain(|word, below| {
        let Some(taken) = mine.get(word) else { return true };
        let (Some(wanted), Some(now)) = (inside(wanted, word), inside(now, word)) else { return true };
        if is_leaf(below) || is_leaf(taken) {
            return wanted == now || wanted.is_object();
        }
        give_up(below, taken, wanted, now);
        !is_leaf(below)
    });
}

/// Merges what is applied into what is there.
fn merge(name: &str, into: &mut Value, wanted: &Value) {
    match wanted {
        Value::Object(fields) => {
            if !into.is_object() {
                *into = json!({});
            }
            for (field, value) in fields {
                merge(field, &mut into[field.as_str()], value);
            }
        }
        Value::Array(entries) => {
            let key = entries.first().and_then(|entry| merge_key(name, entry));
            let (Some(key), true) = (key, into.is_array()) else {
                *into = wanted.clone();
                return;
            };
            let Value::Array(list) = into else { return };
            for entry in entries {
                match list.iter_mut().find(|one| one.get(key) == entry.get(key)) {
                    Some(found) => merge("", found, entry),
                    None => list.push(entry.clone()),
                }
            }
        }
        _ => *into = wanted.clone(),
    }
}

/// The object after somebody has applied something to it.
pub(crate) fn apply(
    before: Option<&Value>,
    wanted: &Value,
    kind: &Kind,
    applied: &Applied<'_>,
) -> Result<Value, Failure> {
    let mine = owned(wanted);
    let mut object = before
        .cloned()
        .unwrap_or_else(|| json!({"apiVersion": wanted["apiVersion"], "kind": wanted["kind"]}));
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let is_mine = |entry: &Value| {
        entry["manager"] == applied.manager
            && entry["operation"] == "Apply"
            && entry["subresource"].as_str() == applied.part
    };
    let mut found = Vec::new();
    for entry in entries.iter().filter(|entry| !is_mine(entry)) {
        let mut paths = Vec::new();
        conflicts(&mine, &entry["fieldsV1"], wanted, &object, "", &mut paths);
        let manager = entry["manager"].as_str().unwrap_or_default();
        found.extend(paths.into_iter().map(|path| format!("conflict with \"{manager}\": {path}")));
    }
    if !found.is_empty() && !applied.force {
        let words = format!("Apply failed with {} conflict(s): {}", found.len(), found.join(", "));
        return Err(Failure::conflict(&kind.named(), &name, &words));
    }
    for entry in entries.iter_mut().filter(|entry| !is_mine(entry)) {
        give_up(&mut entry["fieldsV1"], &mine, wanted, &object);
    }
    let last = entries.iter().find(|entry| is_mine(entry)).map(|entry| entry["fieldsV1"].clone());
    let old_time = entries.iter().find(|entry| is_mine(entry)).map(|entry| entry["time"].clone());
    if let Some(last) = &last {
        let mut kept: Vec<&Value> =
            entries.iter().filter(|entry| !is_mine(entry)).map(|entry| &entry["fieldsV1"]).collect();
        kept.push(&mine);
        take_away(&mut object, last, &kept);
    }
    let mut plain = wanted.clone();
    if let Some(metadata) = plain["metadata"].as_object_mut() {
        metadata.retain(|field, _| {
            !matches!(field.as_str(), "managedFields" | "resourceVersion" | "uid" | "creationTimestamp")
        });
    }
    merge("", &mut object, &plain);
    entries.retain(|entry| !is_mine(entry) && !is_leaf(&entry["fieldsV1"]));
    if !is_leaf(&mine) {
        let unchanged = last.as_ref() == Some(&mine);
        let mut entry = json!({
            "manager": applied.manager, "operation": "Apply", "apiVersion": kind.api_version(),
            "fieldsType": "FieldsV1", "fieldsV1": mine,
            "time": if unchanged { old_time.unwrap_or_else(|| now().into()) } else { now().into() },
        });
        if let Some(part) = applied.part {
            entry["subresource"] = part.into();
        }
        entries.push(entry);
    }
    match entries.is_empty() {
        true => {
            object["metadata"].as_object_mut().map(|fields| fields.remove("managedFields"));
        }
        false => object["metadata"]["managedFields"] = entries.into(),
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::{Applied, apply};
    use crate::resources::kind_named;
    use serde_json::{Value, json};

    fn by(manager: &str, force: bool) -> Applied<'_> {
        Applied { manager, force, part: None }
    }

    fn node(fields: Value) -> Value {
        let mut node = json!({"apiVersion": "v1", "kind": "Node"});
        node["metadata"] = fields;
        node["metadata"]["name"] = "n".into();
        node
    }

    fn applied(before: Option<&Value>, wanted: &Value, who: &Applied<'_>) -> Value {
        apply(before, wanted, kind_named("nodes").expect("a kind"), who).expect("it is taken")
    }

    #[test]
    fn what_is_named_no_more_goes_unless_somebody_else_wants_it() {
        let one = applied(None, &node(json!({"labels": {"a": "1", "b": "1"}})), &by("one", false));
        let two = applied(Some(&one), &node(json!({"labels": {"b": "1", "c": "1"}})), &by("two", false));
        let less = applied(Some(&two), &node(json!({"labels": {}})), &by("one", false));
        assert_eq!(less["metadata"]["labels"], json!({"b": "1", "c": "1"}));
        let none = applied(Some(&less), &node(json!({})), &by("two", false));
        assert_eq!(none["metadata"]["labels"], json!({}), "the first still wants a map");
        let none = applied(Some(&none), &node(json!({})), &by("one", false));
        assert_eq!(none["metadata"].get("labels"), None, "{none:#}");
    }

    #[test]
    fn fields_of_others_are_taken_by_force_alone() {
        let one = applied(None, &node(json!({"labels": {"a": "1"}})), &by("one", false));
        let wanted = node(json!({"labels": {"a": "2"}}));
        let kind = kind_named("nodes").expect("a kind");
        let refused = apply(Some(&one), &wanted, kind, &by("two", false)).expect_err("a conflict");
        assert!(refused.message.contains("conflict with \"one\": .metadata.labels.a"), "{}", refused.message);
        let two = applied(Some(&one), &wanted, &by("two", true));
        assert_eq!(two["metadata"]["labels"]["a"], "2");
        // Whoever lost it does not take it away any more.
        let after = applied(Some(&two), &node(json!({})), &by("one", false));
        assert_eq!(after["metadata"]["labels"]["a"], "2");
    }

    #[test]
    fn entries_of_lists_have_owners_of_their_own() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let status =
            |conditions: &[Value]| json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}});
        let who = |manager| Applied { manager, force: true, part: Some("status") };
        let one = applied(None, &status(&[condition("A", "True")]), &who("one"));
        let two = applied(Some(&one), &status(&[condition("B", "True")]), &who("two"));
        let changed = applied(Some(&two), &status(&[condition("A", "False")]), &who("one"));
        assert_eq!(changed["status"]["conditions"], json!([condition("A", "False"), condition("B", "True")]));
        let gone = applied(Some(&changed), &json!({"metadata": {"name": "n"}}), &who("one"));
        assert_eq!(gone["status"]["conditions"], json!([condition("B", "True")]));
    }

    #[test]
    fn applying_the_same_again_changes_nothing() {
        let wanted = node(json!({"labels": {"a": "1"}, "annotations": {"x": "y"}}));
        let once = applied(None, &wanted, &by("one", false));
        assert_eq!(applied(Some(&once), &wanted, &by("one", false)), once);
    }
}
