//! The agent killed at random moments while real pods with claims come and go, a disk without room, and two agents at once: every pod
//! gets what its claim was given, nothing is given twice, and nothing stays behind.

use carve_cluster_tests::{Ask, Audit, Cluster, GpuNode, Namespace};
use serde_json::{Value, json};
use std::time::Duration;

/// The same moments in every run of a seed.
struct Moments(u64);

impl Moments {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn pass(&mut self, most: u64) {
        std::thread::sleep(Duration::from_millis(self.below(most)));
    }
}

/// Kubelet waits a minute with a claim that has the name of one it has just ended, so names are new every time.
fn mixed(tag: usize) -> Vec<(String, Ask)> {
    let asks = [
        ("f1", Ask::of("fraction").share("20Gi", "25")),
        ("m1", Ask::profile("mig", "1g.18gb")),
        ("p1", Ask::of("mps").share("10Gi", "30")),
        ("f2", Ask::of("fraction").share("30Gi", "50")),
        ("m2", Ask::profile("mig", "2g.35gb")),
        ("p2", Ask::of("mps").share("20Gi", "40")),
    ];
    asks.into_iter().map(|(name, ask)| (format!("{name}-{tag}"), ask)).collect()
}

fn names(pods: &[(String, Ask)]) -> Vec<&str> {
    pods.iter().map(|(name, _)| name.as_str()).collect()
}

/// Applies pods with their claims, all at once.
fn start(audit: &Audit<'_>, pods: &[(String, Ask)]) {
    let items: Vec<Value> = pods
        .iter()
        .filter_map(|(name, ask)| serde_json::from_str(&audit.node.claiming_pod(name, ask)).ok())
        .flat_map(|list: Value| list["items"].as_array().cloned().unwrap_or_default())
        .collect();
    audit.namespace.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
}

/// What a pod sees is what its record says.
fn sees_its_own(audit: &Audit<'_>, names: &[&str]) {
    let holdings = audit.holdings();
    for name in names {
        let mut records = holdings.records.values();
        let record = records.find(|record| record.name == *name).expect("a record");
        let part = record.devices[0].part.clone().expect("a part");
        let text = audit.namespace.exec(name, &["/carve", "gpus", "-o", "json"]);
        let seen: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let gpus = seen["gpus"].as_array().map(Vec::len);
        assert_eq!(gpus, Some(1), "{name} sees one GPU: {seen:#}");
        let migs = seen["gpus"][0]["mig"]["devices"].as_array().cloned().unwrap_or_default();
        let uuids: Vec<&Value> = migs.iter().map(|device| &device["uuid"]).collect();
        match part.starts_with("MIG-") {
            true => assert_eq!(uuids, [&Value::from(part)], "{name} sees its own MIG device"),
            false => assert_eq!(seen["gpus"][0]["uuid"], part, "{name} sees its GPU"),
        }
    }
}

#[test]
fn killed_at_random_moments() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-chaos", "h200-141gb:3") else { return };
    let namespace = cluster.namespace("dra-chaos");
    let agent = node.serve_claims(&namespace, &[]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    let mut moments = Moments(20_261);
    let stay = mixed(0)[..3].to_vec();
    let stay_names = names(&stay);
    start(&audit, &stay);
    let told = cluster.told("EndedUnexpectedly").len();
    for round in 0..3 {
        let go = mixed(round + 1)[3..].to_vec();
        let go_names = names(&go);
        let all = [stay_names.clone(), go_names.clone()].concat();
        start(&audit, &go);
        for _ in 0..3 {
            moments.pass(1_200);
            agent.kill_only();
        }
        audit.run(&all);
        audit.settled(&all);
        sees_its_own(&audit, &all);
        let before: Vec<_> = stay_names.iter().map(|name| audit.container(name)).collect();
        audit.delete(&go_names);
        for _ in 0..2 {
            moments.pass(900);
            agent.kill_only();
        }
        audit.gone(&go_names);
        audit.settled(&stay_names);
        let after: Vec<_> = stay_names.iter().map(|name| audit.container(name)).collect();
        assert_eq!(after, before, "round {round}: pods that run are not disturbed");
    }
    audit.delete(&stay_names);
    agent.kill_only();
    audit.gone(&stay_names);
    audit.clean();
    agent.until("that it was killed is told", || cluster.told("EndedUnexpectedly").len() > told);
    agent.remove();
}

