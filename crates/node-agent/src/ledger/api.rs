//! The books over HTTP: `/api/v1/ledger` as they are, `/api/v1/cost` summed up, `/allocation/compute` in the words of OpenCost.

use super::desk::Desk;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use carve_economics::{Aggregate, By, CostReport, Covered, LedgerDocument, Window, opencost};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is asked for when nothing is said.
const USUAL: &str = "24h";

/// Everything that can be asked.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    since: Option<String>,
    window: Option<String>,
    by: Option<String>,
    aggregate: Option<String>,
    step: Option<String>,
}

/// Its routes.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(desk: Arc<Desk>) -> Router<S> {
    Router::new()
        .route("/api/v1/ledger", get(ledger))
        .route("/api/v1/cost", get(cost))
        .route("/allocation/compute", get(allocation))
        .route("/allocation", get(allocation))
        .with_state(desk)
}

/// What is wrong with a question.
struct Wrong(String);

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        (StatusCode::BAD_REQUEST, Json(json!({"code": 400, "message": self.0}))).into_response()
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// The window, and the hours that have to do with it.
async fn hours(desk: &Arc<Desk>, asked: &Asked) -> Result<(Window, Vec<LedgerDocument>), Wrong> {
    let text = asked.since.as_deref().or(asked.window.as_deref()).unwrap_or(USUAL);
    let window = Window::parse(text, now()).map_err(|error| Wrong(error.to_string()))?;
    let desk = Arc::clone(desk);
    let found = tokio::task::spawn_blocking(move || desk.hours(window)).await;
    Ok((window, found.unwrap_or_default()))
}

fn covered(hours: &[LedgerDocument]) -> Covered {
    let mut covered = Covered::default();
    for hour in hours {
        // What is on disk was read before it was taken.
        let _ = covered.take(hour);
    }
    covered
}

async fn ledger(State(desk): State<Arc<Desk>>, Query(asked): Query<Asked>) -> Result<Response, Wrong> {
    let (_, hours) = hours(&desk, &asked).await?;
    match asked.step.as_deref() {
        None => Ok(Json(json!({"apiVersion": carve_economics::API_VERSION, "kind": "LedgerList", "items": merged(&hours)})).into_response()),
        Some("hour") => {
            Ok(Json(json!({"apiVersion": carve_economics::API_VERSION, "kind": "LedgerList", "items": hours})).into_response())
        }
        Some(other) => Err(Wrong(format!("step: '{other}' is not known; write hour, or leave it away"))),
    }
}

/// All hours as one.
fn merged(hours: &[LedgerDocument]) -> Vec<LedgerDocument> {
    let Some(last) = hours.last() else { return Vec::new() };
    let covered = covered(hours);
    let (from, until) = covered.span.unwrap_or_default();
    let span = carve_economics::Span { from, until, unpriced: covered.unpriced };
    vec![LedgerDocument::of(&covered.ledger, &last.node, &span, last.price.clone())]
}

async fn cost(State(desk): State<Arc<Desk>>, Query(asked): Query<Asked>) -> Result<Response, Wrong> {
    let (_, hours) = hours(&desk, &asked).await?;
    let by = asked.by.as_deref().unwrap_or("namespace");
    let Some(by) = By::ALL.into_iter().find(|one| one.word() == by) else {
        let words: Vec<&str> = By::ALL.iter().map(|by| by.word()).collect();
        return Err(Wrong(format!("by: '{by}' is not known; write one of {}", words.join(", "))));
    };
    Ok(Json(CostReport::of(&covered(&hours), by)).into_response())
}

async fn allocation(State(desk): State<Arc<Desk>>, Query(asked): Query<Asked>) -> Result<Response, Wrong> {
    let (window, hours) = hours(&desk, &asked).await?;
    let aggregate = Aggregate::parse(asked.aggregate.as_deref().unwrap_or_default());
    let aggregate = aggregate.map_err(|error| Wrong(error.to_string()))?;
    Ok(Json(opencost(&covered(&hours), window, &aggregate)).into_response())
}
