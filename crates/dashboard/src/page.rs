//! The page itself, which is a part of the program.

use crate::asked::{not_so, nowhere};
use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "page/"]
struct Files;

/// Nothing is loaded from elsewhere, and nobody else shows it in a frame.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(crate) fn routes() -> Router {
    Router::new()
        .route("/", get(|| async { file("index.html") }))
        .route("/{*path}", get(named))
        .method_not_allowed_fallback(not_so)
}

async fn named(Path(path): Path<String>, uri: Uri) -> Response {
    match path.starts_with("api/") {
        true => nowhere(&uri).into_response(),
        false => file(&path),
    }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

fn file(path: &str) -> Response {
    let Some(found) = Files::get(path) else {
        return (StatusCode::NOT_FOUND, "there is no such page\n").into_response();
    };
    let headers: [(HeaderName, &str); 5] = [
        (header::CONTENT_TYPE, content_type(path)),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // A new version of carve brings a new page, and it is small.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, found.data.into_owned()).into_response()
}
