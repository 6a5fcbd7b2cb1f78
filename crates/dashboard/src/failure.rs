//! What is wrong with a request, so that whoever sent it can put it right.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use carve_object_verbs::VerbError;
use schemars::JsonSchema;
use serde::Serialize;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// The HTTP status.
    pub(crate) code: u16,
    /// What is wrong.
    #[schemars(length(min = 1))]
    pub(crate) message: String,
    /// With which field or parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    /// What to do.
    #[schemars(length(min = 1))]
    pub(crate) hint: String,
}

impl Failure {
    pub(crate) fn new(code: StatusCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure { code: code.as_u16(), message: message.into(), field: None, hint: hint.into() }
    }

    /// Something in what was sent can not be so.
    pub(crate) fn wrong(field: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure { field: Some(field.to_owned()), ..Failure::new(StatusCode::BAD_REQUEST, message, hint) }
    }

    /// Something here has failed, whatever was asked.
    pub(crate) fn ours(code: StatusCode, message: impl Into<String>) -> Self {
        Failure::new(code, message, "ask again; what carve writes to its standard error may say more")
    }
}

impl From<VerbError> for Failure {
    fn from(error: VerbError) -> Self {
        let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::BAD_GATEWAY);
        let hint = error.hint.unwrap_or_else(|| {
            let words = match error.code {
                404 => "carve get, or the page, shows what is there",
                409 => "look at it again, and send what you want of it as it is now",
                401 | 403 => "it is refused for the reason that stands there, and nothing was changed",
                507 => "free some space where carve keeps its state; nothing was changed",
                400..500 => "nothing was changed; put it right and send it again",
                _ => "ask again; what carve writes to its standard error may say more",
            };
            words.to_owned()
        });
        // Where nobody can say which field it is, it is all of it.
        let body = || matches!(error.code, 400 | 422).then(|| "body".to_owned());
        Failure { field: error.field.or_else(body), ..Failure::new(code, error.message, hint) }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(self)).into_response()
    }
}
