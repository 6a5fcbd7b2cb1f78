//! Whatever is sent: no answer is a failure of ours, what is refused is refused with words, and a refusal changes nothing.

use axum::body::{Body, Bytes};
use axum::http::{Method, Request};
use carve_object_api::{KINDS, ObjectApi};
use carve_object_store::{Key, Settings, Store};
use carve_test_support::mangle::{Dice, mangle, nested, odd, places};
use http_body_util::BodyExt;
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt;

/// Manifests that are right.
fn manifests() -> Vec<Value> {
    let template = json!({
        "metadata": {"labels": {"app": "a"}, "annotations": {"carve.dev/simulate": "compute=50%"}},
        "spec": {
            "containers": [{
                "name": "main", "image": "i", "env": [{"name": "A", "value": "b"}],
                "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "500m", "memory": "1Gi"}},
            }],
            "tolerations": [{"key": "k", "operator": "Exists"}], "nodeSelector": {"a": "b"}, "terminationGracePeriodSeconds": 5,
        },
    });
    let selector = json!({"matchLabels": {"app": "a"}});
    let mut job = template.clone();
    job["spec"]["restartPolicy"] = "Never".into();
    let meta =
        |name: &str| json!({"name": name, "labels": {"app": "a"}, "finalizers": [], "ownerReferences": []});
    vec![
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta("a"), "spec": template["spec"], "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("a"), "spec": {"replicas": 2, "selector": selector, "template": template}}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta("a"), "spec": {"replicas": 2, "serviceName": "s", "selector": selector, "template": template}}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("a"), "spec": {"parallelism": 2, "completions": 3, "template": job}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": meta("n"), "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta("team")}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("a"), "data": {"a": "b"}}),
        json!({"apiVersion": "v1", "kind": "Event", "metadata": meta("a"), "involvedObject": {"kind": "Pod", "name": "a"}, "reason": "R", "message": "m"}),
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": meta("b"), "regarding": {"kind": "Pod", "name": "a"}, "reason": "R", "note": "m", "eventTime": "2026-11-17T08:00:00.000000Z"}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta("high"), "value": 100}),
        json!({"apiVersion": "carve.dev/v1beta1", "kind": "SlicePolicy", "metadata": meta("p"), "spec": {"sharing": {"mechanism": "MPS", "replicas": 2}, "namespaces": [{"names": ["a"], "limits": {}}]}}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta("c"), "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "d"}}]}}}),
    ]
}

struct Asked {
    method: Method,
    path: String,
    content_type: &'static str,
    accept: &'static str,
    body: Vec<u8>,
}

fn path_of(manifest: &Value, dice: &mut Dice) -> (String, String) {
    let kind = KINDS
        .iter()
        .find(|kind| manifest["kind"] == kind.kind && manifest["apiVersion"] == kind.api_version());
    let kind = kind.expect("a kind that is known");
    let root =
        if kind.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}", kind.api_version()) };
    let namespace = *dice.one_of(&["default", "default", "default", "none", "team", "%00"]);
    let list = match kind.namespaced {
        true => format!("{root}/namespaces/{namespace}/{}", kind.plural),
        false => format!("{root}/{}", kind.plural),
    };
    let part = match kind.parts.is_empty() || !dice.once_in(3) {
        true => String::new(),
        false => format!("/{}", dice.one_of(kind.parts)),
    };
    let name = manifest["metadata"]["name"].as_str().unwrap_or("a");
    let name =
        if dice.once_in(10) { *dice.one_of(&["none", "UPPER", "a%2Fb", "..", "%ff", "a b"]) } else { name };
    (list.clone(), format!("{list}/{}{part}", name.replace(' ', "%20")))
}

/// A JSON patch, mostly of places that are there.
fn json_patch(object: &Value, dice: &mut Dice) -> Value {
    let places = places(object);
    let steps = 1 + dice.below(12);
    let step = |dice: &mut Dice| {
        let (path, from) = (dice.one_of(&places).clone(), dice.one_of(&places).clone());
        match *dice.one_of(&["add", "remove", "replace", "move", "copy", "copy", "test", "nonsense"]) {
            "move" => json!({"op": "move", "path": path, "from": from}),
            // Copies of copies.
            "copy" => json!({"op": "copy", "path": format!("{path}/more"), "from": path}),
            op => json!({"op": op, "path": path, "value": odd(dice)}),
        }
    };
    let steps: Vec<Value> = (0..steps).map(|_| step(dice)).collect();
    let times = if dice.once_in(20) { 60 } else { 1 };
    (0..times).flat_map(|_| steps.iter().cloned()).collect()
}

