//! Templates that are there, missing, somebody else's, or unused, before an API server that keeps them.

use super::{KEPT, TemplateError, UNUSED, ensure, says_the_same, sweep_once};
use carve_admission::Template;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One template, the pods, and what was written.
#[derive(Default)]
struct State {
    template: Option<Value>,
    pods: Vec<Value>,
    version: u64,
    writes: Vec<String>,
}

type Shared = Arc<Mutex<State>>;

fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}))
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, sent: &Value) -> (u16, Value) {
        let is_list = path.ends_with("/resourceclaimtemplates");
        let version = self.template.as_ref().map(|one| one["metadata"]["resourceVersion"].clone());
        if *method != Method::GET {
            self.writes.push(method.to_string());
        }
        let stale = |asked: &Value| !asked.is_null() && Some(asked) != version.as_ref();
        match (method, path) {
            (&Method::GET, "/api/v1/pods") => (200, json!({"metadata": {}, "items": self.pods})),
            (&Method::GET, _) if is_list => {
                (200, json!({"metadata": {}, "items": self.template.iter().collect::<Vec<_>>()}))
            }
            (&Method::GET, _) => match &self.template {
                Some(template) => (200, template.clone()),
                None => failure(404, "NotFound", "not found"),
            },
            (&Method::POST, _) if self.template.is_some() => failure(409, "AlreadyExists", "already exists"),
            (&Method::POST, _) => {
                let mut new = sent.clone();
                new["spec"]["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] =
                    json!("ExactCount");
                self.keep(new)
            }
            (&Method::PATCH, _) if stale(&sent["metadata"]["resourceVersion"]) => {
                failure(409, "Conflict", "the object has been modified")
            }
            (&Method::PATCH, _) => {
                let mut new = self.template.clone().expect("a template");
                json_patch::merge(&mut new, sent);
                self.keep(new)
            }
            (&Method::DELETE, _) if stale(&sent["preconditions"]["resourceVersion"]) => {
                failure(409, "Conflict", "the object has been modified")
            }
            (&Method::DELETE, _) => (200, self.template.take().expect("a template")),
            _ => failure(405, "NotHere", "not here"),
        }
    }

    fn keep(&mut self, mut new: Value) -> (u16, Value) {
        self.version += 1;
        new["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.template = Some(new.clone());
        (200, new)
    }
}

fn server(state: State) -> (Client, Shared) {
    let state = Arc::new(Mutex::new(state));
    let kept = Arc::clone(&state);
    let service = tower::service_fn(move |request: Request<Body>| {
        let state = Arc::clone(&state);
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await.expect("a body");
            let sent = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let (code, answer) = state.lock().unwrap().answer(&parts.method, parts.uri.path(), &sent);
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    (Client::new(service, "default"), kept)
}

const NAME: &str = "carve-0123456789ab";

fn template() -> Template {
    let spec = json!({"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "fraction.carve.dev"}}]}}});
    let metadata =
        json!({"name": NAME, "namespace": "team", "labels": {"app.kubernetes.io/managed-by": "carve"}});
    let object = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec});
    Template { name: NAME.to_owned(), object }
}

#[tokio::test]
async fn it_is_made_once_and_not_in_a_rehearsal() {
    let (client, state) = server(State::default());
    ensure(&client, "team", &template(), true).await.unwrap();
    assert!(state.lock().unwrap().writes.is_empty());
    ensure(&client, "team", &template(), false).await.unwrap();
    ensure(&client, "team", &template(), false).await.unwrap();
    assert_eq!(state.lock().unwrap().writes, ["POST"]);
}

#[tokio::test]
async fn one_that_a_tenant_made_is_not_believed() {
    let mut forged = template().object;
    forged["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = json!("gpu.carve.dev");
    let (client, _) = server(State { template: Some(forged), ..State::default() });
    let error = ensure(&client, "team", &template(), false).await.unwrap_err();
    assert!(matches!(error, TemplateError::SaysSomethingElse(_)), "{error}");
}

#[test]
fn only_what_is_meant_by_silence_may_be_added() {
    let ours = json!({"requests": [{"exactly": {"deviceClassName": "x"}}]});
    let with = |key: &str, value: Value| {
        let mut theirs = ours.clone();
        theirs["requests"][0]["exactly"][key] = value;
        says_the_same(&ours, &theirs)
    };
    assert!(with("allocationMode", json!("ExactCount")) && with("count", json!(1)));
    assert!(
        !with("allocationMode", json!("All"))
            && !with("count", json!(2))
            && !with("adminAccess", json!(true))
    );
    assert!(!says_the_same(&ours, &json!({"requests": []})));
}

#[tokio::test]
async fn unused_ones_are_marked_then_deleted_and_a_pod_keeps_them() {
    let (client, state) = server(State::default());
    ensure(&client, "team", &template(), false).await.unwrap();
    let mark =
        || state.lock().unwrap().template.as_ref().map(|one| one["metadata"]["annotations"][UNUSED].clone());
    let start = Duration::from_secs(1_800_000_000);
    let pod = json!({"metadata": {"name": "one", "namespace": "team"},
        "spec": {"containers": [], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": NAME}]}});
    state.lock().unwrap().pods = vec![pod];
    sweep_once(&client, start).await.unwrap();
    assert_eq!(mark(), Some(Value::Null));
    state.lock().unwrap().pods.clear();
    sweep_once(&client, start).await.unwrap();
    assert_eq!(mark(), Some(json!("1800000000")));
    sweep_once(&client, start + KEPT / 2).await.unwrap();
    // A pod comes: it is unmarked before the pod is let in, so what the sweep saw is not what is there.
    ensure(&client, "team", &template(), false).await.unwrap();
    assert_eq!(mark(), Some(Value::Null));
    sweep_once(&client, start + KEPT).await.unwrap();
    assert_eq!(mark(), Some(json!((1_800_000_000 + KEPT.as_secs()).to_string())));
    sweep_once(&client, start + KEPT * 2).await.unwrap();
    assert_eq!(mark(), None, "deleted");
}
