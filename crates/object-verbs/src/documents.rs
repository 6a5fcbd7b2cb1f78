//! Manifests, read as Kubernetes reads them.

use crate::VerbError;
use carve_formats::kubernetes_yaml::parse_stream;
use serde_json::Value;

/// An object as somebody has written it.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The object.
    pub object: Value,
    /// In which line it begins.
    pub line: usize,
}

impl Document {
    /// `kind/name`, as far as it says so.
    pub fn title(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        format!("{}/{}", text(&self.object["kind"]).to_lowercase(), text(&self.object["metadata"]["name"]))
    }
}

/// All objects of a text; lists are taken apart.
pub fn documents(text: &str) -> Result<Vec<Document>, VerbError> {
    let (nodes, error) = parse_stream(text);
    if let Some(error) = error {
        let failure = VerbError::new(400, format!("this does not read: {error}"));
        return Err(VerbError { field: Some(error.at.to_string()), ..failure }.hint("nothing was applied"));
    }
    let mut found = Vec::new();
    for node in nodes {
        let line = node.at.line;
        let object: Value = serde_json::from_str(&node.to_json()).unwrap_or(Value::Null);
        match object {
            Value::Null => {}
            Value::Object(ref fields)
                if fields.get("items").is_some_and(Value::is_array) && is_list(&object) =>
            {
                let items = object["items"].as_array().into_iter().flatten();
                found.extend(items.map(|item| Document { object: item.clone(), line }));
            }
            Value::Object(_) => found.push(Document { object, line }),
            _ => {
                let failure = VerbError::new(400, format!("line {line}: this is no object"));
                return Err(VerbError { field: Some(format!("line {line}")), ..failure }
                    .hint("write fields, as in apiVersion: v1, kind: Pod; nothing was applied"));
            }
        }
    }
    for document in &found {
        for field in ["apiVersion", "kind"] {
            if document.object[field].as_str().is_none_or(str::is_empty) {
                let failure = VerbError::new(400, format!("line {}: {field} is missing", document.line));
                return Err(VerbError { field: Some(field.to_owned()), ..failure }
                    .hint("every object says what it is, as in apiVersion: v1, kind: Pod"));
            }
        }
    }
    match found.is_empty() {
        true => {
            let failure = VerbError::new(400, "there is no object in it");
            Err(VerbError { field: Some("body".to_owned()), ..failure }
                .hint("write manifests, as in apiVersion: v1, kind: Pod"))
        }
        false => Ok(found),
    }
}

fn is_list(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
}

#[cfg(test)]
mod tests {
    use super::documents;

    #[test]
    fn objects_are_found_and_lists_taken_apart() {
        let text = "# a comment\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: a}\n---\n---\nkind: List\napiVersion: v1\nitems:\n- {kind: Pod, apiVersion: v1, metadata: {name: b}}\n- {kind: Node, apiVersion: v1, metadata: {name: c}}\n";
        let found: Vec<String> =
            documents(text).expect("objects").iter().map(super::Document::title).collect();
        assert_eq!(found, ["pod/a", "pod/b", "node/c"]);
    }

    #[test]
    fn what_does_not_read_is_told_with_its_line() {
        for (text, words) in [
            ("", "no object"),
            ("kind: [", "does not read"),
            ("kind: Pod\n", "apiVersion is missing"),
            ("- 1\n- 2\n", "no object"),
            ("apiVersion: v1\nkind: Pod\n---\napiVersion: v1\n", "kind is missing"),
        ] {
            let error = documents(text).expect_err(text);
            assert!(error.message.contains(words), "{text:?}: {}", error.message);
        }
    }
}