fn asked(seed: u64) -> Asked {
    let mut dice = Dice::new(seed);
    let dice = &mut dice;
    let manifest = dice.one_of(&manifests()).clone();
    let (list, one) = path_of(&manifest, dice);
    let method = dice
        .one_of(&["POST", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "GET", "BREW"])
        .parse::<Method>();
    let method = method.expect("a method");
    let mut content_type = *dice.one_of(&[
        "application/json",
        "application/json",
        "application/yaml",
        "",
        "application/vnd.kubernetes.protobuf",
    ]);
    let mut body = manifest.clone();
    for _ in 0..dice.below(4) {
        mangle(&mut body, dice);
    }
    let mut path = match method.as_str() {
        "POST" if !dice.once_in(5) => list,
        "GET" | "DELETE" if dice.once_in(3) => list,
        _ => one,
    };
    match method.as_str() {
        "PATCH" => {
            content_type = *dice.one_of(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
                "application/apply-patch+yaml",
                "application/nonsense",
            ]);
            if content_type == "application/json-patch+json" && !dice.once_in(10) {
                body = json_patch(&manifest, dice);
            }
        }
        "DELETE" => {
            body = dice
                .one_of(&[
                    json!(null),
                    json!({"gracePeriodSeconds": 0}),
                    json!({"gracePeriodSeconds": "x"}),
                    json!([1]),
                ])
                .clone()
        }
        _ if path.ends_with("/binding") => {
            body = json!({"metadata": {"annotations": {"a": odd(dice)}}, "target": {"name": "n"}});
        }
        _ if path.ends_with("/scale") => body = json!({"spec": {"replicas": odd(dice)}}),
        _ => {}
    }
    let mut body = body.to_string().into_bytes();
    match dice.below(20) {
        0 => body.truncate(dice.below(body.len())),
        1 => {
            let at = dice.below(body.len());
            body[at] = 0xff;
        }
        2 => body = nested(200).to_string().into_bytes(),
        3 => body = format!("{{\"metadata\":{}}}", "[".repeat(5_000)).into_bytes(),
        4 => body = b"{\"spec\": {\"replicas\": 1e999}}".to_vec(),
        _ => {}
    }
    path.push_str(dice.one_of::<&str>(&[
        "?fieldManager=m",
        "?fieldManager=m",
        "?fieldManager=m&force=true",
        "",
        "?dryRun=All&fieldManager=m",
        "?dryRun=x",
        "?fieldValidation=Strict&fieldManager=m",
        "?fieldValidation=x",
        "?labelSelector=((",
        "?fieldSelector=x",
        "?limit=x",
        "?timeoutSeconds=99999999999999999999",
        "?watch=true&resourceVersion=x",
        "?%ff=%zz&&=",
        "?propagationPolicy=Orphan&gracePeriodSeconds=-9223372036854775808",
    ]));
    let accept = *dice.one_of(&[
        "application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata",
        "nonsense",
        "",
    ]);
    Asked { method, path, content_type, accept, body }
}

fn everything(api: &ObjectApi) -> Vec<(Key, Arc<Value>)> {
    api.store().all()
}

async fn answer(api: &ObjectApi, asked: &Asked) -> (u16, Value) {
    let request = Request::builder()
        .method(asked.method.clone())
        .uri(&asked.path)
        .header("content-type", asked.content_type)
        .header("accept", asked.accept)
        .body(Body::from(Bytes::from(asked.body.clone())))
        .expect("a request");
    let response = api.routes().oneshot(request).await.expect("an answer");
    let code = response.status().as_u16();
    // A watch goes on.
    if asked.path.contains("watch=true") && code == 200 {
        return (code, Value::Null);
    }
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (code, serde_json::from_slice(&bytes).expect("JSON"))
}

fn check_refusal(code: u16, status: &Value, shown: &str) {
    assert!(code < 500, "{shown}: {code} {status}");
    assert!(
        status["kind"] == "Status" && status["code"] == code && status["status"] == "Failure",
        "{shown}: {status}"
    );
    assert!(status["message"].as_str().is_some_and(|words| !words.is_empty()), "{shown}: {status}");
    if code == 422 {
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        let named = |cause: &Value| cause["field"].as_str().is_some_and(|field| !field.is_empty());
        assert!(!causes.is_empty() && causes.iter().all(named), "{shown}: {status}");
    }
}

