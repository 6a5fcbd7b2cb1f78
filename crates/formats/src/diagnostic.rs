//! What is wrong or doubtful in a document, where, and what to do about it.

use crate::kubernetes_yaml::{Node, Position, SyntaxError, Value};
use std::fmt;

/// Whether the program that reads the document refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It refuses the document.
    Error,
    /// It accepts the document, which can hardly mean what it says.
    Warning,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Where in the text, if it has a place.
    pub at: Option<Position>,
    /// Where in the document: `mig-configs.all-1g.5gb[0].mig-devices`. Empty for the whole of it.
    pub path: String,
    /// What was found, and what was expected.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// What NVIDIA's program says about it, if it says anything.
    pub upstream: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })?;
        if let Some(at) = self.at {
            write!(f, " at {at}")?;
        }
        if !self.path.is_empty() {
            write!(f, " in {}", self.path)?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// A document that was read: the value if it is acceptable, and all findings either way.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed<T> {
    /// Present exactly when there is no error among the findings.
    pub value: Option<T>,
    /// Findings in the order in which they were made.
    pub diagnostics: Vec<Diagnostic>,
}

impl<T> Parsed<T> {
    /// The findings for which the document is refused.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// The findings that are only doubtful.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning)
    }

    /// The value with its warnings, or everything that was found.
    pub fn into_result(self) -> Result<(T, Vec<Diagnostic>), Vec<Diagnostic>> {
        match self.value {
            Some(value) => Ok((value, self.diagnostics)),
            None => Err(self.diagnostics),
        }
    }
}

/// Where a value was written. It never takes part in equality, so that equal documents are equal.
#[derive(Debug, Clone, Copy, Default, Eq)]
pub struct At(pub Option<Position>);

impl PartialEq for At {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl From<Position> for At {
    fn from(at: Position) -> Self {
        At(Some(at))
    }
}

/// Collects findings while a document is read.
#[derive(Debug, Default)]
pub(crate) struct Report {
    diagnostics: Vec<Diagnostic>,
}

/// A finding that still takes a hint and the upstream text.
#[must_use = "a finding is lost unless it is put into the report"]
pub(crate) struct Finding(Diagnostic);

impl Finding {
    pub(crate) fn error(place: &Place<'_>, message: impl Into<String>) -> Self {
        Finding::new(Severity::Error, Some(place.node.at), place.path.clone(), message)
    }

    pub(crate) fn warning(place: &Place<'_>, message: impl Into<String>) -> Self {
        Finding::new(Severity::Warning, Some(place.node.at), place.path.clone(), message)
    }

    fn new(severity: Severity, at: Option<Position>, path: String, message: impl Into<String>) -> Self {
        Finding(Diagnostic { severity, at, path, message: message.into(), hint: None, upstream: None })
    }

    pub(crate) fn at(mut self, at: Position) -> Self {
        self.0.at = Some(at);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.0.hint = hint.or(self.0.hint);
        self
    }

    pub(crate) fn upstream(mut self, text: impl Into<String>) -> Self {
        self.0.upstream = Some(text.into());
        self
    }

    pub(crate) fn report(self, report: &mut Report) {
        report.diagnostics.push(self.0);
    }
}

impl Report {
    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// The value counts only if nothing was wrong with it.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Parsed<T> {
        let value = if self.has_errors() { None } else { value };
        Parsed { value, diagnostics: self.diagnostics }
    }

    pub(crate) fn syntax(&mut self, error: SyntaxError) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            at: Some(error.at),
            path: String::new(),
            message: format!("this is not YAML: {}", error.problem),
            hint: syntax_hint(&error.problem),
            upstream: error.upstream,
        });
    }
}

fn syntax_hint(problem: &str) -> Option<String> {
    let hint = match problem {
        "found character that cannot start any token" => {
            "look for a tab in the indentation (YAML wants spaces) or for @, ` or % at the start of an unquoted text"
        }
        "mapping values are not allowed in this context" => {
            "look for a ': ' inside an unquoted text, or for a line that is indented too far"
        }
        "could not find expected ':'" => {
            "look for a line that is neither 'key: value' nor indented under one"
        }
        "did not find expected key" | "did not find expected '-' indicator" => {
            "look at the indentation of this line and of the lines above it"
        }
        "did not find expected ',' or ']'" | "did not find expected ',' or '}'" => {
            "a [ or { above is not closed, or a comma is missing"
        }
        "found unexpected end of stream" => "a quote above is not closed",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// A node together with the way that led to it.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: String,
}

impl<'a> Place<'a> {
    pub(crate) fn root(node: &'a Node) -> Self {
        Place { node, path: String::new() }
    }

    pub(crate) fn key<'b>(&self, key: &str, node: &'b Node) -> Place<'b> {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Place { node, path }
    }

    pub(crate) fn item<'b>(&self, index: usize, node: &'b Node) -> Place<'b> {
        Place { node, path: format!("{}[{index}]", self.path) }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.node.value == Value::Null
    }
}
