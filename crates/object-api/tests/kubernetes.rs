//! What a client of Kubernetes meets: the same objects, verbs and refusals as at an API server.

use carve_object_api::ObjectApi;
use carve_object_store::{Settings, Store};
use futures_util::TryStreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use kube::api::{
    DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::events::{EventType, Recorder, Reporter};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use std::pin::pin;

async fn client() -> Client {
    let client = ObjectApi::new(Store::in_memory(Settings::default())).client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let default = serde_json::from_value(json!({"metadata": {"name": "default"}})).expect("a namespace");
    namespaces.create(&PostParams::default(), &default).await.expect("it is made");
    client
}

fn pod(name: &str) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    });
    serde_json::from_value(pod).expect("a pod")
}

fn refusal(error: kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn objects_are_made_read_changed_and_taken_away() {
    let client = client().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let made = pods.create(&PostParams::default(), &pod("a")).await.expect("it is made");
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());
    assert_eq!(made.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()), Some("Always"));
    let again = pods.create(&PostParams::default(), &pod("a")).await.expect_err("it is there");
    assert_eq!(refusal(again), (409, "pods \"a\" already exists".to_owned()));
    let generated = Pod {
        metadata: kube::api::ObjectMeta { generate_name: Some("x-".to_owned()), ..Default::default() },
        ..pod("x")
    };
    let generated = pods.create(&PostParams::default(), &generated).await.expect("it is made");
    assert!(generated.name_any().starts_with("x-") && generated.name_any().len() == 7);
    let found = pods.list(&ListParams::default().labels("app=a")).await.expect("a list");
    assert_eq!(found.items.len(), 1);
    // What was read before somebody else wrote is refused.
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"x": "1"}}}));
    let newer = pods.patch("a", &PatchParams::default(), &patch).await.expect("it is changed");
    assert_ne!(newer.resource_version(), made.resource_version());
    let stale = pods.replace("a", &PostParams::default(), &made).await.expect_err("it is old");
    assert_eq!(refusal(stale).0, 409);
    // A change that changes nothing has no version of its own.
    let same = pods.patch("a", &PatchParams::default(), &patch).await.expect("nothing is wrong");
    assert_eq!(same.resource_version(), newer.resource_version());
    pods.delete("a", &DeleteParams::default()).await.expect("it goes");
    assert_eq!(
        refusal(pods.get("a").await.expect_err("it is gone")),
        (404, "pods \"a\" not found".to_owned())
    );
    let elsewhere: Api<Pod> = Api::namespaced(client, "nowhere");
    let refused = elsewhere.create(&PostParams::default(), &pod("a")).await.expect_err("no namespace");
    assert_eq!(refusal(refused), (404, "namespaces \"nowhere\" not found".to_owned()));
}

#[tokio::test]
async fn a_rehearsal_leaves_nothing() {
    let client = client().await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let rehearsal = PostParams { dry_run: true, ..PostParams::default() };
    pods.create(&rehearsal, &pod("a")).await.expect("it would be made");
    assert!(pods.get_opt("a").await.expect("an answer").is_none());
    pods.create(&PostParams::default(), &pod("a")).await.expect("it is made");
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    pods.delete("a", &dry).await.expect("it would go");
    assert!(pods.get_opt("a").await.expect("an answer").is_some());
}

#[tokio::test]
async fn a_pod_is_bound_once_and_goes_when_its_node_says_so() {
    let client = client().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let made = pods.create(&PostParams::default(), &pod("a")).await.expect("it is made");
    let bind = |node: &str, version: &str| {
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": "a", "uid": made.uid(), "resourceVersion": version, "annotations": {"given": "this"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let request = axum::http::Request::post("/api/v1/namespaces/default/pods/a/binding");
        let request = request.header("content-type", "application/json").body(body.to_string().into_bytes());
        client.request::<Value>(request.expect("a request"))
    };
    assert_eq!(refusal(bind("n", "999").await.expect_err("another version")).0, 409);
    bind("n", &made.resource_version().expect("a version")).await.expect("it is bound");
    let bound = pods.get("a").await.expect("it is there");
    assert_eq!(bound.annotations()["given"], "this");
    assert_eq!(bound.spec.and_then(|spec| spec.node_name).as_deref(), Some("n"));
    assert_eq!(refusal(bind("m", "").await.expect_err("it is bound")).0, 409);
    pods.evict("a", &EvictParams::default()).await.expect("it is asked to go");
    assert!(pods.get("a").await.expect("it is still there").meta().deletion_timestamp.is_some());
    pods.delete("a", &DeleteParams::default().grace_period(0)).await.expect("it is gone");
    assert!(pods.get_opt("a").await.expect("an answer").is_none());
}

