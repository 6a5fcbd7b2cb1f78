//! Requests, and what they are answered.

use crate::admission::Admission;
use crate::asked::Asked;
use crate::check::MOST_REPLICAS;
use crate::failure::Failure;
use crate::patch::Style;
use crate::read::{Form, Meant, as_kept, list, shaped, watch};
use crate::resources::{KINDS, Kind, kind_named};
use crate::write::{Writer, Written};
use crate::{collect, discovery};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{OriginalUri, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use carve_object_store::{Act, Key, Store};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use tower::ServiceExt;

/// The largest object that is taken.
const MOST: usize = 8 << 20;

/// Objects behind Kubernetes' way of asking for them; cheap to clone.
#[derive(Clone)]
pub struct ObjectApi {
    store: Store,
    admission: Arc<OnceLock<Arc<dyn Admission>>>,
}

impl std::fmt::Debug for ObjectApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectApi").field("store", &self.store.version()).finish_non_exhaustive()
    }
}

impl ObjectApi {
    /// Puts it in front of a store, and ends what an interrupted process left without owners.
    pub fn new(store: Store) -> Self {
        collect::sweep(&store);
        ObjectApi { store, admission: Arc::default() }
    }

    /// The store behind it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Asks this one before objects are written, from now on.
    pub fn admit_by(&self, admission: Arc<dyn Admission>) {
        let _ = self.admission.set(admission);
    }

    /// Everything over HTTP.
    pub fn routes(&self) -> Router {
        Router::new().fallback(serve).with_state(self.clone())
    }

    /// A client that asks it without a network.
    pub fn client(&self) -> kube::Client {
        let service = self
            .routes()
            .map_request(|request: axum::http::Request<kube::client::Body>| request.map(Body::new));
        kube::Client::new(service, "default")
    }

    /// Makes an object, after it was admitted, as a request would.
    pub async fn create(
        &self,
        kind: &'static Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Arc<Value>, Failure> {
        let asked = Asked::inside(kind, namespace, None);
        let admission = self.admission.get().map(|one| &**one);
        let written = Writer { store: &self.store, admission }.create(&asked, object).await?;
        Ok(written.object)
    }

    /// Deletes an object as a request would; without a grace period of its own where none is given.
    pub fn delete(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        grace: Option<i64>,
    ) -> Result<(), Failure> {
        let asked = Asked::inside(kind, namespace, Some(name));
        let options = grace.map_or(Value::Null, |seconds| json!({"gracePeriodSeconds": seconds}));
        Writer { store: &self.store, admission: None }.delete(&asked, name, &options).map(drop)
    }

