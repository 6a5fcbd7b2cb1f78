//! What Prometheus can ask the controller: how long the scheduler waits for its answers, whether this replica leads, who waits for GPUs, what was
//! cut, and whether machines are what was promised.

#[cfg(test)]
mod reference;
mod told;

pub(crate) use told::Policy;

use crate::waiting::Waiting;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Fine where a scheduler that places hundreds of pods a second feels it; coarse where only a failing API server gets.
const BOUNDS: [f64; 27] = [
    0.0005, 0.001, 0.0015, 0.002, 0.0025, 0.003, 0.0035, 0.004, 0.0045, 0.005, 0.006, 0.007, 0.008, 0.009,
    0.010, 0.0125, 0.015, 0.020, 0.030, 0.050, 0.100, 0.250, 0.500, 1.0, 2.5, 5.0, 10.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: String,
}

type Times = Family<Verb, Histogram, fn() -> Histogram>;

/// What was asked about; an answer carries it to whoever measures.
#[derive(Debug, Clone)]
pub(crate) struct AskedAbout {
    /// UID of the pod.
    pub(crate) pod: String,
    /// Whether the scheduler has no further question about where it goes: one node is left, or none.
    pub(crate) settled: bool,
}

/// More pods are not between filter and prioritize; of most that are still noted then, prioritize was never asked.
const MOST_NOTED: usize = 1000;

/// All series of the controller.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    answers: Times,
    /// Of filter and prioritize of one pod together.
    decisions: Histogram,
    /// How long filter took for pods of which prioritize is not asked yet.
    filtered: Arc<Mutex<HashMap<String, Duration>>>,
    leads: Gauge,
    told: Arc<told::Told>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("carve_controller");
        let answers = Times::new_with_constructor(|| Histogram::new(BOUNDS));
        let help = "Time from a question of the scheduler to its answer, reading and writing JSON included";
        registry.register_with_unit("extender_answer", help, Unit::Seconds, answers.clone());
        let decisions = Histogram::new(BOUNDS);
        let help = "Time that a scheduler waits for filter and prioritize of one pod together";
        registry.register_with_unit("extender_decision", help, Unit::Seconds, decisions.clone());
        let leads = Gauge::default();
        registry.register("leads", "Whether this replica decides where pods go", leads.clone());
        let told = Arc::new(told::Told::default());
        registry.register_collector(Box::new(Arc::clone(&told)));
        let registry = Arc::new(Mutex::new(registry));
        Metrics { registry, answers, decisions, filtered: Arc::default(), leads, told }
    }
}

impl Metrics {
    /// Pods that wait, to be kept known by whoever watches them.
    pub(crate) fn waiting(&self) -> &Mutex<Waiting> {
        &self.told.waiting
    }

    /// A plan was carried out, or could not be.
    pub(crate) fn cut(&self, done: bool) {
        self.told.cut(done);
    }

    /// What is known of policies that want machines, by name; others have no series any more.
    pub(crate) fn policies(&self, policies: BTreeMap<String, Policy>) {
        self.told.set_policies(policies);
    }

    /// All series, in Prometheus' words.
    fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Strings take everything that is written to them.
        let _ = encode(&mut text, &registry);
        text
    }

    /// A scheduler asks filter first, and prioritize where more than one node is left.
    fn note(&self, verb: &str, AskedAbout { pod, settled }: AskedAbout, took: Duration) {
        let mut filtered = self.filtered.lock().unwrap_or_else(PoisonError::into_inner);
        match verb {
            "filter" if settled => {
                filtered.remove(&pod);
                self.decisions.observe(took.as_secs_f64());
            }
            "filter" => {
                if filtered.len() >= MOST_NOTED {
                    filtered.clear();
                }
                filtered.insert(pod, took);
            }
            "prioritize" => {
                if let Some(before) = filtered.remove(&pod) {
                    self.decisions.observe((before + took).as_secs_f64());
                }
            }
            _ => {}
        }
    }
}

/// Notes how long an answer of the extender takes: from the head of the question until the answer can be sent.
pub(crate) async fn timed(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    // Only known routes come here, so there are few of them.
    let verb = Verb { verb: request.uri().path().trim_start_matches('/').to_owned() };
    let start = Instant::now();
    let mut response = next.run(request).await;
    let took = start.elapsed();
    metrics.answers.get_or_create(&verb).observe(took.as_secs_f64());
    if let Some(about) = response.extensions_mut().remove() {
        metrics.note(&verb.verb, about, took);
    }
    response
}

/// `GET /metrics`.
pub(crate) fn routes(metrics: Metrics, leads: impl Fn() -> bool + Clone + Send + Sync + 'static) -> Router {
    let answer = move || {
        let leads = leads();
        metrics.leads.set(i64::from(leads));
        metrics.told.lead(leads);
        let text = metrics.text();
        async move {
            ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
                .into_response()
        }
    };
    Router::new().route("/metrics", get(answer))
}

#[cfg(test)]
mod tests {
    use super::{AskedAbout, Metrics, routes, timed};
    use axum::Extension;
    use axum::routing::post;
    use axum::{Router, middleware};
    use http::Request;
    use tower::ServiceExt;

    async fn told(metrics: Metrics) -> String {
        let question = Request::get("/metrics").body(axum::body::Body::empty()).unwrap();
        let answer = routes(metrics, || true).oneshot(question).await.unwrap();
        let text = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn answers_are_counted_by_verb_and_decisions_by_pod() {
        let metrics = Metrics::default();
        let about = || async { (Extension(AskedAbout { pod: "a".to_owned(), settled: false }), "yes") };
        let asked = Router::new()
            .route("/filter", post(about))
            .route("/prioritize", post(about))
            .route("/bind", post(|| async { "yes" }))
            .route_layer(middleware::from_fn_with_state(metrics.clone(), timed));
        for verb in ["filter", "filter", "prioritize", "prioritize", "bind", "filter"] {
            let question = Request::post(format!("/{verb}")).body(axum::body::Body::empty()).unwrap();
            asked.clone().oneshot(question).await.unwrap();
        }
        metrics.note("filter", AskedAbout { pod: "b".to_owned(), settled: true }, std::time::Duration::ZERO);
        let text = told(metrics).await;
        for line in [
            r#"carve_controller_extender_answer_seconds_count{verb="filter"} 3"#,
            r#"carve_controller_extender_answer_seconds_count{verb="prioritize"} 2"#,
            "carve_controller_extender_decision_seconds_count 2",
            "carve_controller_leads 1",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