#[tokio::test]
async fn whoever_watches_sees_what_it_asked_for() {
    let client = client().await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    pods.create(&PostParams::default(), &pod("a")).await.expect("it is made");
    let version = pods
        .list(&ListParams::default())
        .await
        .expect("a list")
        .metadata
        .resource_version
        .expect("a version");
    let params = WatchParams::default().labels("app=b");
    let mut seen = pin!(pods.watch(&params, &version).await.expect("a watch"));
    pods.create(&PostParams::default(), &pod("b")).await.expect("it is made");
    let leaves = Patch::Merge(json!({"metadata": {"labels": {"app": "other"}}}));
    pods.patch("b", &PatchParams::default(), &leaves).await.expect("it is changed");
    let comes = Patch::Merge(json!({"metadata": {"labels": {"app": "b"}}}));
    pods.patch("a", &PatchParams::default(), &comes).await.expect("it is changed");
    let mut words = Vec::new();
    while words.len() < 3 {
        words.push(match seen.try_next().await.expect("a change").expect("more") {
            WatchEvent::Added(pod) => format!("+{}", pod.name_any()),
            WatchEvent::Modified(pod) => format!("={}", pod.name_any()),
            WatchEvent::Deleted(pod) => format!("-{}", pod.name_any()),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(words, ["+b", "-b", "+a"]);
    // The watcher that controllers use lists first, and then follows.
    let mut events = pin!(watcher::watcher(pods.clone(), watcher::Config::default()));
    let mut there = 0;
    loop {
        match events.try_next().await.expect("an event").expect("more") {
            watcher::Event::InitApply(_) => there += 1,
            watcher::Event::InitDone => break,
            _ => {}
        }
    }
    assert_eq!(there, 2);
    pods.delete("a", &DeleteParams::default()).await.expect("it goes");
    assert!(
        matches!(events.try_next().await.expect("an event"), Some(watcher::Event::Delete(pod)) if pod.name_any() == "a")
    );
}

#[tokio::test]
async fn fields_are_applied_by_those_who_own_them() {
    let client = client().await;
    let nodes: Api<Node> = Api::all(client);
    let labels = |labels: Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"labels": labels}}))
    };
    let by = |manager: &str| PatchParams::apply(manager).force();
    nodes.patch("n", &by("one"), &labels(json!({"a": "1", "b": "1"}))).await.expect("it is made");
    nodes.patch_metadata("n", &by("two"), &labels(json!({"c": "1"}))).await.expect("it is changed");
    let status = Patch::Apply(
        json!({"apiVersion": "v1", "kind": "Node", "status": {"allocatable": {"nvidia.com/gpu": "8"}}}),
    );
    nodes.patch_status("n", &by("three"), &status).await.expect("its status is written");
    let node = nodes.patch("n", &by("one"), &labels(json!({"a": "2"}))).await.expect("it is changed");
    let found: Vec<(&str, &str)> =
        node.labels().iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(found, [("a", "2"), ("c", "1")]);
    assert_eq!(
        node.status
            .and_then(|status| status.allocatable)
            .map(|all| all["nvidia.com/gpu"].0.clone())
            .as_deref(),
        Some("8")
    );
    let metadata = nodes.get_metadata("n").await.expect("its metadata");
    assert_eq!(metadata.labels()["a"], "2");
}

