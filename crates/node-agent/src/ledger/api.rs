//! The books over HTTP: `/api/v1/ledger` as they are, `/api/v1/cost` summed up, `/allocation/compute` in the words of OpenCost.

use super::desk::Desk;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use carve_economics::{API_VERSION, Covered, LedgerDocument, Question, Span, Step, Window, WrongQuestion};
use serde_json::json;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

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
struct Wrong(WrongQuestion);

impl From<WrongQuestion> for Wrong {
    fn from(wrong: WrongQuestion) -> Self {
        Wrong(wrong)
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        (StatusCode::BAD_REQUEST, Json(json!({"code": 400, "message": self.0.to_string()}))).into_response()
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// The window, and the hours that have to do with it.
async fn hours(desk: &Arc<Desk>, asked: &Question) -> Result<(Window, Vec<LedgerDocument>), Wrong> {
    let window = asked.window(now())?;
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

async fn ledger(State(desk): State<Arc<Desk>>, Query(asked): Query<Question>) -> Result<Response, Wrong> {
    let step = asked.step()?;
    let (_, hours) = hours(&desk, &asked).await?;
    let items = if step == Step::Hour { hours } else { merged(&hours) };
    Ok(Json(json!({"apiVersion": API_VERSION, "kind": "LedgerList", "items": items})).into_response())
}

/// All hours as one.
fn merged(hours: &[LedgerDocument]) -> Vec<LedgerDocument> {
    let Some(last) = hours.last() else { return Vec::new() };
    let covered = covered(hours);
    let (from, until) = covered.span.unwrap_or_default();
    let span = Span { from, until, unpriced: covered.unpriced };
    vec![LedgerDocument::of(&covered.ledger, &last.node, &span, last.price.clone())]
}

async fn cost(State(desk): State<Arc<Desk>>, Query(asked): Query<Question>) -> Result<Response, Wrong> {
    let (_, hours) = hours(&desk, &asked).await?;
    Ok(Json(asked.cost(&covered(&hours))?).into_response())
}

async fn allocation(State(desk): State<Arc<Desk>>, Query(asked): Query<Question>) -> Result<Response, Wrong> {
    let (window, hours) = hours(&desk, &asked).await?;
    Ok(Json(asked.allocation(&covered(&hours), window)?).into_response())
}
