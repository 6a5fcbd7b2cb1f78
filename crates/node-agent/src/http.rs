//! Health, metrics, the picture and books for whoever asks: `/healthz`, `/readyz`, `/metrics`, `/api/v1`.

use crate::easel::Easel;
use crate::ledger::{self, Desk};
use crate::metrics::Metrics;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use carve_cluster_api::Tone;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

/// Whether the agent does its work, and if not, why not.
pub(crate) type Readiness = watch::Receiver<Result<(), String>>;

/// What is shown.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Readiness,
    pub(crate) easel: Arc<Easel>,
}

/// How the port is, for people.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) tone: Tone,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// First and last pause between two tries to get the port.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Serves until the agent ends. A port that somebody else has is tried again and again: GPUs are offered without it, and a
/// program that is going away holds it for a moment only.
pub(crate) async fn serve(
    address: SocketAddr,
    shown: Shown,
    desk: Arc<Desk>,
    news: mpsc::UnboundedSender<News>,
) {
    let routes = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(series))
        .route("/api/v1/picture", get(picture))
        .with_state(shown)
        .merge(ledger::routes(desk));
    // Nobody listens only while the agent ends.
    let tell = |tone, reason, message: String| _ = news.send(News { tone, reason, message });
    let mut pause = PAUSES.0;
    let mut told = false;
    loop {
        let served = match TcpListener::bind(address).await {
            Ok(listener) => {
                if told {
                    tell(
                        Tone::Normal,
                        "Listening",
                        format!("health and metrics are served on {address} now"),
                    );
                }
                (pause, told) = (PAUSES.0, false);
                axum::serve(listener, routes.clone()).await
            }
            Err(error) => Err(error),
        };
        if let (Err(error), false) = (served, told) {
            let message = format!(
                "{address}: {error}; health and metrics are not served there, GPUs are offered all the same; free the port or \
                 give another with --listen, it is tried again"
            );
            tell(Tone::Warning, "NotListening", message);
            told = true;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
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

/// This node's GPUs with who has what of them and uses it, as the controller's dashboard draws them.
async fn picture(State(shown): State<Shown>) -> impl IntoResponse {
    let readiness = shown.readiness.borrow().clone();
    match shown.easel.picture(readiness.err()) {
        Some(picture) => Json(picture).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the GPUs were not looked at yet\n").into_response(),
    }
}
