//! Why a pool can not be made.

use thiserror::Error;

/// What is wrong with a pool, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {reason}; {remedy}")]
pub struct Refusal {
    /// Where: `models`, `cut.replicas`, …
    pub field: String,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

impl Refusal {
    /// What is wrong where, and what to do.
    pub fn new(field: impl Into<String>, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Refusal { field: field.into(), reason: reason.into(), remedy: remedy.into() }
    }
}
