//! A mutating webhook that puts an annotation on every pod it is shown, to see that the API server reaches one.
//!
//! Arguments: port, certificate file, key file.

use anyhow::{Context, Result};
use axum::routing::{get, post};
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// What it writes, as base64 of a JSON patch: `[{"op":"add","path":"/metadata/annotations","value":{"seen-by":"webhook"}}]`.
const PATCH: &str =
    "W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2Fubm90YXRpb25zIiwidmFsdWUiOnsic2Vlbi1ieSI6IndlYmhvb2sifX1d";

async fn review(Json(review): Json<Value>) -> Json<Value> {
    let uid = review["request"]["uid"].clone();
    eprintln!("reviewing {}", review["request"]["name"]);
    Json(json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": PATCH},
    }))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, certificate, key] = &arguments[..] else {
        anyhow::bail!("usage: admission_webhook PORT CERT KEY")
    };
    let installed = rustls::crypto::ring::default_provider().install_default();
    installed.map_err(|_| anyhow::anyhow!("another TLS provider is there already"))?;
    let config = RustlsConfig::from_pem_file(certificate, key).await.context("certificate and key")?;
    let address: SocketAddr = ([0, 0, 0, 0], port.parse()?).into();
    let routes = Router::new().route("/review", post(review)).route("/healthz", get(|| async { "ok" }));
    eprintln!("serving on {address}");
    axum_server::bind_rustls(address, config).serve(routes.into_make_service()).await?;
    Ok(())
}
