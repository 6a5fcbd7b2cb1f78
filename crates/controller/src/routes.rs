//! The extender's verbs over HTTP.

use crate::extender::Extender;
use crate::metrics::{AskedAbout, Metrics, timed};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router, body::Bytes};
use carve_extender::wire::Args;

/// A pod may have 3 MiB, and names of a few thousand nodes come with it.
const MOST: usize = 16 * 1024 * 1024;

/// `POST /filter`, `/prioritize`, `/preempt`, `/bind`, and `GET /readyz`.
pub fn routes(extender: Extender, metrics: Metrics) -> Router {
    Router::new()
        .route("/filter", post(answer_filter))
        .route("/prioritize", post(answer_prioritize))
        .route("/preempt", post(answer_preempt))
        .route("/bind", post(answer_bind))
        .route_layer(from_fn_with_state(metrics, timed))
        .route("/readyz", get(ready))
        .layer(from_fn_with_state(extender.clone(), send_away))
        .layer(DefaultBodyLimit::max(MOST))
        .with_state(extender)
}

/// A replica that does not lead ends connections with its answers: a scheduler keeps its connection for as long as it is answered, and would
/// never come to the replica that leads.
async fn send_away(State(extender): State<Extender>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if !extender.is_ready() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// What was sent, or what is wrong with it.
fn read<T: for<'de> serde::Deserialize<'de>>(body: &Bytes) -> Result<T, Response> {
    serde_json::from_slice(body).map_err(|error| {
        let words = format!("this is nothing that a kube-scheduler sends to an extender: {error}\n");
        (StatusCode::BAD_REQUEST, words).into_response()
    })
}

async fn answer_filter(State(extender): State<Extender>, body: Bytes) -> Response {
    match read::<Args>(&body) {
        Ok(args) => {
            let left = extender.filter(&args);
            (about(&args, left.node_names.len() < 2), Json(left)).into_response()
        }
        Err(response) => response,
    }
}

/// Says which pod an answer is about, and whether another question follows.
fn about(args: &Args, settled: bool) -> Extension<AskedAbout> {
    Extension(AskedAbout { pod: args.pod.metadata.uid.clone(), settled })
}

async fn answer_prioritize(State(extender): State<Extender>, body: Bytes) -> Response {
    match read::<Args>(&body) {
        Ok(args) => (about(&args, true), Json(extender.prioritize(&args))).into_response(),
        Err(response) => response,
    }
}

async fn answer_preempt(State(extender): State<Extender>, body: Bytes) -> Response {
    match read(&body) {
        Ok(args) => Json(extender.preempt(&args)).into_response(),
        Err(response) => response,
    }
}

async fn answer_bind(State(extender): State<Extender>, body: Bytes) -> Response {
    match read(&body) {
        // Not dropped with the connection: a binding that was begun is brought to its end.
        Ok(args) => match tokio::spawn(async move { extender.bind(&args).await }).await {
            Ok(result) => Json(result).into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        },
        Err(response) => response,
    }
}

async fn ready(State(extender): State<Extender>) -> Response {
    match extender.is_ready() {
        true => "ok".into_response(),
        false => {
            (StatusCode::SERVICE_UNAVAILABLE, "the cluster is not known yet, or another replica leads\n")
                .into_response()
        }
    }
}
