//! What is told: events about objects, and what people see of them.

use crate::objects::{moment, name_of, namespace_of, now, text, uid_of};
use crate::workloads::kind;
use carve_fleet_picture::{Happening, Tone};
use carve_object_api::ObjectApi;
use carve_object_store::{Act, Key};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Events that are kept.
const KEPT: usize = 1_000;

/// Tells events.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    number: AtomicU64,
    /// What went wrong here, and when it was last said, in milliseconds since 1970.
    said: Mutex<BTreeMap<String, i64>>,
}

/// How soon the same is said again.
const AGAIN: i64 = 60_000;

impl Teller {
    /// Says in the log what could not be done, which is tried again and again: the same once a minute, however many it happens to.
    pub(crate) fn complain(&self, what: &str, whose: &str, why: &str) {
        let (line, now) = (format!("{what}: {why}"), now());
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.retain(|_, at| now - *at < AGAIN);
        if let Entry::Vacant(new) = said.entry(line) {
            tracing::warn!(first = whose, "{}", new.key());
            new.insert(now);
        }
    }

    /// Tells something about an object. The same about the same object is counted.
    pub(crate) fn tell(&self, api: &ObjectApi, about: &Value, tone: Tone, reason: &str, words: &str) {
        let at = moment(now());
        let namespace = match namespace_of(about) {
            "" => "default",
            namespace => namespace,
        };
        let mark = fingerprint(&format!("{}{reason}{words}", uid_of(about)));
        let key = Key {
            resource: kind("events").resource(),
            namespace: namespace.to_owned(),
            name: format!("{}.{mark:016x}", name_of(about)),
        };
        let put = |before: Option<&Value>| {
            let mut event = before.cloned().unwrap_or_else(|| {
                json!({
                    "apiVersion": "v1", "kind": "Event",
                    "metadata": {"name": key.name, "namespace": namespace, "uid": format!("{mark:016x}"), "creationTimestamp": at},
                    "involvedObject": {
                        "apiVersion": about["apiVersion"], "kind": about["kind"], "name": name_of(about),
                        "namespace": about["metadata"]["namespace"], "uid": uid_of(about),
                    },
                    "reason": reason, "message": words, "type": if tone == Tone::Warning { "Warning" } else { "Normal" },
                    "source": {"component": "carve"}, "firstTimestamp": at, "count": 0,
                })
            });
            event["count"] = (event["count"].as_i64().unwrap_or(0) + 1).into();
            event["lastTimestamp"] = at.clone().into();
            Ok::<_, Infallible>(Act::Put(event))
        };
        if let Err(error) = api.store().change(&key, put) {
            self.complain("events can not be kept", name_of(about), &error.to_string());
        }
        // Now and then what is old goes.
        if self.number.fetch_add(1, Ordering::Relaxed) % 100 == 99 {
            forget(api);
        }
    }
}

fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

fn forget(api: &ObjectApi) {
    let mut events = api.list(kind("events"), None);
    if events.len() <= KEPT {
        return;
    }
    events.sort_by_key(|event| text(&event["lastTimestamp"]).to_owned());
    for event in &events[..events.len() - KEPT] {
        let _ = api.delete(kind("events"), namespace_of(event), name_of(event), None);
    }
}

/// An event as people see it.
pub(crate) fn seen(event: &Value, number: u64) -> Happening {
    let about = &event["involvedObject"];
    let (what, name) = (text(&about["kind"]).to_lowercase(), text(&about["name"]));
    let about = match text(&about["namespace"]) {
        "" => format!("{what}/{name}"),
        namespace => format!("{what}/{namespace}/{name}"),
    };
    Happening {
        number,
        at: now() / 1000,
        tone: if event["type"] == "Warning" { Tone::Warning } else { Tone::Normal },
        about,
        reason: text(&event["reason"]).to_owned(),
        words: text(&event["message"]).to_owned(),
    }
}
