//! The routes that the API server asks.

use super::configuration::{ADMIT, CONFIGS, VALIDATE};
use super::knowledge::Knowledge;
use super::review::{Circumstances, Verdict, admitted, answer, validated};
use super::{base64, templates};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use carve_admission::Refusal;
use kube::Client;
use serde_json::Value;

/// An object may have 3 MiB in etcd, and an update brings it twice.
const MOST: usize = 8 * 1024 * 1024;

/// What answers are made with.
#[derive(Clone)]
struct Door {
    knowledge: Knowledge,
    client: Client,
}

/// `POST /admit`, `/validate`, `/configs`, and `GET /readyz`, `/healthz`.
pub(crate) fn routes(knowledge: Knowledge, client: Client) -> Router {
    Router::new()
        .route(ADMIT, post(admit))
        .route(VALIDATE, post(validate))
        .route(CONFIGS, post(configs))
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .layer(DefaultBodyLimit::max(MOST))
        .with_state(Door { knowledge, client })
}

async fn ready(State(door): State<Door>) -> Response {
    match door.knowledge.waits_for() {
        None => "ok".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

/// What is said to somebody who asks something else.
fn no_review() -> Response {
    let words = "this is no AdmissionReview of admission.k8s.io/v1 with a request\n";
    (StatusCode::BAD_REQUEST, words).into_response()
}

async fn configs(State(door): State<Door>, Json(document): Json<Value>) -> Response {
    if !carve_webhook::is_review(&document) {
        return no_review();
    }
    Json(carve_webhook::review(&document, &[door.knowledge.driver().to_owned()])).into_response()
}

async fn validate(State(door): State<Door>, Json(document): Json<Value>) -> Response {
    door.reviewed(&document, validated).await
}

async fn admit(State(door): State<Door>, Json(document): Json<Value>) -> Response {
    door.reviewed(&document, admitted).await
}

impl Door {
    async fn reviewed(
        &self,
        document: &Value,
        review: impl Fn(&Value, &Circumstances<'_>) -> Verdict,
    ) -> Response {
        if !carve_webhook::is_review(document) {
            return no_review();
        }
        // The API server takes that for no answer, and does what the configuration says of it.
        let Some(road) = self.knowledge.settled_road() else {
            return (StatusCode::SERVICE_UNAVAILABLE, "the cluster is not known yet\n").into_response();
        };
        let request = &document["request"];
        let namespace = request["namespace"].as_str().unwrap_or_default();
        let mut verdict = {
            let fleet = self.knowledge.fleet(road);
            match self.knowledge.policy(namespace) {
                Ok(policy) => review(request, &Circumstances { policy: &policy, road, fleet: &fleet }),
                Err(why) => {
                    Verdict::refused(vec![Refusal::new("the pod", why, "ask whoever keeps the policy")])
                }
            }
        };
        let rehearsal = request["dryRun"] == true;
        for template in std::mem::take(&mut verdict.templates) {
            if let Err(error) = templates::ensure(&self.client, namespace, &template, rehearsal).await {
                verdict.refusals.push(Refusal::new("the pod", error.to_string(), ""));
            }
        }
        if !verdict.refusals.is_empty() {
            let words: Vec<String> = verdict.refusals.iter().map(Refusal::to_string).collect();
            let user = request["userInfo"]["username"].as_str().unwrap_or("nobody");
            tracing::info!(namespace, user, "refused: {}", words.join("; "));
        }
        Json(answer(request, &verdict, base64)).into_response()
    }
}
