//! What is wrong with a request, so that whoever sent it can put it right.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// The HTTP status.
    pub(crate) code: u16,
    /// What is wrong.
    pub(crate) message: String,
    /// With which field or parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Failure { code: code.as_u16(), message: message.into(), field: None, hint: None }
    }

    /// Something in what was sent can not be so.
    pub(crate) fn wrong(field: &str, message: impl Into<String>, hint: &str) -> Self {
        Failure {
            field: Some(field.to_owned()),
            hint: Some(hint.to_owned()).filter(|hint| !hint.is_empty()),
            ..Failure::new(StatusCode::BAD_REQUEST, message)
        }
    }

    pub(crate) fn hint(self, hint: &str) -> Self {
        Failure { hint: Some(hint.to_owned()), ..self }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
                let cause = status
                    .details
                    .as_ref()
                    .and_then(|details| details.causes.first().map(|cause| cause.field.clone()));
                Failure {
                    field: cause.filter(|field| !field.is_empty()),
                    ..Failure::new(code, status.message.clone())
                }
            }
            other => Failure::new(StatusCode::BAD_GATEWAY, format!("the cluster does not answer: {other}")),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(self)).into_response()
    }
}