async fn play(seeds: &[u64]) {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || ObjectApi::new(Store::open(folder.path(), Settings::default()).expect("it opens"));
    let api = open();
    let mut first: Vec<Asked> = Vec::new();
    for name in ["default", "team"] {
        let body = json!({"metadata": {"name": name}}).to_string().into_bytes();
        let (path, content_type) = ("/api/v1/namespaces".to_owned(), "application/json");
        first.push(Asked { method: Method::POST, path, content_type, accept: "", body });
    }
    for asked in first.into_iter().chain(seeds.iter().map(|seed| asked(*seed))) {
        let body = String::from_utf8_lossy(&asked.body).chars().take(600).collect::<String>();
        let shown = format!("{} {} ({}) {body}", asked.method, asked.path, asked.content_type);
        let before = everything(&api);
        let (code, said) = answer(&api, &asked).await;
        if code >= 400 {
            check_refusal(code, &said, &shown);
        }
        if code >= 400 || asked.path.contains("dryRun=All") || asked.method == Method::GET {
            assert!(everything(&api) == before, "{shown}: {code}, and something has changed");
        }
    }
    // What was acknowledged is read again.
    let before = everything(&api);
    api.store().close();
    assert!(everything(&open()) == before, "what is read again is something else");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn nothing_that_is_sent_breaks_it(seeds in prop::collection::vec(any::<u64>(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(play(&seeds));
    }
}

#[tokio::test]
async fn what_broke_it_once_is_refused() {
    let api = ObjectApi::new(Store::in_memory(Settings::default()));
    let ask = async |method: &str, path: &str, content_type: &'static str, body: Value| {
        let asked = Asked {
            method: method.parse().expect("a method"),
            path: path.to_owned(),
            content_type,
            accept: "",
            body: body.to_string().into_bytes(),
        };
        let (code, said) = answer(&api, &asked).await;
        (code, said["details"]["causes"][0]["field"].as_str().unwrap_or_default().to_owned())
    };
    let json = "application/json";
    for manifest in [json!({"metadata": {"name": "default"}}), json!({"metadata": {"name": "n"}})] {
        assert_eq!(ask("POST", "/api/v1/namespaces", json, manifest).await.0, 201);
    }
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(ask("POST", pods, json, pod.clone()).await.0, 201);
    let sets = "/apis/apps/v1/namespaces/default/deployments";
    let set = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}}});
    assert_eq!(ask("POST", sets, json, set).await.0, 201);
    let (merge, apply, patch) =
        ("application/merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json");
    let named = |list: &str, rest: &str| format!("{list}/{rest}");
    let events = "/apis/events.k8s.io/v1/namespaces/default/events/e";
    let mut bomb =
        vec![json!({"op": "add", "path": "/metadata/annotations", "value": {"a": "x".repeat(1000)}})];
    bomb.extend(
        (0..40)
            .map(|number| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/{number}")})),
    );
    for (method, path, content_type, body, code, field) in [
        ("PATCH", named(pods, "p"), merge, json!({"metadata": "x"}), 400, "metadata"),
        ("PATCH", named(pods, "p?fieldManager=m"), apply, json!({"metadata": [1]}), 400, "metadata"),
        ("POST", pods.to_owned(), json, json!("x"), 400, "body"),
        (
            "POST",
            pods.to_owned(),
            json,
            json!({"metadata": {"name": "q"}, "spec": {"containers": "x"}}),
            400,
            "spec.containers",
        ),
        ("PUT", named(pods, "p/status"), json, json!({"status": "x"}), 400, "status"),
        (
            "PATCH",
            named(pods, "p"),
            merge,
            json!({"metadata": {"managedFields": ["x"]}}),
            400,
            "metadata.managedFields[0]",
        ),
        ("PATCH", events.to_owned(), patch, json!([{"op": "add", "path": "/note", "value": "x"}]), 404, ""),
        ("PATCH", named(pods, "p"), patch, bomb.into(), 400, ""),
        (
            "PATCH",
            named(pods, "p"),
            patch,
            json!([{"op": "add", "path": "/metadata/x", "value": nested(110)}]),
            400,
            "body",
        ),
        ("PUT", named(sets, "d/scale"), json, json!({"spec": {"replicas": "many"}}), 422, "spec.replicas"),
        ("PUT", named(sets, "d/scale"), json, json!({"spec": {}}), 422, "spec.replicas"),
        (
            "PATCH",
            named(sets, "d/scale"),
            merge,
            json!({"spec": {"replicas": 2_000_000_000}}),
            422,
            "spec.replicas",
        ),
        (
            "PATCH",
            named(sets, "d"),
            merge,
            json!({"spec": {"replicas": 2_000_000_000}}),
            422,
            "spec.replicas",
        ),
        (
            "POST",
            named(pods, "p/binding"),
            json,
            json!({"target": {"name": "n"}, "metadata": {"annotations": {"a": 1}}}),
            422,
            "metadata.annotations.a",
        ),
        ("DELETE", named(pods, "p"), json, json!({"gracePeriodSeconds": "x"}), 400, "gracePeriodSeconds"),
        ("DELETE", named(pods, "p?gracePeriodSeconds=x"), json, json!(null), 400, "gracePeriodSeconds"),
        ("GET", named(pods, "?limit=x"), json, json!(null), 400, "limit"),
    ] {
        let before = everything(&api);
        assert_eq!(
            ask(method, &path, content_type, body.clone()).await,
            (code, field.to_owned()),
            "{method} {path}"
        );
        assert!(everything(&api) == before, "{method} {path}");
    }
}

#[tokio::test]
async fn what_is_too_large_is_said_so() {
    let api = ObjectApi::new(Store::in_memory(Settings::default()));
    let (path, content_type) = ("/api/v1/namespaces".to_owned(), "application/json");
    let asked = Asked { method: Method::POST, path, content_type, accept: "", body: vec![b' '; 9 << 20] };
    let (code, said) = answer(&api, &asked).await;
    assert_eq!((code, said["reason"].as_str()), (413, Some("RequestEntityTooLarge")), "{said}");
}
