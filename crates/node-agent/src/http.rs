//! Health and metrics for whoever asks: `/healthz`, `/readyz`, `/metrics`.

use crate::metrics::Metrics;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Whether the agent does its work, and if not, why not.
pub(crate) type Readiness = watch::Receiver<Result<(), String>>;

#[derive(Debug, Clone)]
struct Shown {
    metrics: Arc<Metrics>,
    readiness: Readiness,
}

/// Serves until the agent ends.
pub(crate) async fn serve(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    readiness: Readiness,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let routes = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(series))
        .with_state(Shown { metrics, readiness });
    axum::serve(listener, routes).await
}

async fn ready(State(shown): State<Shown>) -> impl IntoResponse {
    match &*shown.readiness.borrow() {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

async fn series(State(shown): State<Shown>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([("content-type", kind)], shown.metrics.text())
}
