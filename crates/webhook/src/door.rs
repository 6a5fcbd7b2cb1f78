//! Answers the API server over HTTPS.

use crate::certificate::{CertificateError, Files};
use crate::review::{is_review, review};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use axum_server::Handle;
use serde_json::Value;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An object may have 3 MiB in etcd, and an update brings it twice.
const MOST: usize = 8 * 1024 * 1024;
/// How often the files of the certificate are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long reviews under way may take to finish; the API server waits 30 s at most, usually 10 s.
const DRAIN: Duration = Duration::from_secs(10);

/// How the webhook runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// File with the certificate and its chain, PEM.
    pub certificate: PathBuf,
    /// File with the certificate's key, PEM.
    pub key: PathBuf,
    /// Drivers whose configs are looked at.
    pub drivers: Vec<String>,
}

/// Why the webhook does not run.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(
        "can not listen on {address}: {source}; another process may be there, or the port may need rights"
    )]
    Listen { address: SocketAddr, source: io::Error },
    #[error("the webhook's server ended: {0}")]
    Serve(#[source] io::Error),
}

/// Serves `POST /review` and `GET /healthz` until `stop` is done; `listening` is called with the address once it is bound.
pub async fn run(
    options: WebhookOptions,
    listening: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<(), WebhookError> {
    // An error means that one is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificate = Files { certificate: options.certificate, key: options.key }.load().await?;
    let address = options.listen;
    let listen = |source| WebhookError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    let drivers = options.drivers.join(", ");
    tracing::info!("reviewing configs of {drivers} on {bound}");
    listening(bound);

    let handle = Handle::new();
    let server = axum_server::from_tcp_rustls(listener, certificate.config.clone())
        .map_err(WebhookError::Serve)?
        .handle(handle.clone())
        .serve(routes(options.drivers).into_make_service());
    let stopped = async {
        stop.await;
        handle.graceful_shutdown(Some(DRAIN));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        served = server => served.map_err(WebhookError::Serve),
        () = certificate.follow(LOOK) => Ok(()),
        () = stopped => Ok(()),
    }
}

fn routes(drivers: Vec<String>) -> Router {
    Router::new()
        .route("/review", post(answer))
        .route("/healthz", get(|| async { "ok" }))
        .layer(DefaultBodyLimit::max(MOST))
        .with_state(Arc::new(drivers))
}

async fn answer(State(drivers): State<Arc<Vec<String>>>, Json(document): Json<Value>) -> Response {
    if !is_review(&document) {
        let words = "this is no AdmissionReview of admission.k8s.io/v1 with a request; \
                     let the webhook's configuration ask with admissionReviewVersions: [v1]\n";
        return (StatusCode::BAD_REQUEST, words).into_response();
    }
    let answer = review(&document, &drivers);
    if answer["response"]["allowed"] == false {
        let user = document["request"]["userInfo"]["username"].as_str().unwrap_or("nobody");
        let message = answer["response"]["status"]["message"].as_str().unwrap_or_default();
        tracing::info!("refused to {user}: {message}");
    }
    Json(answer).into_response()
}
