//! The agent killed while kubelet asks it for devices, with real pods: none that runs is disturbed, no device is given
//! twice, and every pod gets its GPU in the end.

use carve_cluster_tests::{AgentOnNode, Cluster, GpuNode, Namespace, Pod};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const GPU: &str = "nvidia.com/gpu";
const WORKERS: usize = 6;

fn workers(namespace: &Namespace) -> Vec<Value> {
    namespace.get(&["pods", "-l", "app=worker"])["items"].as_array().cloned().unwrap_or_default()
}

fn running(pods: Vec<Value>) -> Vec<Value> {
    let runs =
        |pod: &Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
    pods.into_iter().filter(runs).collect()
}

/// Why kubelet refused pods for good.
fn refusals(namespace: &Namespace) -> Vec<String> {
    let all = workers(namespace);
    let refused = all.iter().filter(|pod| pod["status"]["reason"] == "UnexpectedAdmissionError");
    refused.filter_map(|pod| Some(pod["status"]["message"].as_str()?.to_owned())).collect()
}

/// Replaces every worker; what happens next happens while kubelet asks for devices for the new ones.
fn replace_workers(cluster: &Cluster, namespace: &Namespace) {
    cluster.kubectl(&["delete", "pods", "-n", namespace.name(), "-l", "app=worker", "--wait=false"]);
}

/// Waits until all workers run, and holds kubelet's own record against what runs: each pod has one GPU of its own.
fn all_run(cluster: &Cluster, namespace: &Namespace, agent: &AgentOnNode<'_>) {
    agent.until("all workers run", || running(workers(namespace)).len() == WORKERS);
    let records = cluster.kubelet_records();
    let mut held: BTreeMap<String, String> = BTreeMap::new();
    let tenant = namespace.get(&["pod", "tenant"]);
    for pod in running(workers(namespace)).iter().chain([&tenant]) {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let own = records.iter().filter(|record| record.pod == text("uid"));
        let own: BTreeSet<&String> = own.flat_map(|record| &record.devices).collect();
        assert_eq!(own.len(), 1, "{} has one GPU: {own:?}", text("name"));
        for device in own {
            let other = held.insert(device.clone(), text("name"));
            assert_eq!(other, None, "{device} was given to {} as well", text("name"));
        }
    }
}

#[test]
fn killed_while_pods_are_given_devices() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "chaos-allocate", "p4d.24xlarge") else { return };
    let namespace = cluster.namespace("chaos-allocate");
    let agent = node.start_agent(&namespace, &[]);
    agent.offers(GPU, 8);
    namespace.apply(&Pod::sleeping(&cluster, "tenant").limit(GPU, "1").manifest());
    namespace.apply(&Pod::sleeping(&cluster, "worker").limit(GPU, "1").deployment(WORKERS));
    namespace.wait_for_phase("tenant", "Running");
    let tenant = || namespace.get(&["pod", "tenant"])["status"]["containerStatuses"][0].clone();
    let before = tenant();
    all_run(&cluster, &namespace, &agent);
    let told = cluster.told("EndedUnexpectedly").len();

    // The agent stands still until a pod is bound and kubelet's question is on its way. Then it is killed at once, or
    // after a breath in which it answers some questions and not others.
    let mut cut_off: BTreeSet<String> = BTreeSet::new();
    for breath in [None, Some("0.0005"), Some("0.002")] {
        let restarts = agent.restarts();
        agent.signal("STOP");
        replace_workers(&cluster, &namespace);
        let waits = |pod: &Value| pod["spec"]["nodeName"] == "node0" && pod["status"]["phase"] == "Pending";
        agent.until("a pod waits for its device", || workers(&namespace).iter().any(waits));
        std::thread::sleep(Duration::from_millis(500));
        match breath {
            None => agent.kill_only(),
            Some(breath) => agent.breathe_and_die(breath),
        }
        agent.wait_until_restarted(restarts + 1);
        all_run(&cluster, &namespace, &agent);
        cut_off.extend(refusals(&namespace));
    }
    eprintln!("kubelet refused pods: {cut_off:#?}");
    assert!(cut_off.iter().any(|why| why.contains("rpc error")), "no question was cut off: {cut_off:#?}");

    agent.offers(GPU, 8);
    assert_eq!(tenant(), before, "the pod that ran all the time was not touched");
    agent.until("that the agent was killed is told", || cluster.told("EndedUnexpectedly").len() > told);
    // What the pods themselves have is as kubelet says.
    let gpu = |pod: &str| {
        let devices = namespace.exec(pod, &["/bin/ls", "/dev"]);
        let is_gpu =
            |line: &&str| line.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u32>().is_ok());
        devices.lines().filter(is_gpu).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut names: Vec<String> = running(workers(&namespace))
        .iter()
        .filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned()))
        .collect();
    names.push("tenant".to_owned());
    let seen: Vec<String> = names.iter().flat_map(|name| gpu(name)).collect();
    let distinct: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (WORKERS + 1, WORKERS + 1), "{seen:?}");
    agent.remove();
}