    /// Binds a pod to a node, with annotations.
    pub fn bind(&self, pod: &Value, node: &str, annotations: &Value) -> Result<(), Failure> {
        let metadata = &pod["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let Some(pods) = kind_named("pods") else { return Ok(()) };
        let asked = Asked::inside(pods, text("namespace"), Some(text("name")));
        let binding = json!({
            "metadata": {"uid": metadata["uid"], "annotations": annotations}, "target": {"name": node},
        });
        Writer { store: &self.store, admission: None }.bind(&asked, &binding).map(drop)
    }

    /// Changes an object in place, past every check: for those who keep its status. One that is not there stays away.
    pub fn update(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<(), Failure> {
        let key = Key { resource: kind.resource(), namespace: namespace.to_owned(), name: name.to_owned() };
        let decide = |before: Option<&Value>| {
            let Some(before) = before else { return Ok(Act::Leave) };
            let mut object = before.clone();
            change(&mut object);
            Ok::<_, Failure>(if object == *before { Act::Leave } else { Act::Put(object) })
        };
        Ok(self.store.change(&key, decide).map(drop)?)
    }

    /// Objects of a kind, everywhere or in one namespace.
    pub fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Value>> {
        self.store.list(&kind.resource(), namespace).objects
    }

    /// An object by its kind and name.
    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = Key { resource: kind.resource(), namespace: namespace.to_owned(), name: name.to_owned() };
        self.store.get(&key)
    }
}

async fn serve(State(api): State<ObjectApi>, request: Request) -> Response {
    match api.answer(request).await {
        Ok(response) => response,
        Err(failure) => failure.into_response(),
    }
}

fn json_of(code: StatusCode, value: &Value, warnings: &[String]) -> Response {
    let mut response =
        (code, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response();
    for warning in warnings {
        let plain: String = warning.chars().filter(|letter| !letter.is_control()).collect();
        let text = format!("299 - \"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""));
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

fn header(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// What was sent, as JSON or YAML.
fn read_body(bytes: &Bytes, content_type: &str) -> Result<Value, Failure> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    if content_type.contains("protobuf") || content_type.contains("cbor") {
        return Err(Failure::media_type(content_type));
    }
    let text =
        std::str::from_utf8(bytes).map_err(|_| Failure::bad_request("the body is no text".to_owned()))?;
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) if !content_type.contains("yaml") => {
            Err(Failure::bad_request(format!("the body does not read as JSON: {error}")))
        }
        Err(_) => serde_saphyr::from_str(text)
            .map_err(|error| Failure::bad_request(format!("the body does not read as YAML: {error}"))),
    }
}

impl ObjectApi {
    async fn answer(&self, request: Request) -> Result<Response, Failure> {
        let path = request.uri().path().to_owned();
        if matches!(path.as_str(), "/healthz" | "/readyz" | "/livez") {
            return Ok("ok".into_response());
        }
        let whole = request.extensions().get::<OriginalUri>().map_or(path.as_str(), |uri| uri.path());
        let prefix = whole.strip_suffix(&path).unwrap_or_default();
        let found = discovery::answer(&path).or_else(|| discovery::described(&path, prefix));
        if request.method() == Method::GET
            && let Some(found) = found
        {
            return Ok(json_of(StatusCode::OK, &found, &[]));
        }
        let asked = Asked::read(request.method(), request.uri())?;
        let form = Form::of(header(request.headers(), header::ACCEPT));
        let content_type = header(request.headers(), header::CONTENT_TYPE).to_owned();
        let body = Body::new(http_body_util::Limited::new(request.into_body(), MOST)).collect().await;
        let bytes = body.map_err(|error| unread(&*error.into_inner()))?.to_bytes();
        let written = |written: Written| {
            let code = if written.new { StatusCode::CREATED } else { StatusCode::OK };
            json_of(code, &shaped(&written.object, asked.kind, form), &written.warnings)
        };
        let admission = self.admission.get().map(|one| &**one);
        let writer = Writer { store: &self.store, admission };
        match (asked.method.as_str(), asked.part.as_deref()) {
            ("GET", None) if asked.name.is_none() || asked.is("watch") => match asked.is("watch") {
                true => watch(&self.store, &asked, form),
                false => Ok(json_of(StatusCode::OK, &list(&self.store, &asked, form)?, &[])),
            },
            ("GET", Some("scale")) => Ok(json_of(StatusCode::OK, &scale_of(&*self.there(&asked)?), &[])),
            ("GET", None | Some("status")) => {
                Ok(json_of(StatusCode::OK, &shaped(&*self.there(&asked)?, asked.kind, form), &[]))
            }
            ("POST", None) if asked.name.is_none() => {
                let object = as_kept(read_body(&bytes, &content_type)?, asked.kind);
                let asked = Asked { kind: kept_kind(asked.kind), ..asked.clone() };
                Ok(written(writer.create(&asked, object).await?))
            }
            ("POST", Some("binding")) => {
                writer.bind(&asked, &read_body(&bytes, &content_type)?)?;
                Ok(json_of(StatusCode::CREATED, &success(), &[]))
            }
            ("POST", Some("eviction")) => {
                let eviction = read_body(&bytes, &content_type)?;
                writer.delete(
                    &asked,
                    asked.name.as_deref().unwrap_or_default(),
                    &eviction["deleteOptions"],
                )?;
                Ok(json_of(StatusCode::CREATED, &success(), &[]))
            }
            ("PUT" | "PATCH", Some("scale")) => {
                let sent = read_body(&bytes, &content_type)?;
                self.scale(&writer, &asked, &sent, &content_type).await
            }
            ("PUT", None | Some("status")) => {
                let object = as_kept(read_body(&bytes, &content_type)?, asked.kind);
                let asked = Asked { kind: kept_kind(asked.kind), ..asked.clone() };
                Ok(written(writer.replace(&asked, object).await?))
            }
            ("PATCH", None | Some("status")) => {
                let style = Style::of(&content_type)?;
                let patch = as_kept(read_body(&bytes, &content_type)?, asked.kind);
                let asked = Asked { kind: kept_kind(asked.kind), ..asked.clone() };
                Ok(written(writer.patch(&asked, patch, style).await?))
            }
            ("DELETE", None) => {
                let options = read_body(&bytes, &content_type)?;
                self.answer_delete(&writer, &asked, &options, form)
            }
            (method, _) => Err(Failure::not_allowed(method)),
        }
    }

    /// The object that is named.
    fn there(&self, asked: &Asked) -> Result<Arc<Value>, Failure> {
        let name = asked.name.as_deref().unwrap_or_default();
        self.store.get(&asked.key(name)).ok_or_else(|| Failure::not_found(&asked.kind.named(), name))
    }

    fn answer_delete(
        &self,
        writer: &Writer<'_>,
        asked: &Asked,
        options: &Value,
        form: Form,
    ) -> Result<Response, Failure> {
        if let Some(name) = asked.name.as_deref() {
            let object = writer.delete(asked, name, options)?;
            return Ok(json_of(StatusCode::OK, &shaped(&object, asked.kind, form), &[]));
        }
        if asked.kind.namespaced && asked.namespace.is_none() {
            return Err(Failure::not_allowed("DELETE without a namespace"));
        }
        let meant = Meant::by(asked)?;
        let listed = self.store.list(&asked.kind.resource(), asked.namespace.as_deref());
        for object in listed.objects.iter().filter(|object| meant.fit(object)) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            match writer.delete(asked, name, options) {
                Err(failure) if failure.reason != "NotFound" => return Err(failure),
                _ => {}
            }
        }
        Ok(json_of(StatusCode::OK, &success(), &[]))
    }

    async fn scale(
        &self,
        writer: &Writer<'_>,
        asked: &Asked,
        sent: &Value,
        content_type: &str,
    ) -> Result<Response, Failure> {
        let wanted = match asked.method.as_str() {
            "PUT" => sent.clone(),
            _ => crate::patch::patched(&scale_of(&*self.there(asked)?), sent, Style::of(content_type)?)?,
        };
        let number = replicas(&wanted, asked.name.as_deref().unwrap_or_default())?;
        let whole = Asked { part: None, ..asked.clone() };
        let mut patch = json!({"spec": {"replicas": number}});
        if let Some(version) =
            wanted["metadata"]["resourceVersion"].as_str().filter(|_| asked.method == Method::PUT)
        {
            patch["metadata"] = json!({"resourceVersion": version});
        }
        let written = writer.patch(&whole, patch, Style::Merge).await?;
        Ok(json_of(StatusCode::OK, &scale_of(&written.object), &written.warnings))
    }
}

/// Why a body was not read to its end.
fn unread(error: &(dyn std::error::Error + 'static)) -> Failure {
    let mut cause = Some(error);
    while let Some(one) = cause {
        if one.is::<http_body_util::LengthLimitError>() {
            return Failure::too_large(MOST);
        }
        cause = one.source();
    }
    Failure::bad_request(format!("the body can not be read: {error}"))
}

/// How many a Scale asks for. One that does not say so does not mean none.
fn replicas(scale: &Value, name: &str) -> Result<i64, Failure> {
    let wrong = |why: String| Failure::invalid("Scale", name, vec![("spec.replicas".to_owned(), why)]);
    match &scale["spec"]["replicas"] {
        Value::Null => Err(wrong("Required value: write how many, as in 3".to_owned())),
        value => value.as_i64().filter(|number| (0..=MOST_REPLICAS).contains(number)).ok_or_else(|| {
            wrong(format!("Invalid value: {value}: must be a number from 0 to {MOST_REPLICAS}"))
        }),
    }
}

/// Events of the newer group are kept as those of the older one.
fn kept_kind(kind: &'static Kind) -> &'static Kind {
    match kind.kind {
        "Event" => KINDS.iter().find(|one| one.kind == "Event" && one.group.is_empty()).unwrap_or(kind),
        _ => kind,
    }
}

fn success() -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"})
}

fn scale_of(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or(0)},
        "status": {"replicas": object["status"]["replicas"].as_i64().unwrap_or(0)},
    })
}