/// Why kubelet can not start a pod.
fn why(namespace: &Namespace, pod: &str) -> String {
    let selector = format!("--field-selector=reason=FailedPrepareDynamicResources,involvedObject.name={pod}");
    let events = namespace.get(&["events", &selector]);
    events["items"][0]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_disk_without_room() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-full", "h200-141gb:2") else { return };
    let namespace = cluster.namespace("dra-full");
    let state = node.files("state").display().to_string();
    cluster.on_node(&["mount", "-t", "tmpfs", "-o", "size=512k", "none", &state]);
    let agent = node.serve_claims(&namespace, &[]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    namespace.apply(&node.claiming_pod("before", &Ask::profile("mig", "1g.18gb")));
    audit.run(&["before"]);
    cluster.on_node(&["sh", "-c", &format!("cat /dev/zero > {state}/filler")]);
    namespace.apply(&node.claiming_pod("mig", &Ask::profile("mig", "2g.35gb")));
    namespace.apply(&node.claiming_pod("mps", &Ask::of("mps").share("10Gi", "50")));
    for pod in ["mig", "mps"] {
        agent.until(&format!("{pod} says why it waits"), || why(&namespace, pod).contains("No space left"));
        let said = why(&namespace, pod);
        assert!(said.contains("make room"), "what to do is said: {said}");
        assert_ne!(namespace.phase(pod), "Running");
    }
    // Nothing half made stays for the pods that wait.
    audit.settled(&["before"]);
    cluster.on_node(&["rm", &format!("{state}/filler")]);
    audit.run(&["mig", "mps"]);
    audit.settled(&["before", "mig", "mps"]);
    // Taking back needs room as little as it can: the disk is full again.
    cluster.on_node(&["sh", "-c", &format!("cat /dev/zero > {state}/filler")]);
    audit.delete(&["before", "mig", "mps"]);
    std::thread::sleep(Duration::from_secs(3));
    cluster.on_node(&["rm", &format!("{state}/filler")]);
    audit.gone(&["before", "mig", "mps"]);
    audit.clean();
    agent.remove();
    cluster.on_node(&["umount", "-l", &state]);
}

#[test]
fn two_agents_at_once() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-rolling", "h200-141gb:3") else { return };
    let namespace = cluster.namespace("dra-two-agents");
    let agent = node.serve_claims(&namespace, &[]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    let pods = mixed(0);
    let (first, second) = pods.split_at(3);
    start(&audit, first);
    audit.run(&names(first));
    let agents = || -> Vec<Value> {
        let pods = namespace.get(&["pods", "-l", "app=carve-agent"]);
        pods["items"].as_array().cloned().unwrap_or_default()
    };
    let ready = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == true;
    let old = agents()[0]["metadata"]["name"].clone();
    // As an upgrade does it: the new one works for a while before the old one is told to end, here until we say so.
    let update = json!({"spec": {
        "minReadySeconds": 3600,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"annotations": {"carve.dev/test": "another"}}},
    }});
    let update = update.to_string();
    let words = ["patch", "daemonset", "carve-agent", "-n", namespace.name(), "-p", &update];
    cluster.kubectl(&words);
    agent.until("two agents are ready", || agents().len() == 2 && agents().iter().all(ready));
    // What the old one made ready is taken back by the new one, daemons of the old one too, and others are made ready.
    audit.delete(&names(&first[1..]));
    start(&audit, second);
    audit.gone(&names(&first[1..]));
    audit.run(&names(second));
    let now = [names(&first[..1]), names(second)].concat();
    audit.settled(&now);
    assert_eq!(agents().len(), 2, "that was while both were there");
    // The old one ends while claims come and go.
    let enough = r#"{"spec": {"minReadySeconds": 1}}"#;
    cluster.kubectl(&["patch", "daemonset", "carve-agent", "-n", namespace.name(), "-p", enough]);
    let only_new = || agents().len() == 1 && agents()[0]["metadata"]["name"] != old;
    let mut round = 0;
    while !only_new() {
        round += 1;
        let state = || {
            let states: Vec<Value> = agents().iter().map(|pod| pod["status"]["conditions"].clone()).collect();
            let set = namespace.get(&["daemonset", "carve-agent"])["status"].clone();
            format!("{states:#?}\n{set:#}")
        };
        assert!(round < 60, "the old one does not end\n{}\n{}", state(), agent.log());
        let more = mixed(round);
        start(&audit, &more[1..3]);
        audit.run(&names(&more[1..3]));
        audit.delete(&names(&more[1..3]));
        audit.gone(&names(&more[1..3]));
        // The controller of DaemonSets was seen not to look again when that time had passed; a change makes it look.
        let nudge = format!("carve.dev/round={round}");
        let words = ["annotate", "daemonset", "carve-agent", "-n", namespace.name(), &nudge, "--overwrite"];
        cluster.kubectl(&words);
    }
    audit.settled(&now);
    audit.delete(&now);
    audit.gone(&now);
    audit.clean();
    agent.remove();
}
