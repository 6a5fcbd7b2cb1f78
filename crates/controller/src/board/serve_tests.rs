//! The dashboard over HTTP, in front of an API server with agents behind it.

use super::{Board, DashboardOptions, PER_SECOND, open, pause_after};
use crate::books::Agents;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A cluster of so many nodes with agents; those in `away` do not answer.
#[derive(Clone, Default)]
struct FakeCluster {
    nodes: usize,
    away: Arc<Mutex<BTreeSet<usize>>>,
    /// How busy all GPUs are, in percent.
    busy: Arc<Mutex<u32>>,
    asked: Arc<Mutex<usize>>,
}

impl FakeCluster {
    fn answer(&self, words: &str) -> (u16, Value) {
        if let Some((_, rest)) = words.split_once("/pods/agent-") {
            let number: usize = rest.split(':').next().and_then(|text| text.parse().ok()).expect("a number");
            *self.asked.lock().expect("a lock") += 1;
            if self.away.lock().expect("a lock").contains(&number) {
                return (
                    503,
                    json!({"kind": "Status", "status": "Failure", "message": "no route", "reason": "Unavailable", "code": 503}),
                );
            }
            return (200, self.picture(number));
        }
        let items = match words {
            words if words.contains("/events") => json!([{
                "metadata": {"name": "e", "namespace": "default", "uid": "e", "creationTimestamp": "2026-11-17T08:00:00Z"},
                "involvedObject": {"kind": "Node", "name": "node-0"}, "reason": "MigApplied", "message": "cut", "type": "Normal",
            }]),
            words if words.contains("labelSelector=app%3Dcarve-agent") => (0..self.nodes).map(|number| json!({
                "metadata": {"name": format!("agent-{number}"), "namespace": "carve", "uid": format!("agent-{number}")},
                "spec": {"nodeName": format!("node-{number}"), "containers": []},
            })).collect(),
            words if words.contains("/pods") => json!([{
                "metadata": {"name": "late", "namespace": "team", "uid": "late", "creationTimestamp": "2026-11-17T08:00:00Z"},
                "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
                "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}]},
            }]),
            _ => (0..self.nodes).map(|number| json!({
                "metadata": {"name": format!("node-{number}"), "labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8"}},
                "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}]},
            })).collect(),
        };
        (
            200,
            json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "5"}, "items": items}),
        )
    }

    fn picture(&self, number: usize) -> Value {
        let busy = f64::from(*self.busy.lock().expect("a lock")) / 100.0;
        let gpus: Vec<Value> = (0..8).map(|gpu| json!({
            "uuid": format!("GPU-{number}-{gpu}"), "index": gpu, "product": "A100", "memory": 40_960, "state": "ok", "busy": busy, "memoryUsed": 10,
            "slices": [{"pod": format!("team/p-{number}-{gpu}"), "container": "main", "workload": "Job/p", "mechanism": "exclusive",
                "compute": 1.0, "computeUsed": busy, "memoryUsed": 10, "since": 5}],
        })).collect();
        json!({"type": "p4d.24xlarge", "ready": true, "dollarsPerHour": 32.0, "gpus": gpus})
    }

    fn client(&self) -> Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let words = format!("{} {}", request.method(), request.uri());
                if words.contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                let (code, value) = cluster.answer(&words);
                let mut response = Response::new(Body::from(value.to_string().into_bytes()));
                *response.status_mut() = http::StatusCode::from_u16(code).expect("a code");
                Ok::<_, Infallible>(response)
            }
        });
        Client::new(service, "default")
    }

    fn board(&self, options: &DashboardOptions) -> Arc<Board> {
        let agents = Agents {
            namespace: Some("carve".to_owned()),
            selector: "app=carve-agent".to_owned(),
            port: 9411,
        };
        Board::new(self.client(), agents, Arc::default(), options)
    }

    async fn serve(&self, token: Option<&str>) -> SocketAddr {
        let mut options = DashboardOptions {
            listen: "127.0.0.1:0".parse().expect("an address"),
            token: token.map(str::to_owned),
            may_change: false,
        };
        let listener = open(&options).await.expect("an address");
        options.listen = listener.local_addr().expect("an address");
        let (board, address) = (self.board(&options), options.listen);
        tokio::spawn(async move { board.run(listener, &options, || false).await });
        address
    }
}

async fn connect(address: SocketAddr, path: &str, header: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    stream
}

/// Status and body.
async fn get(address: SocketAddr, path: &str, header: &str) -> (u16, Value) {
    let mut text = String::new();
    connect(address, path, header).await.read_to_string(&mut text).await.expect("an answer");
    let code = text.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    let body = text.split_once("\r\n\r\n").expect("a body").1;
    (code, serde_json::from_str(body).unwrap_or(Value::Null))
}

