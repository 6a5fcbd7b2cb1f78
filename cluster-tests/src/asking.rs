//! Objects as the API server has them, over one connection: suites ask several times a second, and a kubectl for each question would take a
//! good part of the machine.

use crate::inside::Inside;
use kube::Client;
use serde_json::Value;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How long an API server may take: one that stands still has no objects for whoever asks.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one that can not be reached is asked again.
const AGAIN: Duration = Duration::from_secs(2);

/// What suites ask for most, by both its names, where it is, and whether namespaces have it. Everything else is kubectl's.
const KINDS: &[(&str, &str, &str, bool)] = &[
    ("pod", "pods", "/api/v1", true),
    ("event", "events", "/api/v1", true),
    ("node", "nodes", "/api/v1", false),
    ("deployment", "deployments", "/apis/apps/v1", true),
    ("daemonset", "daemonsets", "/apis/apps/v1", true),
    ("resourceclaim", "resourceclaims", "/apis/resource.k8s.io/v1", true),
    ("resourceslice", "resourceslices", "/apis/resource.k8s.io/v1", false),
    ("slicepolicy", "slicepolicies", "/apis/carve.dev/v1beta1", false),
    ("sliceplan", "sliceplans", "/apis/carve.dev/v1alpha1", false),
];

/// A question, and whoever waits for the answer.
type Question = (String, Sender<Option<Value>>);

/// A connection that lives as long as this.
#[derive(Debug)]
pub(crate) struct Asking {
    questions: UnboundedSender<Question>,
}

impl Asking {
    pub(crate) fn begin(inside: Inside) -> Self {
        let (questions, asked) = unbounded_channel();
        inside.spawn(move |client| answer(client, asked));
        Asking { questions }
    }

    /// What is at a path, or null.
    pub(crate) fn ask(&self, path: String) -> Value {
        let (sender, answer) = std::sync::mpsc::channel();
        let asked = self.questions.send((path, sender));
        asked.ok().and_then(|()| answer.recv().ok()).flatten().unwrap_or(Value::Null)
    }
}

async fn answer(client: Client, mut asked: UnboundedReceiver<Question>) {
    while let Some((path, sender)) = asked.recv().await {
        let client = client.clone();
        // Nobody waits for what another asked.
        tokio::spawn(async move {
            let got = tokio::time::timeout(PATIENCE, get(&client, &path)).await.ok().flatten();
            // Whoever does not wait any more has failed for another reason.
            let _ = sender.send(got);
        });
    }
}

/// An answer that did not come whole says nothing about the object, and is asked for again a little later.
async fn get(client: &Client, path: &str) -> Option<Value> {
    let give_up = Instant::now() + AGAIN;
    loop {
        let request = http::Request::get(path).body(Vec::new()).ok()?;
        match client.request_text(request).await {
            Ok(text) => return Some(as_kubectl_prints(serde_json::from_str(&text).ok()?)),
            Err(kube::Error::Api(status)) if status.code == 404 => return None,
            Err(_) if Instant::now() > give_up => return None,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// An API server says once of what kind the objects of a list are, kubectl of each.
fn as_kubectl_prints(mut answer: Value) -> Value {
    let kind = answer["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    let version = answer["apiVersion"].clone();
    if let (Some(kind), Some(items)) = (kind, answer.get_mut("items").and_then(Value::as_array_mut)) {
        for item in items {
            item["kind"] = kind.clone().into();
            item["apiVersion"] = version.clone();
        }
    }
    answer
}

/// Where the API server has what `kubectl get` with these words prints; nothing where only kubectl knows.
pub(crate) fn path_of(words: &[&str]) -> Option<String> {
    let (mut what, mut query, mut namespace, mut everywhere) = (Vec::new(), Vec::new(), "default", false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "-n" => namespace = words.next()?,
            "-A" => everywhere = true,
            "-l" => query.push(format!("labelSelector={}", escaped(words.next()?))),
            other => match other.strip_prefix("--field-selector=") {
                Some(selector) => query.push(format!("fieldSelector={}", escaped(selector))),
                None if other.starts_with('-') => return None,
                None => what.push(other),
            },
        }
    }
    let (kind, name) = match what[..] {
        [kind] => (kind, None),
        [kind, name] if query.is_empty() && !everywhere => (kind, Some(name)),
        _ => return None,
    };
    let (_, plural, place, has_namespace) =
        KINDS.iter().find(|(one, many, ..)| kind == *one || kind == *many)?;
    let within =
        if *has_namespace && !everywhere { format!("/namespaces/{namespace}") } else { String::new() };
    let name = name.map(|name| format!("/{name}")).unwrap_or_default();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    Some(format!("{place}{within}/{plural}{name}{query}"))
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{as_kubectl_prints, path_of};
    use serde_json::json;

    #[test]
    fn paths_are_those_that_kubectl_asks_for() {
        let cases: &[(&[&str], Option<&str>)] = &[
            (&["-n", "team", "pod", "a"], Some("/api/v1/namespaces/team/pods/a")),
            (
                &["pods", "-n", "team", "-l", "app=b"],
                Some("/api/v1/namespaces/team/pods?labelSelector=app%3Db"),
            ),
            (&["pods"], Some("/api/v1/namespaces/default/pods")),
            (&["resourceclaims", "-A"], Some("/apis/resource.k8s.io/v1/resourceclaims")),
            (&["-n", "team", "node", "node0"], Some("/api/v1/nodes/node0")),
            (
                &["resourceslices", "--field-selector=spec.driver=d"],
                Some("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.driver%3Dd"),
            ),
            // What kubectl alone knows.
            (&["pods,resourceclaims"], None),
            (&["pods", "--sort-by=x"], None),
            (&["nodepool", "a"], None),
            (&["pod", "a", "b"], None),
            (&[], None),
        ];
        for (words, path) in cases {
            assert_eq!(path_of(words).as_deref(), *path, "{words:?}");
        }
    }

    #[test]
    fn objects_of_lists_say_what_they_are() {
        let list = json!({"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]});
        let item = &as_kubectl_prints(list)["items"][0];
        assert_eq!((&item["kind"], &item["apiVersion"]), (&json!("Pod"), &json!("v1")));
        let one = json!({"kind": "Pod", "metadata": {"name": "a"}});
        assert_eq!(as_kubectl_prints(one.clone()), one);
    }
}
