//! Objects that are read, listed and watched.

use crate::asked::Asked;
use crate::failure::Failure;
use crate::resources::Kind;
use crate::selectors::{Fields, Labels};
use crate::table;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use carve_object_store::{Change, Store, Version, What};
use futures_util::stream;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a watch on which nothing happens says so.
const BOOKMARK: Duration = Duration::from_secs(15);

/// In which form objects are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Whole,
    /// Their metadata alone.
    Metadata,
    /// As rows of a table.
    Table,
}

impl Form {
    pub(crate) fn of(accept: &str) -> Self {
        // The first that is known counts; callers name the one they like best first.
        for wanted in accept.split(',') {
            if wanted.contains("as=Table") {
                return Form::Table;
            }
            if wanted.contains("as=PartialObjectMetadata") {
                return Form::Metadata;
            }
            if !wanted.contains("as=") {
                return Form::Whole;
            }
        }
        Form::Whole
    }
}

/// An object as it is asked for under this kind.
pub(crate) fn shaped(object: &Value, kind: &Kind, form: Form) -> Value {
    match form {
        Form::Whole => as_kind(object, kind),
        Form::Metadata => {
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
        }
        Form::Table => table::of(kind, &[object], None),
    }
}

/// Events have two groups, and two names for many of their fields.
fn as_kind(object: &Value, kind: &Kind) -> Value {
    let mut object = object.clone();
    if kind.kind == "Event" {
        object["apiVersion"] = kind.api_version().into();
        let new = kind.group == "events.k8s.io";
        for (old_name, new_name) in [
            ("involvedObject", "regarding"),
            ("message", "note"),
            ("reportingComponent", "reportingController"),
        ] {
            let (from, to) = if new { (old_name, new_name) } else { (new_name, old_name) };
            if let Some(value) = object.as_object_mut().and_then(|fields| fields.remove(from)) {
                object[to] = value;
            }
        }
    }
    object
}

/// An event is kept under its old names.
pub(crate) fn as_kept(mut object: Value, kind: &Kind) -> Value {
    if kind.group == "events.k8s.io" && object.is_object() {
        let core = Kind { group: "", ..*kind };
        object = as_kind(&object, &core);
    }
    object
}

/// What objects must be to be among those that are meant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meant {
    labels: Labels,
    fields: Fields,
}

impl Meant {
    pub(crate) fn by(asked: &Asked) -> Result<Self, Failure> {
        let mut meant = Meant {
            labels: Labels::read(asked.parameter("labelSelector").unwrap_or_default())?,
            fields: Fields::read(asked.parameter("fieldSelector").unwrap_or_default())?,
        };
        if let Some(name) = &asked.name {
            meant.fields = Fields::read(&format!("metadata.name={name}"))?;
        }
        Ok(meant)
    }

    pub(crate) fn fit(&self, object: &Value) -> bool {
        self.labels.fit(object) && self.fields.fit(object)
    }
}

/// All that are meant.
pub(crate) fn list(store: &Store, asked: &Asked, form: Form) -> Result<Value, Failure> {
    let meant = Meant::by(asked)?;
    let listed = store.list(&asked.kind.resource(), asked.namespace.as_deref());
    let found: Vec<&Value> =
        listed.objects.iter().map(|object| &**object).filter(|object| meant.fit(object)).collect();
    let metadata = json!({"resourceVersion": listed.version.to_string()});
    Ok(match form {
        Form::Table => table::of(asked.kind, &found, Some(listed.version)),
        Form::Metadata => {
            let items: Vec<Value> = found.iter().map(|object| shaped(object, asked.kind, form)).collect();
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})
        }
        Form::Whole => {
            let items: Vec<Value> = found.iter().map(|object| shaped(object, asked.kind, form)).collect();
            json!({
                "apiVersion": asked.kind.api_version(), "kind": format!("{}List", asked.kind.kind),
                "metadata": metadata, "items": items,
            })
        }
    })
}

/// What a change is for somebody who only sees the objects that are meant.
fn seen(change: &Change, meant: &Meant) -> Option<(&'static str, Arc<Value>)> {
    let before = change.before.as_ref().is_some_and(|object| meant.fit(object));
    let now = change.what != What::Deleted && meant.fit(&change.object);
    let word = match (before, now) {
        (false, true) => "ADDED",
        (true, true) => "MODIFIED",
        (true, false) => "DELETED",
        (false, false) => return None,
    };
    Some((word, Arc::clone(&change.object)))
}

fn line(word: &str, object: &Value) -> Bytes {
    let mut text = json!({"type": word, "object": object}).to_string();
    text.push('\n');
    text.into()
}

/// Changes from now on, as lines.
pub(crate) fn watch(store: &Store, asked: &Asked, form: Form) -> Result<Response, Failure> {
    let (kind, meant) = (asked.kind, Meant::by(asked)?);
    let (resource, namespace) = (kind.resource(), asked.namespace.clone());
    let since = asked.parameter("resourceVersion").filter(|version| *version != "0");
    let (since, first) = match since {
        Some(text) => {
            let wrong = || Failure::bad_request(format!("resourceVersion: '{text}' is no version"));
            (Version(text.parse().map_err(|_| wrong())?), Vec::new())
        }
        // What is there comes first.
        None => {
            let listed = store.list(&resource, namespace.as_deref());
            let there = listed.objects.iter().filter(|object| meant.fit(object));
            let lines = there.map(|object| line("ADDED", &shaped(object, kind, form))).collect();
            (listed.version, lines)
        }
    };
    let expired = |error: &dyn std::fmt::Display| Failure::gone(format!("too old resource version: {error}"));
    let watch = store.watch(Some(resource), namespace, since).map_err(|error| expired(&error))?;
    let seconds = asked.parameter("timeoutSeconds").and_then(|text| text.parse::<u64>().ok());
    let until = Instant::now()
        + Duration::from_secs(seconds.filter(|seconds| *seconds > 0).unwrap_or(1800).min(86_400));
    let bookmarks = asked.is("allowWatchBookmarks");
    let state = (watch, meant, first, false);
    let lines = stream::unfold(state, move |(mut watch, meant, mut ready, over)| async move {
        loop {
            if !ready.is_empty() {
                let chunk: Vec<u8> = ready.drain(..).flatten().collect();
                return Some((
                    Ok::<_, std::convert::Infallible>(Bytes::from(chunk)),
                    (watch, meant, ready, over),
                ));
            }
            if over || Instant::now() >= until {
                return None;
            }
            let pause = tokio::time::sleep_until((Instant::now() + BOOKMARK).min(until));
            tokio::select! {
                changes = watch.next() => match changes {
                    Ok(changes) => {
                        let told = changes.iter().filter_map(|change| seen(change, &meant));
                        ready.extend(told.map(|(word, object)| line(word, &shaped(&object, kind, form))));
                    }
                    Err(error) => {
                        let failure = Failure::gone(format!("too old resource version: {error}"));
                        let end = line("ERROR", &failure.status());
                        return Some((Ok(end), (watch, meant, Vec::new(), true)));
                    }
                },
                () = pause => if bookmarks {
                    let version = watch.seen().to_string();
                    let mark = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"resourceVersion": version}});
                    ready.push(line("BOOKMARK", &mark));
                },
            }
        }
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response())
}