async fn until(what: &str, address: SocketAddr, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..100 {
        last = get(address, "/api/v1/picture", "").await.1;
        if holds(&last["picture"]) {
            return last["picture"].take();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("{what}: {last:#}");
}

#[tokio::test]
async fn the_picture_is_what_objects_and_agents_say() {
    let cluster = FakeCluster { nodes: 2, ..FakeCluster::default() };
    *cluster.busy.lock().unwrap() = 50;
    let address = cluster.serve(None).await;
    let both = |picture: &Value| picture["nodes"]["node-1"]["gpus"][7]["busy"] == 0.5;
    let picture = until("both nodes", address, both).await;
    assert_eq!(picture["nodes"]["node-0"]["type"], "p4d.24xlarge");
    assert_eq!(picture["waiting"]["team/late"]["why"], "no room");
    assert_eq!(picture["happenings"][0]["reason"], "MigApplied");
    let (_, about) = get(address, "/api/v1/about", "").await;
    assert_eq!((&about["kind"], &about["mayChange"]), (&"cluster".into(), &false.into()));
    // Whoever listens hears what changes.
    let mut stream = connect(address, "/api/v1/stream?since=0", "").await;
    *cluster.busy.lock().unwrap() = 75;
    let mut heard = String::new();
    let hear = async {
        let mut bytes = [0; 4096];
        while !heard.contains("\"busy\":0.75") {
            let count = stream.read(&mut bytes).await.expect("it goes on");
            heard.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    tokio::time::timeout(Duration::from_secs(20), hear).await.expect("a change is told");
    // An agent that goes is said, and what it said last stays.
    cluster.away.lock().unwrap().insert(1);
    let silent = |picture: &Value| picture["nodes"]["node-1"]["ready"] == false;
    let picture = until("its silence", address, silent).await;
    let node = &picture["nodes"]["node-1"];
    assert!(
        node["why"].as_str().is_some_and(|why| why.contains("carve/agent-1") && why.contains("no route")),
        "{node:#}"
    );
    assert_eq!(node["gpus"][0]["slices"][0]["pod"], "team/p-1-0");
    assert_eq!(picture["nodes"]["node-0"]["ready"], true);
}

#[tokio::test]
async fn who_does_not_know_the_token_sees_nothing() {
    let cluster = FakeCluster { nodes: 1, ..FakeCluster::default() };
    let address = cluster.serve(Some("a-long-enough-token")).await;
    assert_eq!(get(address, "/api/v1/picture", "").await.0, 401);
    assert_eq!(get(address, "/api/v1/picture", "X-Carve-Token: wrong\r\n").await.0, 401);
    assert_eq!(get(address, "/api/v1/picture", "X-Carve-Token: a-long-enough-token\r\n").await.0, 200);
    let open_to_all =
        DashboardOptions { listen: "0.0.0.0:0".parse().expect("an address"), token: None, may_change: false };
    let refusal = open(&open_to_all).await.expect_err("anybody could look");
    assert!(refusal.contains("--dashboard-token-file"), "{refusal}");
}

#[tokio::test]
async fn nobody_is_asked_while_nobody_looks() {
    let cluster = FakeCluster { nodes: 3, ..FakeCluster::default() };
    let address = cluster.serve(None).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(*cluster.asked.lock().unwrap(), 0, "a replica that does not lead asks nobody for nothing");
    let busy = |picture: &Value| picture["nodes"]["node-2"]["dollarsPerHour"] == 32.0;
    until("all three", address, busy).await;
    assert!(*cluster.asked.lock().unwrap() >= 3);
}

#[tokio::test]
async fn a_thousand_nodes_are_one_look() {
    let cluster = FakeCluster { nodes: 1_000, ..FakeCluster::default() };
    let options = DashboardOptions {
        listen: "127.0.0.1:0".parse().expect("an address"),
        token: None,
        may_change: false,
    };
    let board = cluster.board(&options);
    for number in 0..1_000 {
        let name = format!("node-{number}");
        let mut objects = super::lock(&board.objects);
        objects.node_seen(&json!({"metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true"}}}));
        objects.agent_seen(&json!({"metadata": {"name": format!("agent-{number}"), "namespace": "carve", "uid": name}, "spec": {"nodeName": name}}));
    }
    let before = std::time::Instant::now();
    assert_eq!(board.look().await, 1_000);
    let picture = Arc::clone(&board.seen.borrow());
    println!("1,000 agents with 8 GPUs each: one look in {:?}", before.elapsed());
    let sum = picture.summary();
    assert_eq!((sum.nodes, sum.gpus, sum.slices), (1_000, 8_000, 8_000));
    assert_eq!(pause_after(10), super::LOOK);
    assert_eq!(pause_after(1_000).as_secs(), 1_000 / PER_SECOND as u64);
}