#[tokio::test]
async fn what_belongs_to_something_goes_with_it() {
    let client = client().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {
            "metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "main", "image": "i"}]},
        }},
    });
    let deployment: Deployment = serde_json::from_value(deployment).expect("a Deployment");
    let deployment = deployments.create(&PostParams::default(), &deployment).await.expect("it is made");
    assert_eq!(deployment.spec.as_ref().and_then(|spec| spec.replicas), Some(1));
    let scaled = deployments
        .patch_scale("d", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 3}})))
        .await
        .expect("it is scaled");
    assert_eq!(scaled.spec.and_then(|spec| spec.replicas), Some(3));
    let grown = deployments.get("d").await.expect("it is there");
    assert_eq!((grown.meta().generation, grown.spec.and_then(|spec| spec.replicas)), (Some(2), Some(3)));
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let mut owned = pod("a");
    owned.meta_mut().owner_references = Some(vec![deployment.owner_ref(&()).expect("an owner")]);
    pods.create(&PostParams::default(), &owned).await.expect("it is made");
    deployments.delete("d", &DeleteParams::background()).await.expect("it goes");
    assert!(pods.get_opt("a").await.expect("an answer").is_none());
    pods.create(&PostParams::default(), &pod("b")).await.expect("it is made");
    Api::<Namespace>::all(client).delete("default", &DeleteParams::default()).await.expect("it goes");
    assert!(pods.get_opt("b").await.expect("an answer").is_none());
}

#[tokio::test]
async fn events_are_told_under_both_of_their_names() {
    let client = client().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let made = pods.create(&PostParams::default(), &pod("a")).await.expect("it is made");
    let recorder = Recorder::new(client.clone(), Reporter { controller: "test".to_owned(), instance: None });
    let event = kube::runtime::events::Event {
        type_: EventType::Warning,
        reason: "NotCut".to_owned(),
        note: Some("no room".to_owned()),
        action: "Look".to_owned(),
        secondary: None,
    };
    for _ in 0..2 {
        recorder.publish(&event, &made.object_ref(&())).await.expect("it is told");
    }
    let events: Api<Event> = Api::default_namespaced(client);
    let found =
        events.list(&ListParams::default().fields("involvedObject.name=a")).await.expect("events").items;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].message.as_deref(), Some("no room"));
    assert_eq!(found[0].involved_object.name.as_deref(), Some("a"));
}

#[tokio::test]
async fn tables_are_made_for_those_who_ask() {
    let client = client().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("a")).await.expect("it is made");
    let request = axum::http::Request::get("/api/v1/pods")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
        .body(Vec::new())
        .expect("a request");
    let table: Value = client.request(request).await.expect("a table");
    let heads: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .expect("columns")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(heads[..5], ["Name", "Ready", "Status", "Restarts", "Age"]);
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["metadata"]["namespace"], "default");
}

#[tokio::test]
async fn nonsense_is_answered_with_words() {
    let client = client().await;
    let send = |method: &str, path: &str, content: &str, body: &str| {
        let request = axum::http::Request::builder().method(method).uri(path).header("content-type", content);
        client.request::<Value>(request.body(body.as_bytes().to_vec()).expect("a request"))
    };
    let pods = "/api/v1/namespaces/default/pods";
    for (method, path, content, body, code, words) in [
        ("POST", pods, "application/json", "{", 400, "does not read as JSON"),
        ("POST", pods, "application/json", "[]", 400, "no object"),
        ("POST", pods, "application/json", "{}", 422, "metadata.name"),
        ("POST", pods, "application/json", r#"{"kind": "Node"}"#, 400, "kind is 'Node'"),
        ("POST", "/api/v1/pods", "application/json", "{}", 405, "does not allow"),
        ("POST", pods, "application/vnd.kubernetes.protobuf", "x", 415, "unknown format"),
        ("PATCH", "/api/v1/namespaces/default/pods/a", "text/plain", "{}", 415, "unknown format"),
        ("PUT", pods, "application/json", "{}", 405, "does not allow"),
        ("GET", "/api/v1/nonsense", "", "", 404, "could not find"),
        ("GET", "/api/v1/pods?labelSelector=a%20b", "", "", 400, "labelSelector"),
        ("GET", "/api/v1/pods?watch=true&resourceVersion=x", "", "", 400, "no version"),
        ("DELETE", "/api/v1/namespaces/default/pods/a?dryRun=Some", "", "", 400, "dryRun"),
    ] {
        let (found, said) = refusal(send(method, path, content, body).await.expect_err(path));
        assert!(found == code && said.contains(words), "{method} {path} {body}: {found} {said}");
    }
}
