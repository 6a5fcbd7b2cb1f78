//! Questions and bodies as they come in; what does not read is said in the same words as everything else that is wrong.

use crate::failure::Failure;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri, header};
use serde::de::DeserializeOwned;

/// What stands behind the `?`.
pub(crate) struct Asked<T>(pub(crate) T);

/// The name that an error has between its quotes.
fn named(words: &str) -> Option<&str> {
    words.split('`').nth(1).filter(|name| !name.is_empty())
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        let Query(asked) = read.map_err(|error| {
            let words = error.body_text();
            let hint = "name every parameter once, as api/v1/openapi.json has them";
            Failure::wrong(named(&words).unwrap_or("query"), words.clone(), hint)
        })?;
        Ok(Asked(asked))
    }
}

/// A body, and what it says that it is.
pub(crate) struct Sent {
    bytes: Bytes,
    kind: String,
}

impl<S: Send + Sync> FromRequest<S> for Sent {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let bytes = Bytes::from_request(request, state).await.map_err(|error| {
            let hint = "send less at once; 4 MiB are the most";
            Failure::new(error.status(), error.body_text(), hint)
        })?;
        Ok(Sent { bytes, kind })
    }
}

impl Sent {
    /// A form of another page can send neither of these kinds.
    fn must_be(&self, kinds: &[&str]) -> Result<(), Failure> {
        let kind = self.kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kinds.contains(&kind.as_str()) {
            return Ok(());
        }
        let message = format!("the body is '{}'", self.kind);
        let failure = Failure::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            message,
            format!("send {} in the header content-type", kinds.join(" or ")),
        );
        Err(Failure { field: Some("content-type".to_owned()), ..failure })
    }

    /// Manifests.
    pub(crate) fn text(&self) -> Result<&str, Failure> {
        self.must_be(&["application/yaml", "application/json"])?;
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let message = format!("the body is no text: byte {} is not UTF-8", error.valid_up_to());
            Failure::wrong("body", message, "send manifests as UTF-8")
        })
    }

    /// An order, so that what is wrong is said with its field.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.must_be(&["application/json"])?;
        let hint = "api/v1/openapi.json says what is expected";
        // A list of values in the order of the fields would read, too.
        if self.bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(Failure::wrong("body", "the body is no object with fields", hint));
        }
        let mut reader = serde_json::Deserializer::from_slice(&self.bytes);
        let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let (path, words) = (error.path().to_string(), error.inner().to_string());
            // Of what is missing, or nobody knows, the name stands in the words.
            let field = match path.as_str() {
                "." => named(&words).unwrap_or("body").to_owned(),
                path => path.to_owned(),
            };
            Failure::wrong(&field, format!("the body does not read: {words}"), hint)
        })?;
        reader.end().map_err(|error| {
            Failure::wrong("body", format!("the body goes on after its end: {error}"), hint)
        })?;
        Ok(read)
    }
}

/// Nothing is behind this path.
pub(crate) fn nowhere(uri: &Uri) -> Failure {
    let message = format!("there is nothing at {}", uri.path());
    Failure::new(StatusCode::NOT_FOUND, message, "api/v1/openapi.json says what can be asked")
}

/// Something is behind it, and can not be asked like this.
pub(crate) async fn not_so(method: Method, uri: Uri) -> Failure {
    let message = format!("{method} can not be done with {}", uri.path());
    Failure::new(
        StatusCode::METHOD_NOT_ALLOWED,
        message,
        "the header allow of this answer says what can; api/v1/openapi.json says what for",
    )
}
