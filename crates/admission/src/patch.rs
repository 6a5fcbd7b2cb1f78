//! The difference of two JSON documents as a patch (RFC 6902).

use serde::Serialize;
use serde_json::Value;

/// One operation of a patch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum JsonPatchOp {
    /// Puts a value where none was, or at the end of a list.
    Add {
        /// Where, as a JSON pointer.
        path: String,
        /// What.
        value: Value,
    },
    /// Takes a value away.
    Remove {
        /// Where, as a JSON pointer.
        path: String,
    },
    /// Puts a value in the place of another.
    Replace {
        /// Where, as a JSON pointer.
        path: String,
        /// What.
        value: Value,
    },
}

impl JsonPatchOp {
    /// Where it changes something, as a JSON pointer.
    pub fn path(&self) -> &str {
        match self {
            JsonPatchOp::Add { path, .. }
            | JsonPatchOp::Remove { path }
            | JsonPatchOp::Replace { path, .. } => path,
        }
    }
}

/// What makes one document of another.
pub(crate) fn difference(from: &Value, to: &Value) -> Vec<JsonPatchOp> {
    let mut ops = Vec::new();
    compare(from, to, &mut String::new(), &mut ops);
    ops
}

fn compare(from: &Value, to: &Value, path: &mut String, ops: &mut Vec<JsonPatchOp>) {
    match (from, to) {
        (from, to) if from == to => {}
        (Value::Object(from), Value::Object(to)) => {
            for (key, old) in from {
                within(path, key, |path| match to.get(key) {
                    Some(new) => compare(old, new, path, ops),
                    None => ops.push(JsonPatchOp::Remove { path: path.clone() }),
                });
            }
            for (key, new) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
                within(path, key, |path| {
                    ops.push(JsonPatchOp::Add { path: path.clone(), value: new.clone() });
                });
            }
        }
        (Value::Array(from), Value::Array(to)) => {
            for (index, (old, new)) in from.iter().zip(to).enumerate() {
                within(path, &index.to_string(), |path| compare(old, new, path, ops));
            }
            // From the end, so that places of the others stay as they are.
            for index in (to.len()..from.len()).rev() {
                ops.push(JsonPatchOp::Remove { path: format!("{path}/{index}") });
            }
            for (index, new) in to.iter().enumerate().skip(from.len()) {
                ops.push(JsonPatchOp::Add { path: format!("{path}/{index}"), value: new.clone() });
            }
        }
        (_, to) => ops.push(JsonPatchOp::Replace { path: path.clone(), value: to.clone() }),
    }
}

/// Does something one step further down.
fn within(path: &mut String, key: &str, act: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
    act(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::difference;
    use proptest::prelude::{Just, Strategy, any, prop_oneof};
    use serde_json::{Value, json};

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4).prop_map(Value::from),
            "[a/~]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-c/~]{0,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect()))
            ]
        })
    }

    proptest::proptest! {
        #[test]
        fn a_difference_applied_is_the_other_document(from in document(), to in document()) {
            let ops = serde_json::to_value(difference(&from, &to)).expect("a patch");
            let patch: json_patch::Patch = serde_json::from_value(ops).expect("as others read it");
            let mut made = from.clone();
            json_patch::patch(&mut made, &patch).expect("it applies");
            proptest::prop_assert_eq!(made, to);
            proptest::prop_assert!(difference(&from, &from).is_empty());
        }
    }

    #[test]
    fn operations_are_written_as_the_api_server_reads_them() {
        let ops = difference(&json!({"a/b": 1, "c": 2}), &json!({"a/b": 3, "d": 4}));
        assert_eq!(
            serde_json::to_value(ops).expect("a patch"),
            json!([
                {"op": "replace", "path": "/a~1b", "value": 3},
                {"op": "remove", "path": "/c"},
                {"op": "add", "path": "/d", "value": 4}
            ])
        );
    }
}
