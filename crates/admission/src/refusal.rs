//! Why a pod is refused: which field, what is wrong with it, and what to write instead.

use carve_formats::Diagnostic;
use std::fmt;

/// One reason for which a pod is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Where: `spec.containers[0].resources.limits.nvidia.com/gpu`.
    pub field: String,
    /// What is wrong.
    pub reason: String,
    /// What to write instead, or what to do.
    pub example: String,
}

impl Refusal {
    /// A reason at a field, with what to write instead.
    pub fn new(field: impl Into<String>, reason: impl Into<String>, example: impl Into<String>) -> Self {
        Refusal { field: field.into(), reason: reason.into(), example: example.into() }
    }
}

impl From<&Diagnostic> for Refusal {
    fn from(found: &Diagnostic) -> Self {
        let field = if found.path.is_empty() { "the pod" } else { &found.path };
        Refusal::new(field, &found.message, found.hint.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)?;
        if self.example.is_empty() { Ok(()) } else { write!(f, " ({})", self.example) }
    }
}
