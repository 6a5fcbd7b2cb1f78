//! Agents' books, gathered through the API server: what all machines cost, and who pays.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use carve_economics::{Covered, Question, Step, WrongQuestion};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// For so long an agent is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Agents that are asked at once.
const AT_ONCE: usize = 32;

/// Who was asked, and what came or why nothing did.
pub type Answer = (String, Result<String, String>);

/// Which pods are agents.
#[derive(Debug, Clone)]
pub struct Agents {
    /// Where they are; everywhere without one.
    pub namespace: Option<String>,
    /// Their labels.
    pub selector: String,
    /// Their port.
    pub port: u16,
}

impl Agents {
    /// Where an agent answers with its books.
    pub fn ledger_path(since: &str, step: Step) -> String {
        let fine = if step == Step::Hour { "&step=hour" } else { "" };
        format!("/api/v1/ledger?since={}{fine}", encoded(since))
    }

    /// What every agent answers under a path, by its pod.
    pub async fn ask(&self, client: &Client, path: &str) -> Result<Vec<Answer>, kube::Error> {
        let pods: Api<Pod> = match &self.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let pods = pods.list(&ListParams::default().labels(&self.selector)).await?.items;
        let (gate, mut asked) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
        for pod in pods {
            let metadata = pod.metadata;
            let (Some(namespace), Some(name), Some(_)) =
                (metadata.namespace, metadata.name, pod.spec.and_then(|spec| spec.node_name))
            else {
                continue;
            };
            let uri = format!("/api/v1/namespaces/{namespace}/pods/{name}:{}/proxy{path}", self.port);
            let (gate, client) = (Arc::clone(&gate), client.clone());
            asked.spawn(async move {
                let _turn = gate.acquire().await;
                (format!("{namespace}/{name}"), get_text(&client, &uri, PATIENCE).await)
            });
        }
        let mut answers = asked.join_all().await;
        answers.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(answers)
    }
}

/// What is answered under a path of the API server, if it comes soon enough.
pub(crate) async fn get_text(client: &Client, uri: &str, patience: Duration) -> Result<String, String> {
    let request = axum::http::Request::get(uri).body(Vec::new()).map_err(|error| error.to_string())?;
    match tokio::time::timeout(patience, client.request_text(request)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("nothing came in {} s", patience.as_secs())),
    }
}

/// What may stand in a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encoded = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encoded).collect()
}

#[derive(Clone)]
struct Asked {
    client: Client,
    agents: Arc<Agents>,
}

/// `GET /api/v1/ledger`, `/api/v1/cost`, and `/allocation/compute` as OpenCost has it.
pub(crate) fn routes(client: Client, agents: Agents) -> Router {
    Router::new()
        .route("/api/v1/ledger", get(ledger))
        .route("/api/v1/cost", get(cost))
        .route("/allocation/compute", get(allocation))
        .route("/allocation", get(allocation))
        .with_state(Asked { client, agents: Arc::new(agents) })
}

/// Why there is no answer.
enum Failed {
    Wrong(WrongQuestion),
    Cluster(kube::Error),
}

impl From<WrongQuestion> for Failed {
    fn from(wrong: WrongQuestion) -> Self {
        Failed::Wrong(wrong)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let (code, message) = match self {
            Failed::Wrong(wrong) => (StatusCode::BAD_REQUEST, wrong.to_string()),
            Failed::Cluster(error) => (StatusCode::BAD_GATEWAY, format!("can not list agents: {error}")),
        };
        (code, Json(json!({"code": code.as_u16(), "message": message}))).into_response()
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

async fn gathered(asked: &Asked, question: &Question) -> Result<Covered, Failed> {
    let answers = asked.agents.ask(&asked.client, &Agents::ledger_path(question.since(), Step::All)).await;
    let mut covered = Covered::default();
    for (from, answer) in answers.map_err(Failed::Cluster)? {
        covered.take_answer(&from, answer);
    }
    Ok(covered)
}

async fn ledger(State(asked): State<Asked>, Query(question): Query<Question>) -> Result<Response, Failed> {
    question.window(now())?;
    let step = question.step()?;
    let answers = asked.agents.ask(&asked.client, &Agents::ledger_path(question.since(), step)).await;
    let (mut items, mut missing) = (Vec::new(), Vec::new());
    for (from, answer) in answers.map_err(Failed::Cluster)? {
        let read = |text: String| {
            carve_economics::LedgerDocument::read_all(&text).map_err(|error| error.to_string())
        };
        match answer.and_then(read) {
            Ok(documents) => items.extend(documents),
            Err(why) => missing.push(format!("{from}: {why}")),
        }
    }
    let version = carve_economics::API_VERSION;
    let list = json!({"apiVersion": version, "kind": "LedgerList", "items": items, "missing": missing});
    Ok(Json(list).into_response())
}

async fn cost(State(asked): State<Asked>, Query(question): Query<Question>) -> Result<Response, Failed> {
    question.window(now())?;
    // What is asked wrongly is told before anybody is asked.
    question.cost(&Covered::default())?;
    Ok(Json(question.cost(&gathered(&asked, &question).await?)?).into_response())
}

async fn allocation(
    State(asked): State<Asked>,
    Query(question): Query<Question>,
) -> Result<Response, Failed> {
    let window = question.window(now())?;
    question.allocation(&Covered::default(), window)?;
    Ok(Json(question.allocation(&gathered(&asked, &question).await?, window)?).into_response())
}

#[cfg(test)]
mod tests {
    #[test]
    fn windows_travel_in_queries() {
        assert_eq!(
            super::encoded("2026-11-16T08:00:00+02:00,24h"),
            "2026-11-16T08%3A00%3A00%2B02%3A00%2C24h"
        );
    }
}
