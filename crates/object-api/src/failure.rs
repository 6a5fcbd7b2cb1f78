//! Why something is not done, as Kubernetes says it.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use carve_object_store::{LogError, WriteError};
use serde_json::{Value, json};

/// What a caller gets instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status.
    pub code: u16,
    /// One word for programs.
    pub reason: &'static str,
    /// Words for people.
    pub message: String,
    /// What is wrong in which field.
    pub causes: Vec<(String, String)>,
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: String) -> Self {
        Failure { code, reason, message, causes: Vec::new() }
    }

    pub(crate) fn not_found(what: &str, name: &str) -> Self {
        Failure::new(404, "NotFound", format!("{what} \"{name}\" not found"))
    }

    pub(crate) fn no_such_path(path: &str) -> Self {
        Failure::new(404, "NotFound", format!("the server could not find the requested resource: {path}"))
    }

    pub(crate) fn exists(what: &str, name: &str) -> Self {
        Failure::new(409, "AlreadyExists", format!("{what} \"{name}\" already exists"))
    }

    pub(crate) fn conflict(what: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
        Failure::new(409, "Conflict", message)
    }

    pub(crate) fn bad_request(message: String) -> Self {
        Failure::new(400, "BadRequest", message)
    }

    /// A body, or an option, with a field that does not read.
    pub(crate) fn unreadable(message: String, field: &str, why: &str) -> Self {
        Failure { causes: vec![(field.to_owned(), why.to_owned())], ..Failure::bad_request(message) }
    }

    pub(crate) fn too_large(most: usize) -> Self {
        let message =
            format!("the body is larger than {} MiB, which is the most that is taken at once", most >> 20);
        Failure::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn not_allowed(method: &str) -> Self {
        let message = format!("the server does not allow {method} on the requested resource");
        Failure::new(405, "MethodNotAllowed", message)
    }

    pub(crate) fn media_type(found: &str) -> Self {
        let message = format!("the body of the request was in an unknown format - {found}");
        Failure::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn gone(message: String) -> Self {
        Failure::new(410, "Expired", message)
    }

    pub(crate) fn forbidden(message: String) -> Self {
        Failure::new(403, "Forbidden", message)
    }

    /// Fields that can not be so.
    pub(crate) fn invalid(what: &str, name: &str, causes: Vec<(String, String)>) -> Self {
        let words: Vec<String> = causes.iter().map(|(field, why)| format!("{field}: {why}")).collect();
        let message = format!("{what} \"{name}\" is invalid: {}", words.join(", "));
        Failure { causes, ..Failure::new(422, "Invalid", message) }
    }

    /// Whoever admits objects did not admit this one.
    pub(crate) fn refused(by: &str, code: u16, message: &str) -> Self {
        let words = format!("admission by {by} denied the request: {message}");
        match code {
            422 => Failure {
                causes: vec![("spec".to_owned(), message.to_owned())],
                ..Failure::new(422, "Invalid", words)
            },
            code => Failure::new(code, "Forbidden", words),
        }
    }

    /// As it stands in an answer, or among the events of a watch.
    pub fn status(&self) -> Value {
        let causes: Vec<Value> = self
            .causes
            .iter()
            .map(|(field, why)| json!({"reason": "FieldValueInvalid", "field": field, "message": why}))
            .collect();
        let mut status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": self.code, "reason": self.reason, "message": self.message,
        });
        if !causes.is_empty() {
            status["details"] = json!({"causes": causes});
        }
        status
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        match error.full {
            true => {
                let message = format!(
                    "there is no room to write the change down: {error}; free some space there and try again"
                );
                Failure::new(507, "InsufficientStorage", message)
            }
            false => {
                Failure::new(500, "InternalError", format!("the change can not be written down: {error}"))
            }
        }
    }
}

impl From<WriteError<Failure>> for Failure {
    fn from(error: WriteError<Failure>) -> Self {
        match error {
            WriteError::Refused(failure) => failure,
            WriteError::Log(error) => error.into(),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(self.status())).into_response()
    }
}
