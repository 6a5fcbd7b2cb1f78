//! What is sent to the API server, and what is made of its answers.

use super::Kubernetes;
use crate::cluster::Cluster;
use crate::store::{Store, StoreError};
use carve_bookings::{Booking, PodUid, Slices};
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What was asked: method and path with its query, and the body.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// An API server that answers by a function of what it is asked.
fn server(answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static) -> (Kubernetes, Asked) {
    let (asked, answer) = (Asked::default(), Arc::new(answer));
    let record = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (record, answer) = (Arc::clone(&record), Arc::clone(&answer));
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await.expect("a body");
            let words = format!("{} {}", parts.method, parts.uri);
            record
                .lock()
                .unwrap()
                .push((words.clone(), serde_json::from_slice(&bytes).unwrap_or(Value::Null)));
            // A watch stays open and has nothing new.
            if words.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let (code, value) = answer(&words);
            let mut response = Response::new(Body::from(value.to_string().into_bytes()));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    (Kubernetes::new(Client::new(service, "default")), asked)
}

fn failure(code: u16) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": if code == 404 { "NotFound" } else { "Because" }, "message": "said so", "code": code});
    (code, status)
}

#[tokio::test]
async fn a_binding_is_sent_whole_to_its_pod() {
    let success = json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201});
    let (kubernetes, asked) = server(move |_| (201, success.clone()));
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"namespace": "team", "name": "one"}, "target": {"name": "a"}});
    kubernetes.bind(&binding).await.unwrap();
    let asked = asked.lock().unwrap();
    assert_eq!(*asked, [("POST /api/v1/namespaces/team/pods/one/binding".to_owned(), binding)]);
}

#[tokio::test]
async fn what_is_final_and_what_is_not_known_are_told_apart() {
    let binding = json!({"metadata": {"namespace": "team", "name": "one"}});
    for (code, is_final) in
        [(404, true), (409, true), (403, true), (422, true), (429, false), (500, false), (504, false)]
    {
        let (kubernetes, _) = server(move |_| failure(code));
        let error = kubernetes.bind(&binding).await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Refused(_)), is_final, "{code}: {error}");
        assert!(error.to_string().contains("said so"), "{error}");
    }
}

#[tokio::test]
async fn a_pod_is_read_as_it_is_written_and_one_that_is_not_there_is_none() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "one", "uid": "uid-one", "annotations": {"carve.dev/claim": "x"}}, "spec": {"containers": [], "priority": 7}});
    let there = pod.clone();
    let (kubernetes, _) =
        server(move |words| if words.contains("/pods/one") { (200, there.clone()) } else { failure(404) });
    let found = kubernetes.pod("team", "one").await.unwrap().unwrap();
    for path in ["/metadata/uid", "/metadata/annotations/carve.dev~1claim", "/spec/priority"] {
        assert_eq!(found.pointer(path), pod.pointer(path), "{path}");
    }
    assert_eq!(kubernetes.pod("team", "other").await.unwrap(), None);
}

#[tokio::test]
async fn the_cluster_is_known_when_both_lists_were_read() {
    let gpus = r#"{"v":1,"gpus":[{"uuid":"GPU-0","product":"T4","memory":15000}]}"#;
    let slices = r#"{"v":1,"containers":[{"name":"main","stage":"main","slices":[{"gpu":"GPU-0","memory":7500,"compute":500}]}]}"#;
    let node = json!({"metadata": {"name": "a", "annotations": {"carve.dev/gpus": gpus}}});
    let pod = json!({"metadata": {"name": "one", "namespace": "team", "uid": "uid-one", "annotations": {"carve.dev/slices": slices}},
        "spec": {"nodeName": "a", "containers": []}});
    let list = |kind: &str, items: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "5"}, "items": items});
    let (nodes, pods) = (list("NodeList", json!([node])), list("PodList", json!([pod])));
    let (kubernetes, asked) =
        server(move |words| (200, if words.contains("/nodes") { nodes.clone() } else { pods.clone() }));
    let cluster = Arc::new(Mutex::new(Cluster::default()));
    let following = tokio::spawn({
        let cluster = Arc::clone(&cluster);
        async move { kubernetes.follow(cluster).await }
    });
    let known = async {
        while !cluster.lock().unwrap().is_known() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), known).await.expect("both lists are there");
    let cluster = cluster.lock().unwrap();
    let left: Vec<u64> = cluster.book().room("a").unwrap().left().map(|(_, held)| held.memory.0).collect();
    assert_eq!(left, [7_500]);
    assert!(cluster.book().bookings(&PodUid("uid-one".to_owned())).next().unwrap().seen);
    // Pods that are not ours are not even sent.
    let asked = asked.lock().unwrap();
    let of_pods: Vec<_> = asked.iter().filter(|(words, _)| words.contains("/pods")).collect();
    assert!(
        of_pods.iter().all(|(words, _)| words.contains("labelSelector=carve.dev%2Fadmitted%3Dscheduler")),
        "{of_pods:?}"
    );
    following.abort();
}

#[tokio::test]
async fn a_list_of_pods_says_who_went_while_nothing_was_watched() {
    let slices = r#"{"v":1,"containers":[{"name":"main","stage":"main","slices":[{"gpu":"GPU-0","memory":7500,"compute":500}]}]}"#;
    let slices = Slices::from_annotation(slices).unwrap();
    let bind = move |uid: &str, cluster: &Mutex<Cluster>| {
        let booking = Booking::new("team/one", "a", &slices, 0, false);
        cluster.lock().unwrap().book_mut().hold(PodUid(uid.to_owned()), booking);
    };
    let cluster = Arc::new(Mutex::new(Cluster::default()));
    bind("went", &cluster);
    let (kubernetes, _) = server({
        let cluster = Arc::clone(&cluster);
        move |words| {
            // Bound while the list was on its way.
            if words.contains("/pods") {
                bind("later", &cluster);
            }
            let kind = if words.contains("/pods") { "PodList" } else { "NodeList" };
            (
                200,
                json!({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "5"}, "items": []}),
            )
        }
    });
    let known = async {
        while !cluster.lock().unwrap().is_known() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let listed = async {
        tokio::select! {
            () = kubernetes.follow(Arc::clone(&cluster)) => {}
            () = known => {}
        }
    };
    tokio::time::timeout(Duration::from_secs(30), listed).await.expect("both lists are there");
    let cluster = cluster.lock().unwrap();
    let held: BTreeSet<&str> = cluster.book().pods().map(|(uid, _)| uid.0.as_str()).collect();
    assert_eq!(held, BTreeSet::from(["later"]));
}
