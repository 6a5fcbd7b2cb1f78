//! Objects that an API server takes and nobody expects: the loop that everything follows goes on.

use axum::body::Body;
use axum::http::Request;
use carve_local_cluster::{Fleet, LocalCluster, Machines, Seen};
use carve_object_api::{ObjectApi, kind_named};
use carve_test_support::mangle::{Dice, mangle};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tower::ServiceExt;

struct Lives {
    api: ObjectApi,
    seen: Seen,
    runs: JoinHandle<()>,
}

impl Lives {
    async fn start() -> Self {
        let fleet = Fleet::parse("p4d.24xlarge=1,g5.2xlarge=1").expect("a fleet");
        let cluster = LocalCluster::open(None, Machines::Fleet(&fleet)).expect("a cluster");
        let (api, seen) = (cluster.api().clone(), cluster.seen());
        let lives = Lives { api, seen, runs: tokio::spawn(cluster.run(std::future::pending())) };
        lives.until("machines", |lives| lives.seen.borrow().nodes.len() == 2).await;
        lives
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(!self.runs.is_finished(), "{what}: the loop has ended");
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> u16 {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(Body::from(body.to_string())).expect("a request");
        self.api.routes().oneshot(request).await.expect("an answer").status().as_u16()
    }

    /// Whether a pod that nothing is wrong with still comes to run.
    async fn goes_on(&self, name: &str) {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(self.ask("POST", "/api/v1/namespaces/default/pods", &pod).await, 201);
        let pods = kind_named("pods").expect("a kind");
        self.until(name, |lives| {
            lives.api.get(pods, "default", name).is_some_and(|pod| pod["status"]["phase"] == "Running")
        })
        .await;
    }
}

fn pod(name: &str, limits: &Value, annotations: &Value) -> Value {
    let container = |name: &str| json!({"name": name, "image": "i", "resources": {"limits": limits}});
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [container("a"), container("b")], "initContainers": [container("c")]},
    })
}

#[tokio::test]
async fn what_nobody_expects_does_not_end_it() {
    let lives = Lives::start().await;
    let most = i64::MAX.to_string();
    let none = json!({});
    for (number, (limits, annotations)) in [
        (json!({"nvidia.com/gpu": most}), none.clone()),
        (json!({"example.com/thing": most, "cpu": "1e300", "memory": "9999999999P"}), none.clone()),
        (
            json!({"cpu": "1n", "memory": most}),
            json!({"carve.dev/simulate": "lasts=1e300h period=1e-300s compute=400% swing=x"}),
        ),
        (json!({"cpu": "1"}), json!({"carve.dev/devices": "[", "carve.dev/slices": "{\"a\": 1}"})),
        (json!({"cpu": "1"}), json!({"carve.dev/devices": "{\"a\": {\"nvidia.com/gpu\": [\"none\"]}}"})),
    ]
    .into_iter()
    .enumerate()
    {
        let pods = "/api/v1/namespaces/default/pods";
        // Refused or taken, but never a failure of ours.
        assert!(lives.ask("POST", pods, &pod(&format!("odd-{number}"), &limits, &annotations)).await < 500);
        let mut bound = pod(&format!("bound-{number}"), &limits, &annotations);
        bound["spec"]["nodeName"] = (*["p4d-1", "none"].get(number % 2).expect("one")).into();
        assert!(lives.ask("POST", pods, &bound).await < 500);
    }
    let node = "/api/v1/nodes/p4d-1";
    let annotations =
        json!({"carve.dev/mig-order": "{", "carve.dev/policy-config": "sharing: [", "carve.dev/gpus": "x"});
    assert_eq!(lives.ask("PATCH", node, &json!({"metadata": {"annotations": annotations}})).await, 200);
    assert_eq!(
        lives.ask("PATCH", node, &json!({"spec": {"taints": [{"key": "", "effect": ""}]}})).await,
        200
    );
    assert_eq!(lives.ask("PATCH", node, &json!({"spec": {"taints": null}})).await, 200);
    lives.goes_on("still").await;
}

#[tokio::test]
async fn almost_right_objects_do_not_end_it() {
    let lives = Lives::start().await;
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod("t", &json!({"nvidia.com/gpu": "1"}), &json!({}))["spec"]});
    let mut job = template.clone();
    job["spec"]["restartPolicy"] = "Never".into();
    let selector = json!({"matchLabels": {"app": "a"}});
    let kinds = [
        (
            "/api/v1/namespaces/default/pods",
            pod("x", &json!({"nvidia.com/gpu": "1"}), &json!({"carve.dev/simulate": "lasts=1s"})),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": {"name": "x"}, "spec": {"replicas": 2, "selector": selector, "template": template}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({"metadata": {"name": "x"}, "spec": {"replicas": 2, "serviceName": "s", "selector": selector, "template": template}}),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"metadata": {"name": "x"}, "spec": {"parallelism": 2, "completions": 2, "template": job}}),
        ),
    ];
    for seed in 0..300_u64 {
        let mut dice = Dice::new(seed);
        let (list, mut object) = dice.one_of(&kinds).clone();
        object["metadata"]["name"] = format!("x-{seed}").into();
        for _ in 0..=dice.below(2) {
            mangle(&mut object, &mut dice);
        }
        // A hundred thousand pods are allowed, and are not what this is about.
        if object["spec"]["replicas"]
            .as_i64()
            .or(object["spec"]["parallelism"].as_i64())
            .is_some_and(|number| number > 100)
        {
            continue;
        }
        let code = lives.ask("POST", list, &object).await;
        assert!(code < 500, "{seed}: {code} {object}");
        assert!(!lives.runs.is_finished(), "{seed}: the loop has ended");
        if seed % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    }
    for (list, _) in &kinds {
        assert_eq!(lives.ask("DELETE", list, &json!({"gracePeriodSeconds": 0})).await, 200);
    }
    lives.goes_on("still").await;
}

#[tokio::test]
async fn a_layout_that_nobody_knows_is_said_with_those_that_are_known() {
    let lives = Lives::start().await;
    let label = json!({"metadata": {"labels": {"nvidia.com/mig.config": "all-9g.99gb"}}});
    assert_eq!(lives.ask("PATCH", "/api/v1/nodes/p4d-1", &label).await, 200);
    let (nodes, events) = (kind_named("nodes").expect("a kind"), kind_named("events").expect("a kind"));
    let named = |text: &Value| {
        text.as_str().is_some_and(|text| text.contains("all-9g.99gb") && text.contains("all-1g.5gb"))
    };
    lives
        .until("the Node says that it failed", |lives| {
            let Some(node) = lives.api.get(nodes, "", "p4d-1") else { return false };
            let metadata = &node["metadata"];
            metadata["labels"]["nvidia.com/mig.config.state"] == "failed"
                && metadata["annotations"].as_object().is_some_and(|all| all.values().any(named))
        })
        .await;
    let told = || {
        let events = lives.api.list(events, None);
        events
            .iter()
            .filter(|event| event["reason"] == "CutFailed" && named(&event["message"]))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(told().len(), 1, "{:?}", told());
    // It is tried again, and not told again.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(told()[0]["count"], 1);
}
