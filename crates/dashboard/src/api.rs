//! The questions of the page, and their answers.

use crate::asked::{Asked, not_so};
use crate::backend::{About, Backend};
use crate::failure::Failure;
use crate::live::{Live, Missed};
use crate::record::Record;
use crate::{advice, changes, objects, openapi, what_if};
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use carve_economics::{Question, WrongQuestion, moment};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::broadcast::error::RecvError;

/// The largest manifest.
const MOST: usize = 4 << 20;
/// How often a stream on which nothing happens says so.
const ALIVE: Duration = Duration::from_secs(15);

/// What answers are made of.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) live: Live,
    pub(crate) record: Record,
}

pub(crate) fn routes(backend: Arc<dyn Backend>, live: Live) -> Router {
    let record = Record::default();
    record.follow(live.clone());
    Router::new()
        .route("/api/v1/about", get(about))
        .route("/api/v1/picture", get(picture))
        .route("/api/v1/stream", get(changes_stream))
        .route("/api/v1/history", get(history))
        .route("/api/v1/ledger", get(ledger))
        .route("/api/v1/cost", get(cost))
        .route("/allocation/compute", get(allocation))
        .route("/allocation", get(allocation))
        .route("/api/v1/advice", get(advice::answer))
        .route("/api/v1/what-if", post(what_if::answer))
        .route("/api/v1/workloads", get(objects::workloads))
        .route("/api/v1/node", get(objects::node))
        .route("/api/v1/apply", post(changes::apply))
        .route("/api/v1/scale", post(changes::scale))
        .route("/api/v1/delete", post(changes::delete))
        .route("/api/v1/label", post(changes::label))
        .route("/api/v1/openapi.json", get(|| async { Json(openapi::document()) }))
        .route("/metrics", get(metrics))
        .method_not_allowed_fallback(not_so)
        .layer(DefaultBodyLimit::max(MOST))
        .with_state(Door { backend, live, record })
}

pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

async fn about(State(door): State<Door>) -> Json<About> {
    Json(door.backend.about())
}

/// Which picture.
#[derive(Deserialize)]
struct When {
    at: Option<String>,
}

async fn picture(State(door): State<Door>, Asked(when): Asked<When>) -> Result<Response, Failure> {
    let json = [(header::CONTENT_TYPE, "application/json")];
    let Some(at) = when.at else {
        if door.backend.fresh().await {
            door.live.catch_up(&door.backend.seen()).await;
        }
        return Ok((json, door.live.written()).into_response());
    };
    let hint = "seconds since 1970, as in ?at=1794880000";
    let at = at.parse::<i64>().map_err(|_| Failure::wrong("at", format!("'{at}' is no moment"), hint))?;
    let Some(found) = door.live.at(at) else {
        let looks = door.live.looks(i64::MIN);
        let words = format!("nothing is kept of {}", moment(at));
        let hint = looks.first().map_or_else(
            || "nothing at all is kept yet; ask again in a moment".to_owned(),
            |look| format!("the first look that is kept is of {}: ?at={}", moment(look.at), look.at),
        );
        let failure = Failure::new(StatusCode::NOT_FOUND, words, hint);
        return Err(Failure { field: Some("at".to_owned()), ..failure });
    };
    Ok(Json(json!({"version": 0, "picture": found})).into_response())
}

/// From where on.
#[derive(Deserialize)]
struct Since {
    since: Option<String>,
}

async fn changes_stream(State(door): State<Door>, Asked(asked): Asked<Since>) -> Result<Response, Failure> {
    let wrong = |text: &String| {
        Failure::wrong("since", format!("'{text}' is no version"), "the version of the picture you have")
    };
    let since =
        asked.since.map(|text| text.parse::<u64>().map_err(|_| wrong(&text))).transpose()?.unwrap_or(0);
    door.backend.looked_at();
    let (missed, coming) = door.live.listen(since);
    let gap = || Bytes::from_static(b"event: gap\ndata: {}\n\n");
    let first: Vec<Bytes> = match missed {
        Missed::Frames(frames) => frames.into_iter().map(|(_, frame)| frame).collect(),
        Missed::TooMuch => vec![gap()],
    };
    // Something comes at once, so that whoever listens knows that it is heard.
    let first = std::iter::once(Bytes::from_static(b": hello\n\n")).chain(first);
    let later = stream::unfold((coming, door.backend), move |(mut coming, backend)| async move {
        backend.looked_at();
        let frame = match tokio::time::timeout(ALIVE, coming.recv()).await {
            Ok(Ok((_, frame))) => frame,
            Ok(Err(RecvError::Lagged(_))) => gap(),
            Ok(Err(RecvError::Closed)) => return None,
            Err(_) => Bytes::from_static(b": still here\n\n"),
        };
        Some((frame, (coming, backend)))
    });
    let body = Body::from_stream(stream::iter(first).chain(later).map(Ok::<_, Infallible>));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

async fn history(State(door): State<Door>, Asked(asked): Asked<Since>) -> Result<Response, Failure> {
    let hint = "seconds since 1970";
    let wrong = |text: &String| Failure::wrong("since", format!("'{text}' is no moment"), hint);
    let since = asked.since.map(|text| text.parse::<i64>().map_err(|_| wrong(&text))).transpose()?;
    Ok(Json(json!({"looks": door.live.looks(since.unwrap_or(i64::MIN))})).into_response())
}

impl From<WrongQuestion> for Failure {
    fn from(wrong: WrongQuestion) -> Self {
        let (field, _) = wrong.0.split_once(':').unwrap_or(("since", ""));
        let field = if field.contains(' ') { "since" } else { field };
        // What to write stands behind what is wrong.
        let (message, hint) = wrong.0.split_once("; ").unwrap_or((&wrong.0, "as in since=24h"));
        Failure::wrong(field, message, hint)
    }
}

async fn covered(door: &Door, asked: &Question) -> Result<carve_economics::Covered, Failure> {
    let window = asked.window(now())?;
    door.backend.covered(window).await.map_err(|why| Failure::ours(StatusCode::BAD_GATEWAY, why))
}

async fn ledger(State(door): State<Door>, Asked(asked): Asked<Question>) -> Result<Response, Failure> {
    asked.step()?;
    let window = asked.window(now())?;
    let items = door.backend.ledgers(window).await;
    let items = items.map_err(|why| Failure::ours(StatusCode::BAD_GATEWAY, why))?;
    let list = json!({"apiVersion": carve_economics::API_VERSION, "kind": "LedgerList", "items": items});
    Ok(Json(list).into_response())
}

async fn cost(State(door): State<Door>, Asked(asked): Asked<Question>) -> Result<Response, Failure> {
    // What is asked wrongly is told before anybody is asked.
    asked.cost(&carve_economics::Covered::default())?;
    Ok(Json(asked.cost(&covered(&door, &asked).await?)?).into_response())
}

async fn allocation(State(door): State<Door>, Asked(asked): Asked<Question>) -> Result<Response, Failure> {
    let window = asked.window(now())?;
    asked.allocation(&carve_economics::Covered::default(), window)?;
    Ok(Json(asked.allocation(&covered(&door, &asked).await?, window)?).into_response())
}

async fn metrics(State(door): State<Door>) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (headers, door.record.page(&door.live.picture())).into_response()
}
