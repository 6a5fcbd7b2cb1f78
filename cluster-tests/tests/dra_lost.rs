//! Claims whose records, pods or GPUs are lost behind the agent's back, and kubelet and the API server that go away: what runs goes on,
//! and what nobody asks to take back is taken back all the same.

use carve_cluster_tests::{Ask, Audit, Cluster, GpuNode, Namespace};
use carve_gpu_host::GpuEvent;
use carve_gpu_model::GpuIndex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const PODS: [&str; 3] = ["f", "m", "p"];

fn start(namespace: &Namespace, node: &GpuNode, audit: &Audit<'_>) {
    let asks = [
        ("f", Ask::of("fraction").share("20Gi", "25")),
        ("m", Ask::profile("mig", "1g.18gb")),
        ("p", Ask::of("mps").share("10Gi", "30")),
    ];
    for (name, ask) in asks {
        namespace.apply(&node.claiming_pod(name, &ask));
    }
    audit.run(&PODS);
}

fn containers(audit: &Audit<'_>) -> Vec<(Value, Value)> {
    PODS.iter().map(|pod| audit.container(pod)).collect()
}

/// Slices of the driver with their uids.
fn slices(cluster: &Cluster) -> BTreeMap<String, String> {
    let all = cluster.get(&["resourceslices"]);
    let ours = all["items"].as_array().into_iter().flatten();
    let ours = ours.filter(|slice| slice["spec"]["driver"] == carve_cluster_tests::DRIVER);
    let text = |slice: &Value, field: &str| slice["metadata"][field].as_str().unwrap_or_default().to_owned();
    ours.map(|slice| (text(slice, "name"), text(slice, "uid"))).collect()
}

#[test]
fn records_get_corrupted_and_lost() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-records", "h200-141gb:3") else { return };
    let namespace = cluster.namespace("dra-records");
    let agent = node.serve_claims(&namespace, &[]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    start(&namespace, &node, &audit);
    audit.settled(&PODS);
    let (before, ran) = (audit.holdings(), containers(&audit));
    let told = |what: &str| cluster.told("ClaimsSwept").iter().any(|text| text.contains(what));
    let corrupt = |claim: &str| {
        std::fs::write(audit.record_path(claim), "{\"uid\": ").expect("a broken record");
    };
    corrupt("p");
    corrupt("m");
    std::fs::remove_file(audit.record_path("f")).expect("a lost record");
    // A claim that needs daemons comes right then; the daemon that no record speaks of is left in peace.
    namespace.apply(&node.claiming_pod("late", &Ask::of("mps").share("10Gi", "30")));
    agent.until("what was corrupt is told", || told("does not read"));
    for pod in PODS {
        let title = format!("claim {}/{pod} was lost and is written anew", namespace.name());
        agent.until("what was lost is told", || told(&title));
    }
    audit.run(&["late"]);
    audit.settled(&["f", "m", "p", "late"]);
    let after = audit.holdings();
    assert_eq!(after.migs, before.migs, "the same instances");
    for (part, process) in &before.daemons {
        assert_eq!(after.daemons.get(part), Some(process), "the daemon of {part} was not disturbed");
    }
    assert_eq!(containers(&audit), ran, "pods that run are not disturbed");

    // Again, with a kill; and the pods go before anybody has looked.
    corrupt("m");
    corrupt("p");
    agent.kill_only();
    let all = ["f", "m", "p", "late"];
    audit.delete(&all);
    audit.gone(&all);
    audit.clean();
    agent.remove();
}

