//! What people do with objects: apply, get, scale, label and delete, at an API server or at `carve up`.
//!
//! The command line and the dashboard do these alike. Several documents are applied as one: they are rehearsed first, and where one would be refused none
//! is written.

mod documents;
mod found;
mod table;
mod verbs;

pub use documents::{Document, documents};
pub use found::{Found, find, find_named};
pub use table::{Column, Row, Table, Wanted, list_path, table, watch_table};
pub use verbs::{Applied, Outcome, apply, delete, get, label, list, scale};

use thiserror::Error;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct VerbError {
    /// What the API server said, or would have.
    pub code: u16,
    /// What is wrong.
    pub message: String,
    /// Where.
    pub field: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

impl VerbError {
    pub(crate) fn new(code: u16, message: impl Into<String>) -> Self {
        VerbError { code, message: message.into(), field: None, hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        VerbError { hint: Some(hint.into()), ..self }
    }
}

impl From<kube::Error> for VerbError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let causes =
                    status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
                let field = causes.first().map(|cause| cause.field.clone()).filter(|field| !field.is_empty());
                VerbError { field, ..VerbError::new(status.code, status.message.clone()) }
            }
            other => VerbError::new(503, format!("nobody answers: {other}"))
                .hint("is the cluster, or carve up, there?"),
        }
    }
}
