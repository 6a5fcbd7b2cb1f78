//! Looks at any text, says which documents it holds and what is wrong or doubtful in each.
//!
//! A text may be a file as NVIDIA's programs read it, a Kubernetes ConfigMap or List with such files in it, or a stream
//! of several documents. Findings carry the lines of the text as given, also for files inside a ConfigMap.

mod config_map;
mod recognise;

pub use recognise::Format;

use crate::diagnostic::{Diagnostic, Finding, Place, Report, Severity};
use crate::kubernetes_yaml::{self, Node, Value};
use crate::{DevicePluginConfig, MigCheckpoint, MigHooks, MigPartedConfig};
use recognise::Recognised;
use std::fmt;

/// What was found in a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LintReport {
    /// Every document that was looked at.
    pub documents: Vec<LintedDocument>,
}

/// What was found in one document.
#[derive(Debug, Clone, PartialEq)]
pub struct LintedDocument {
    /// What it is, if that is known.
    pub format: Option<Format>,
    /// Where it was found: `ConfigMap/name: key`, or `document 2`, or empty where the text is one document.
    pub name: String,
    /// The findings.
    pub diagnostics: Vec<Diagnostic>,
}

impl LintReport {
    /// Whether any document would be refused.
    pub fn has_errors(&self) -> bool {
        let mut diagnostics = self.documents.iter().flat_map(|document| &document.diagnostics);
        diagnostics.any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

impl fmt::Display for LintReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for document in &self.documents {
            let format = document.format.map_or("not recognised", Format::title);
            match document.name.as_str() {
                "" => writeln!(f, "{format}")?,
                name => writeln!(f, "{name}: {format}")?,
            }
            for diagnostic in &document.diagnostics {
                writeln!(f, "  {diagnostic}")?;
            }
        }
        Ok(())
    }
}

/// Says what a text is and what is wrong or doubtful in it.
pub fn lint(text: &str) -> LintReport {
    LintReport { documents: lint_text(text, Inside::Text) }
}

/// What a text stands in. A file inside an object is not searched for objects again, so that nothing nests for ever.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Inside {
    Text,
    Object,
}

fn lint_text(text: &str, inside: Inside) -> Vec<LintedDocument> {
    let (nodes, error) = kubernetes_yaml::parse_stream(text);
    let mut documents = Vec::new();
    let several = nodes.len() + usize::from(error.is_some()) > 1;
    let name = |index: usize| if several { format!("document {}", index + 1) } else { String::new() };
    for (index, node) in nodes.iter().enumerate() {
        let mut linted =
            if several { lint_node(node, name(index), inside) } else { lint_single(text, node, inside) };
        // Kubernetes objects come in streams; NVIDIA's programs stop after the first document.
        if let Some(first) = linted.first_mut().filter(|document| index > 0 && document.format.is_some())
            && !config_map::is_object(node)
        {
            let mut report = Report::default();
            Finding::warning(&Place::root(node), "NVIDIA's programs read only the first document of a file")
                .hint("put each document into a file of its own")
                .report(&mut report);
            first.diagnostics.extend(report.finish::<()>(None).diagnostics);
        }
        documents.append(&mut linted);
    }
    if let Some(error) = error {
        let mut report = Report::default();
        report.syntax(error);
        let diagnostics = report.finish::<()>(None).diagnostics;
        documents.push(LintedDocument { format: None, name: name(nodes.len()), diagnostics });
    }
    if documents.is_empty() {
        // A stream without any document is an empty file.
        if let Ok(node) = kubernetes_yaml::parse("") {
            documents = lint_node(&node, String::new(), inside);
        }
    }
    documents
}

/// A checkpoint must be JSON, which only its text can show.
fn lint_single(text: &str, node: &Node, inside: Inside) -> Vec<LintedDocument> {
    let mut documents = lint_node(node, String::new(), inside);
    if let [document] = documents.as_mut_slice()
        && document.format == Some(Format::MigPartedCheckpoint)
    {
        document.diagnostics = MigCheckpoint::parse(text).diagnostics;
    }
    documents
}

/// The findings in one document, or in every file that it carries.
fn lint_node(node: &Node, name: String, inside: Inside) -> Vec<LintedDocument> {
    if inside == Inside::Text
        && let Some(documents) = config_map::lint_object(node, &name)
    {
        return documents;
    }
    let mut report = Report::default();
    let (format, diagnostics) = match recognise::recognise(node) {
        Recognised::Format(format) => (Some(format), check(format, node)),
        Recognised::Empty => {
            Finding::warning(
                &Place::root(node),
                "this document is empty: valid as a device-plugin config (all defaults) and for mig-parted (no config)",
            )
            .report(&mut report);
            (None, report.finish::<()>(None).diagnostics)
        }
        Recognised::VersionOnly => {
            let diagnostics = check(Format::DevicePluginConfig, node);
            Finding::warning(
                &Place::root(node),
                "this document holds only a version: valid as a device-plugin config (all defaults) and for mig-parted \
                 (no config)",
            )
            .report(&mut report);
            (None, [diagnostics, report.finish::<()>(None).diagnostics].concat())
        }
        Recognised::Nothing => {
            Finding::error(&Place::root(node), recognise::describe_unknown(node)).report(&mut report);
            (None, report.finish::<()>(None).diagnostics)
        }
    };
    vec![LintedDocument { format, name, diagnostics }]
}

fn check(format: Format, node: &Node) -> Vec<Diagnostic> {
    match format {
        Format::MigPartedConfig => MigPartedConfig::from_node(node).diagnostics,
        Format::MigPartedHooks => MigHooks::from_node(node).diagnostics,
        Format::MigPartedCheckpoint => MigCheckpoint::from_node(node).diagnostics,
        Format::DevicePluginConfig => DevicePluginConfig::from_node(node).diagnostics,
    }
}

/// The keys of a map, for messages.
fn keys(node: &Node) -> Vec<&str> {
    match &node.value {
        Value::Mapping(mapping) => mapping.iter().map(|(key, _)| key.text.as_str()).collect(),
        _ => Vec::new(),
    }
}
