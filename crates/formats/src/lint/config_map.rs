//! Files inside Kubernetes objects: every text in a ConfigMap's `data`, and every item of a List.

use super::{Inside, LintedDocument, keys, lint_text};
use crate::diagnostic::{Diagnostic, Finding, Place, Report, Severity};
use crate::kubernetes_yaml::{Node, Position, Value};

/// Whether a document is a Kubernetes object.
pub(super) fn is_object(node: &Node) -> bool {
    let keys = keys(node);
    keys.contains(&"apiVersion") && keys.contains(&"kind")
}

/// The documents inside an object, or `None` if the document is none.
pub(super) fn lint_object(node: &Node, name: &str) -> Option<Vec<LintedDocument>> {
    let Value::Mapping(mapping) = &node.value else { return None };
    if !is_object(node) {
        return None;
    }
    let kind = text(mapping.get("kind")).unwrap_or("object");
    if let Some(Node { value: Value::Sequence(items), .. }) = mapping.get("items") {
        let documents = items.iter().enumerate().flat_map(|(index, item)| {
            let name = join(name, &format!("item {}", index + 1));
            lint_object(item, &name).unwrap_or_else(|| vec![not_an_object(item, name)])
        });
        return Some(documents.collect());
    }
    if kind != "ConfigMap" {
        let message =
            format!("this is a Kubernetes {kind}; only ConfigMaps carry the files that can be checked");
        return Some(vec![remark(node, name.to_owned(), message)]);
    }
    let metadata = mapping.get("metadata").and_then(|node| match &node.value {
        Value::Mapping(metadata) => text(metadata.get("name")),
        _ => None,
    });
    let name = join(name, &format!("ConfigMap/{}", metadata.unwrap_or("(no name)")));
    let Some(Node { value: Value::Mapping(data), .. }) = mapping.get("data") else {
        return Some(vec![remark(node, name, "this ConfigMap has no data".to_owned())]);
    };
    let documents = data.iter().flat_map(|(key, file)| lint_file(file, &format!("{name}: {}", key.text)));
    Some(documents.collect())
}

fn lint_file(file: &Node, name: &str) -> Vec<LintedDocument> {
    let Value::String(content) = &file.value else {
        return vec![remark(file, name.to_owned(), "a ConfigMap holds only texts".to_owned())];
    };
    let mut documents = lint_text(content, Inside::Object);
    for document in &mut documents {
        document.name = join(name, &document.name);
        for diagnostic in &mut document.diagnostics {
            diagnostic.at = diagnostic.at.map(|at| outer_position(file, at));
            // A ConfigMap may carry files of other programs: not knowing one is no error.
            if document.format.is_none() && diagnostic.message.starts_with("this is YAML, but neither") {
                diagnostic.severity = Severity::Warning;
            }
        }
    }
    documents
}

/// Where a place of the inner file is in the outer one. Only in a literal block do the lines correspond.
fn outer_position(file: &Node, at: Position) -> Position {
    match file.literal {
        Some(block) => Position { line: block.first_line + at.line - 1, column: block.indent + at.column },
        None => file.at,
    }
}

fn not_an_object(item: &Node, name: String) -> LintedDocument {
    remark(item, name, "this item is no Kubernetes object".to_owned())
}

fn remark(node: &Node, name: String, message: String) -> LintedDocument {
    let mut report = Report::default();
    Finding::warning(&Place::root(node), message).report(&mut report);
    let diagnostics: Vec<Diagnostic> = report.finish::<()>(None).diagnostics;
    LintedDocument { format: None, name, diagnostics }
}

fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", inner) => inner.to_owned(),
        (outer, "") => outer.to_owned(),
        (outer, inner) => format!("{outer}, {inner}"),
    }
}

fn text(node: Option<&Node>) -> Option<&str> {
    match &node?.value {
        Value::String(text) => Some(text),
        _ => None,
    }
}