#[test]
fn claims_vanish_behind_kubelets_back() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-vanish", "h200-141gb:3") else { return };
    let namespace = cluster.namespace("dra-vanish");
    let agent = node.serve_claims(&namespace, &[]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    start(&namespace, &node, &audit);
    cluster.stop("kubelet-node0");
    let here = ["-n", namespace.name()];
    let force = ["delete", "pod", "--grace-period=0", "--force", "f", "m", "p"];
    cluster.kubectl(&[&force[..], &here].concat());
    cluster.kubectl(&[&["delete", "resourceclaim", "--wait=false", "f", "m", "p"][..], &here].concat());
    for claim in PODS {
        let patch =
            ["patch", "resourceclaim", claim, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#];
        // One that nobody protects any more is gone already.
        let _ = cluster.try_kubectl(&[&patch[..], &here].concat(), None);
    }
    audit.gone(&PODS);
    audit.clean();
    agent.until("what was taken back is told", || {
        let told = cluster.told("ClaimsSwept");
        let of = |pod: &&str| format!("claim {}/{pod} is gone; what it had is taken back", namespace.name());
        PODS.iter().all(|pod| told.contains(&of(pod)))
    });
    cluster.restart("kubelet-node0");
    namespace.apply(&node.claiming_pod("after", &Ask::of("mps").share("10Gi", "30")));
    audit.run(&["after"]);
    audit.settled(&["after"]);
    audit.delete(&["after"]);
    audit.gone(&["after"]);
    audit.clean();
    agent.remove();
}

#[test]
fn kubelet_restarts_and_the_api_server_goes_away() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-away", "h200-141gb:3") else { return };
    let namespace = cluster.namespace("dra-away");
    let agent = node.serve_claims(&namespace, &[]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    start(&namespace, &node, &audit);
    audit.settled(&PODS);
    let (before, ran, published) = (audit.holdings(), containers(&audit), slices(&cluster));
    cluster.restart("kubelet-node0");
    // Kubelet begins by deleting every slice of the node.
    let again = || {
        let now = slices(&cluster);
        now.keys().eq(published.keys()) && now.iter().all(|(name, uid)| published.get(name) != Some(uid))
    };
    agent.until("slices are published again", again);
    namespace.apply(&node.claiming_pod("new", &Ask::profile("mig", "2g.35gb")));
    // Kubelet has forgotten that these are ready, and asks again.
    for claim in PODS {
        namespace.apply(&node.claimant(&format!("also-{claim}"), claim).to_string());
    }
    audit.run(&["new", "also-f", "also-m", "also-p"]);
    audit.settled(&["f", "m", "p", "new"]);
    let after = audit.holdings();
    for (uid, record) in &before.records {
        assert_eq!(after.records.get(uid), Some(record), "asked again, nothing changes");
    }
    assert_eq!(after.daemons, before.daemons);
    assert_eq!(containers(&audit), ran, "pods that run are not disturbed");
    let also = ["pod", "also-f", "also-m", "also-p", "-n", namespace.name()];
    cluster.kubectl(&[&["delete"], &also[..]].concat());

    // The agent stands still until kubelet has asked it for one claim and to take back another; then the API server goes.
    agent.signal("STOP");
    namespace.apply(&node.claiming_pod("next", &Ask::of("mps").share("10Gi", "30")));
    audit.delete(&["new"]);
    let bound = || namespace.get(&["pod", "next"])["spec"]["nodeName"] == "node0";
    cluster.until("the pod is bound", carve_cluster_tests::PATIENCE, bound);
    std::thread::sleep(std::time::Duration::from_secs(2));
    cluster.stop("kube-apiserver");
    agent.signal("CONT");
    let places = |records: &BTreeSet<String>| records.iter().any(|mark| mark.contains("2g35gb"));
    let taken_back = || !places(&audit.holdings().marks);
    cluster.until("what is taken back needs no API server", carve_cluster_tests::PATIENCE, taken_back);
    let meanwhile = audit.holdings();
    for uid in before.records.keys() {
        assert!(meanwhile.records.contains_key(uid) && meanwhile.cdi.contains(uid), "what is ready stays so");
    }
    cluster.restart("kube-apiserver");
    let answers =
        || cluster.try_kubectl(&["get", "--raw", "/readyz"], None).is_ok_and(|answer| answer == "ok");
    cluster.until("the API server answers again", carve_cluster_tests::PATIENCE, answers);
    audit.run(&["next"]);
    audit.gone(&["new"]);
    let all = ["f", "m", "p", "next"];
    audit.settled(&all);
    assert_eq!(containers(&audit), ran, "pods that run are not disturbed");
    audit.delete(&all);
    audit.gone(&all);
    audit.clean();
    agent.remove();
}

/// Values of the taints of a GPU's devices, one entry for each device.
fn taints(cluster: &Cluster, gpu: &str) -> Vec<Vec<Value>> {
    let all = cluster.get(&["resourceslices"]);
    let ours = all["items"].as_array().cloned().unwrap_or_default();
    let ours = ours.iter().filter(|slice| slice["spec"]["driver"] == carve_cluster_tests::DRIVER);
    let devices = ours.flat_map(|slice| slice["spec"]["devices"].as_array().cloned().unwrap_or_default());
    let of = |device: &Value| {
        device["name"].as_str().is_some_and(|name| name == gpu || name.starts_with(&format!("{gpu}-")))
    };
    let values = |device: Value| {
        let taints = device["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().map(|taint| taint["value"].clone()).collect()
    };
    devices.filter(of).map(values).collect()
}

#[test]
fn gpus_get_sick_and_well() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-sick", "h200-141gb:2") else { return };
    let namespace = cluster.namespace("dra-sick");
    let agent = node.serve_claims(&namespace, &[]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    let ask = Ask::of("fraction").share("10Gi", "10");
    let start = |name: &str| {
        namespace.apply(&node.claiming_pod(name, &ask));
        audit.run(&[name]);
        carve_cluster_tests::device_of(&namespace, name)
    };
    let health_of = |pod: &str| {
        let status = namespace.get(&["pod", pod])["status"]["containerStatuses"][0].clone();
        status["allocatedResourcesStatus"][0]["resources"][0]["health"].clone()
    };
    let health = || health_of("first");
    assert_eq!(start("first"), "gpu-0-frac");
    agent.until("the pod's device is well", || health() == "Healthy");
    let sick = |gpu: &str| {
        let taints = taints(&cluster, gpu);
        !taints.is_empty() && taints.iter().all(|of| of.len() == 1)
    };
    let well = |gpu: &str| {
        let taints = taints(&cluster, gpu);
        !taints.is_empty() && taints.iter().all(Vec::is_empty)
    };
    let container = audit.container("first");
    node.machine().change_world(|host| host.lose(GpuIndex(0))).expect("lost");
    agent.until("every device of the GPU is tainted", || sick("gpu-0"));
    assert!(well("gpu-1"), "and none of the other");
    agent.until("the pod shows it", || health() == "Unhealthy");
    assert_eq!(start("elsewhere"), "gpu-1-frac");
    node.machine().change_world(|host| host.find_again(GpuIndex(0))).expect("found");
    agent.until("the taints go", || well("gpu-0"));
    agent.until("the pod shows that as well", || health() == "Healthy");
    assert_eq!(start("again"), "gpu-0-frac");
    assert_eq!(audit.container("first"), container, "a running pod is left alone");

    let xid = GpuEvent { gpu: GpuIndex(1), xid: 79, gpu_instance: None, compute_instance: None };
    node.machine().change_world(|host| host.raise(xid)).expect("an XID");
    agent.until("the taint says what happened", || {
        let taints = taints(&cluster, "gpu-1");
        let says =
            |of: &Vec<Value>| of.iter().any(|value| value.as_str().is_some_and(|text| text.contains("79")));
        !taints.is_empty() && taints.iter().all(says)
    });
    agent.kill();
    agent.until("it is still known after a kill", || sick("gpu-1"));
    let all = ["first", "elsewhere", "again"];
    audit.delete(&all);
    audit.gone(&all);
    audit.clean();

    // An instance does not come back with its GPU.
    let cut = |name: &str| {
        namespace.apply(&node.claiming_pod(name, &Ask::profile("mig", "1g.18gb")));
        audit.run(&[name]);
        agent.until("the pod's instance is well", || health_of(name) == "Healthy");
        carve_cluster_tests::device_of(&namespace, name)
    };
    let device = cut("cut");
    assert!(device.starts_with("gpu-0-mig"), "{device}");
    node.machine().change_world(|host| host.lose(GpuIndex(0))).expect("lost");
    agent.until("the pod shows that its GPU is lost", || health_of("cut") == "Unhealthy");
    node.machine().change_world(|host| host.find_again(GpuIndex(0))).expect("found");
    let values = |device: &str| taints(&cluster, device).into_iter().flatten().collect::<Vec<_>>();
    agent.until("only that instance stays tainted", || {
        let (of_gpu, of_device) = (values("gpu-0"), values(&device));
        of_gpu == of_device
            && !of_gpu.is_empty()
            && of_gpu.iter().all(|value| value == "MIG-instance-is-gone")
    });
    assert_eq!(health_of("cut"), "Unhealthy");
    let title = format!("claim {}/cut", namespace.name());
    agent.until("whose it was is told", || {
        cluster.told("InstanceGone").iter().any(|text| text.contains(&title))
    });
    audit.delete(&["cut"]);
    audit.gone(&["cut"]);
    cut("new");
    audit.delete(&["new"]);
    audit.gone(&["new"]);
    audit.clean();
    agent.remove();
}
