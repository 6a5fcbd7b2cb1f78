//! Everything that can go wrong on a node, on a real kubelet: nothing that runs is disturbed, nothing is given twice, and
//! afterwards everything is offered again.

use carve_cluster_tests::{Cluster, GpuNode, PATIENCE, Pod};
use carve_gpu_host::GpuEvent;
use carve_gpu_model::GpuIndex;
use std::time::Duration;

const GPU: &str = "nvidia.com/gpu";

/// Whether an event with this reason was told about the node.
fn was_told(cluster: &Cluster, reason: &str) -> bool {
    let selector = format!("--field-selector=reason={reason}");
    let events = cluster.get(&["events", "-n", "default", &selector]);
    events["items"].as_array().is_some_and(|items| !items.is_empty())
}

#[test]
fn killed_in_the_middle_of_a_mig_change() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "chaos-mig", "p4d.24xlarge") else { return };
    let namespace = cluster.namespace("chaos-mig");
    let environment = [("MIG_STRATEGY", "mixed"), ("CARVE_SIM_FAULT", "@/tests/fault")];
    let agent = node.start_agent(&namespace, &environment);
    let offers = |resource: &str, count: u64| agent.offers(resource, count);
    let state =
        || cluster.get(&["node", "node0"])["metadata"]["labels"]["nvidia.com/mig.config.state"].clone();
    let applied = |config: &str| {
        cluster.label("node0", "nvidia.com/mig.config", config);
        agent.until(&format!("{config} is applied"), || cluster.is_cut_as("node0", config));
    };
    offers(GPU, 8);
    applied("all-3g.20gb");
    offers("nvidia.com/mig-3g.20gb", 16);
    namespace.apply(&Pod::sleeping(&cluster, "tenant").limit("nvidia.com/mig-3g.20gb", "1").manifest());
    namespace.wait_for_phase("tenant", "Running");
    let container =
        || namespace.get(&["pod", "tenant"])["status"]["containerStatuses"][0]["containerID"].clone();
    let started = container();

    // The driver kills the agent in the middle of the next change; the one that kubelet starts brings it to an end.
    for (nth, config) in [(3, "all-1g.5gb"), (20, "all-balanced"), (41, "all-2g.10gb")] {
        std::fs::write(node.files("tests").join("fault"), format!("change:{nth}:after:die"))
            .expect("a fault");
        agent.kill();
        let before = agent.restarts();
        cluster.label("node0", "nvidia.com/mig.config", config);
        agent.wait_until_restarted(before + 1);
        // The tenant's GPU can not become what is asked for, and that is told; the other seven can.
        let told = || state() == "failed";
        agent.until("the tenant's GPU is left alone, and that is told", told);
        assert_eq!(container(), started, "{config}: the tenant is not disturbed");
    }
    let reason =
        cluster.get(&["node", "node0"])["metadata"]["annotations"]["carve.dev/mig.config.reason"].clone();
    assert!(reason.as_str().is_some_and(|text| text.contains("/tenant")), "who holds it is told: {reason}");
    offers("nvidia.com/mig-2g.10gb", 21);
    cluster.kubectl(&["delete", "pod", "tenant", "-n", namespace.name()]);
    agent.until("it is tried again by itself", || state() == "success");
    offers("nvidia.com/mig-2g.10gb", 24);
    offers("nvidia.com/mig-3g.20gb", 0);
    applied("all-disabled");
    offers(GPU, 8);
    cluster.kubectl(&["label", "node", "node0", "nvidia.com/mig.config-"]);
    agent.remove();
}

#[test]
fn gpus_get_sick_and_well_and_files_get_corrupted() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "chaos-health", "h200-141gb:4") else { return };
    let namespace = cluster.namespace("chaos-health");
    let agent = node.start_agent(&namespace, &[]);
    let offers = |count: u64| agent.offers(GPU, count);
    offers(4);
    let world = || node.machine();
    world().change_world(|host| host.lose(GpuIndex(2))).expect("lost");
    offers(3);
    cluster.until("the loss is told", PATIENCE, || was_told(&cluster, "GpuLost"));
    let sick = || {
        let conditions = cluster.get(&["node", "node0"])["status"]["conditions"].clone();
        let mut conditions = conditions.as_array().into_iter().flatten();
        conditions.any(|one| one["type"] == "CarveGpusHealthy" && one["status"] == "False")
    };
    agent.until("the node's condition says so", sick);
    // Pods still get the others.
    namespace.apply(&Pod::sleeping(&cluster, "three").limit(GPU, "3").manifest());
    namespace.wait_for_phase("three", "Running");
    world().change_world(|host| host.find_again(GpuIndex(2))).expect("found");
    offers(4);

    let xid = GpuEvent { gpu: GpuIndex(0), xid: 79, gpu_instance: None, compute_instance: None };
    world().change_world(|host| host.raise(xid)).expect("an XID");
    offers(3);
    cluster.until("the XID is told", PATIENCE, || was_told(&cluster, "Xid"));
    agent.kill();
    offers(3);
    assert_eq!(namespace.phase("three"), "Running");

    // A checkpoint that does not read is put aside and told; the agent works on.
    let checkpoint = node.files("state").join("agent.json");
    // It stands still until it is killed: one that goes on may write its own over ours.
    agent.signal("STOP");
    std::fs::write(&checkpoint, "{ not json").expect("a broken checkpoint");
    agent.kill();
    cluster.until("the corruption is told", PATIENCE, || was_told(&cluster, "CheckpointCorrupt"));
    offers(4);
    assert!(node.files("state").join("agent.json.corrupt").exists());
    agent.remove();
}

#[test]
fn killed_while_mps_daemons_start() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "chaos-mps", "h200-141gb:2") else { return };
    let namespace = cluster.namespace("chaos-mps");
    let configure = |text: &str| {
        let new = node.files("tests").join("config.new");
        std::fs::write(&new, text).expect("a config");
        std::fs::rename(&new, node.files("tests").join("config.yaml")).expect("a config");
    };
    let shared = "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}\n";
    configure("version: v1\n");
    let agent = node.start_agent(&namespace, &[("CONFIG_FILE", "/tests/config.yaml")]);
    let offers = |count: u64| agent.offers(GPU, count);
    let daemons = || cluster.on_node(&["pgrep", "-f", "nvidia-cuda-mps-control -f"]).lines().count();
    offers(2);
    // At a moment that differs from round to round: before, while and after the daemons are started.
    for round in 0..4 {
        configure(shared);
        std::thread::sleep(Duration::from_millis(400 * round));
        agent.kill();
        offers(6);
        assert_eq!(daemons(), 2, "one daemon for each GPU, however often the agent was killed");
        configure("version: v1\n");
        offers(2);
        agent.until("the daemons end", || daemons() == 0);
    }
    agent.remove();
}
