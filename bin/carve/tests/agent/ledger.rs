//! What a machine costs is written down, outlives a kill, and is told to whoever asks: as series, as JSON, as a table, and in OpenCost's words.

use crate::GPU;
use crate::node::{Node, devices};
use serde_json::Value;
use std::process::Command;

/// Dollars an hour: a cent every ten seconds.
const PRICE: f64 = 3.6;

async fn told(node: &Node, path: &str) -> Value {
    let answer = node.ask(path).await.expect("an answer");
    assert_eq!(answer.code, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.body))
}

/// The row of a namespace, or nobody's.
fn row<'a>(report: &'a Value, name: Option<&str>) -> &'a Value {
    let rows = report["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["name"].as_str() == name).unwrap_or_else(|| panic!("{name:?}: {report:#}"))
}

fn seconds(list: &Value) -> f64 {
    let items = list["items"].as_array().expect("items").iter();
    items.map(|item| (item["until"].as_i64().unwrap_or(0) - item["from"].as_i64().unwrap_or(0)) as f64).sum()
}

fn start(node: &mut Node) {
    let mut command = node.command();
    command.arg("--config-file").arg(node.path("config.yaml"));
    command.arg("--prices").arg(node.path("prices"));
    node.start_as(&mut command);
}

#[tokio::test]
async fn books_are_kept_and_outlive_a_kill() {
    let mut node = Node::with("t4:1");
    let kubelet = node.kubelet().await;
    node.install_driver();
    node.install_driver_root();
    node.configure(
        "version: v1\nsharing:\n  timeSlicing:\n    resources: [{name: nvidia.com/gpu, replicas: 4}]\n",
    );
    std::fs::write(node.path("prices"), format!("* {PRICE}\n")).expect("prices");
    start(&mut node);
    node.ready().await;
    let shares = devices(&kubelet, GPU, 4).await;
    for (share, pod) in shares.iter().zip(["a", "b", "c"]) {
        kubelet.hold(GPU, share, pod);
    }
    let cents = |report: &str| {
        let report: Value = serde_json::from_str(report).unwrap_or_default();
        report["total"]["total"].as_f64().unwrap_or(0.0) > 0.012
            && report["rows"].as_array().is_some_and(|rows| rows.len() == 2)
    };
    node.answer_when("/api/v1/cost", "more than ten seconds are written down", |answer| cents(&answer.body))
        .await;

    // Everybody sums up to the price.
    let (report, list) =
        (told(&node, "/api/v1/cost?since=1h").await, told(&node, "/api/v1/ledger?since=1h").await);
    let total = report["total"]["total"].as_f64().expect("a number");
    assert!((total - PRICE / 3600.0 * seconds(&list)).abs() < PRICE / 3600.0 * 2.0, "{report:#}\n{list:#}");
    let pods = told(&node, "/api/v1/cost?by=pod").await;
    let nobody = row(&pods, None)["idle"].as_f64().expect("a number");
    for pod in ["a", "b", "c"] {
        let paid = row(&pods, Some(&format!("default/{pod}")))["allocated"].as_f64().expect("a number");
        assert!(paid > 0.0 && paid <= nobody + 1e-9, "a quarter, as long as it was there: {pods:#}");
    }
    let opencost = told(&node, "/allocation/compute?window=1h&aggregate=namespace").await;
    let set = opencost["data"][0].as_object().expect("a set");
    let sum: f64 = set.values().filter_map(|one| one["totalCost"].as_f64()).sum();
    assert!(set.contains_key("__idle__") && set.contains_key("default"), "{opencost:#}");
    assert!((sum - total).abs() < 0.02, "{opencost:#}");
    let page = node.ask("/metrics").await.expect("a page").body;
    for wanted in [
        "carve_node_price_dollars_per_hour{",
        "source=\"prices\"} 3.6",
        "carve_node_price_known{",
        "kind=\"fragmentation\"} 0.0",
        "workload=\"Pod/a\",pod=\"a\",mechanism=\"time-slicing\",kind=\"idle-held\"",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }

    // Questions that are wrong are told what is wrong.
    for (path, why) in [
        ("/api/v1/cost?by=moon", "by: 'moon' is not known; write one of namespace"),
        ("/api/v1/ledger?since=soon", "'soon' is no window"),
        ("/api/v1/ledger?step=year", "step: 'year' is not known"),
        ("/allocation/compute?aggregate=moon", "aggregate: 'moon'"),
    ] {
        let answer = node.ask(path).await.expect("an answer");
        assert!(answer.code == 400 && answer.body.contains(why), "{path}: {} {}", answer.code, answer.body);
    }

    // The program asks in the same way.
    let mut command = Command::new(env!("CARGO_BIN_EXE_carve"));
    command.args(["cost", "--by", "pod", "-o", "csv", "--agent"]).arg(format!("http://{}", node.address()));
    let said = command.output().expect("it runs");
    let table = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        said.status.success() && table.contains("\ndefault/a,"),
        "{table}{}",
        String::from_utf8_lossy(&said.stderr)
    );

    // A kill loses no money, and what nobody watched is nobody's.
    node.kill();
    start(&mut node);
    node.ready().await;
    let again = |answer: &str| {
        let report: Value = serde_json::from_str(answer).unwrap_or_default();
        report["total"]["total"].as_f64().unwrap_or(0.0) >= total - 0.001
    };
    let after =
        node.answer_when("/api/v1/cost?since=1h", "the books go on", |answer| again(&answer.body)).await;
    let after: Value = serde_json::from_str(&after.body).expect("JSON");
    assert!(row(&after, None)["overhead"].as_f64().expect("a number") > 0.0, "{after:#}");
}
