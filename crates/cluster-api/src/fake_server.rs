//! For tests: an API server that keeps slices of one node in memory, and forgets fields whose gates are off.

use crate::NodeApi;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

/// A server, and what happened to it.
#[derive(Clone, Default)]
pub(crate) struct FakeServer(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    /// Slices by name.
    pub(crate) slices: BTreeMap<String, Value>,
    /// Feature gates that are off.
    pub(crate) gates_off: BTreeSet<&'static str>,
    /// Every write, as `POST name`, `PUT name` or `DELETE name`.
    pub(crate) writes: Vec<String>,
    /// The name of a slice that somebody else touches or, where it says so, deletes after the next list.
    pub(crate) interfere: Option<(String, bool)>,
    /// The newest resource version.
    version: u64,
}

impl State {
    fn keep(&mut self, name: &str, mut slice: Value) -> Value {
        self.version += 1;
        let off = |gate| self.gates_off.contains(gate);
        let (counters, capacity, taints) =
            (off("DRAPartitionableDevices"), off("DRAConsumableCapacity"), off("DRADeviceTaints"));
        let version = self.version;
        let remove =
            |value: &mut Value, field: &str| drop(value.as_object_mut().map(|map| map.remove(field)));
        if counters {
            remove(&mut slice["spec"], "sharedCounters");
        }
        for device in slice["spec"]["devices"].as_array_mut().into_iter().flatten() {
            if counters {
                remove(device, "consumesCounters");
            }
            if taints {
                remove(device, "taints");
            }
            if capacity {
                remove(device, "allowMultipleAllocations");
                for (_, capacity) in device["capacity"].as_object_mut().into_iter().flatten() {
                    remove(capacity, "requestPolicy");
                }
            }
            for taint in device.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
                if taint["timeAdded"].is_null() {
                    taint["timeAdded"] = json!(format!("2026-11-15T00:00:{version:02}Z"));
                }
            }
        }
        // As an object it has no list of devices where none were sent.
        if slice["spec"]["devices"].is_null() {
            remove(&mut slice["spec"], "devices");
        }
        slice["metadata"]["resourceVersion"] = json!(version.to_string());
        if slice["metadata"]["uid"].is_null() {
            slice["metadata"]["uid"] = json!(format!("uid-{version}"));
        }
        self.slices.insert(name.to_owned(), slice.clone());
        slice
    }

    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> Result<Value, StatusCode> {
        if path.ends_with("/nodes/node0") {
            return Ok(
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node0", "uid": "uid-of-node0"}}),
            );
        }
        let name = match *method {
            Method::POST => body["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            _ => path.rsplit('/').next().unwrap_or_default().to_owned(),
        };
        if *method != Method::GET {
            self.writes.push(format!("{method} {name}"));
        }
        let there = self.slices.get(&name).cloned();
        match (method, there) {
            (&Method::GET, _) => {
                let items: Vec<Value> = self.slices.values().cloned().collect();
                if let Some((name, deletes)) = self.interfere.take() {
                    let slice = self.slices.remove(&name).expect("somebody touches what is there");
                    if !deletes {
                        self.keep(&name, slice);
                    }
                }
                let metadata = json!({"resourceVersion": self.version.to_string()});
                Ok(
                    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "metadata": metadata, "items": items}),
                )
            }
            (&Method::POST, None) => Ok(self.keep(&name, body.clone())),
            (&Method::PUT, Some(there)) => {
                if there["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
                    return Err(StatusCode::CONFLICT);
                }
                let mut slice = body.clone();
                slice["metadata"]["uid"] = there["metadata"]["uid"].clone();
                Ok(self.keep(&name, slice))
            }
            (&Method::DELETE, Some(_)) => {
                self.slices.remove(&name);
                self.version += 1;
                Ok(json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}))
            }
            (&Method::POST, Some(_)) => Err(StatusCode::CONFLICT),
            _ => Err(StatusCode::NOT_FOUND),
        }
    }
}

impl FakeServer {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics while it holds the server")
    }

    /// What was written since this was asked last.
    pub(crate) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().writes)
    }

    /// The API of `node0` on this server.
    pub(crate) fn api(&self) -> NodeApi {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await.expect("a body");
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let answer = server.state().answer(&parts.method, parts.uri.path(), &body);
                let (code, value) = match answer {
                    Ok(value) => (StatusCode::OK, value),
                    Err(code) => {
                        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                            "reason": "Refused", "message": "a conflict", "code": code.as_u16()});
                        (code, status)
                    }
                };
                let mut response = Response::new(Body::from(value.to_string().into_bytes()));
                *response.status_mut() = code;
                Ok::<_, Infallible>(response)
            }
        });
        NodeApi::through(Client::new(service, "default"), "node0")
    }
}
