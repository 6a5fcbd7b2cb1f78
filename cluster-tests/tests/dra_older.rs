//! The agent on a Kubernetes that would give a GPU away twice: it offers one way at a time and says so.
//!
//! It needs an older lab, which is not the usual one:
//! `cargo xtask lab up --kubernetes 1.35 --feature-gates DRAConsumableCapacity=true,DRAPartitionableDevices=true`.

use carve_cluster_tests::{Ask, Audit, Cluster, DRIVER, GpuNode, Namespace, device_of, why_waiting};
use carve_dra::ServerVersion;
use serde_json::Value;

/// The cluster, if it is one of those that do not count shares.
fn older() -> Option<Cluster> {
    let cluster = Cluster::connect()?;
    let text = cluster.kubectl(&["version", "-o", "json"]);
    let version: Value = serde_json::from_str(&text).expect("a version");
    let version = version["serverVersion"]["gitVersion"].as_str().expect("a version").to_owned();
    let server: ServerVersion = version.parse().expect("a version");
    let counts: ServerVersion = "v1.36.2".parse().expect("a version");
    if server < counts {
        return Some(cluster);
    }
    eprintln!("skipped: {version} counts shares; see the top of this file for a lab that does not");
    None
}

/// Slices of the driver.
fn slices(cluster: &Cluster) -> Vec<Value> {
    let all = cluster.get(&["resourceslices", &format!("--field-selector=spec.driver={DRIVER}")]);
    all["items"].as_array().cloned().unwrap_or_default()
}

/// Names of all devices on offer.
fn devices(cluster: &Cluster) -> Vec<String> {
    let slices = slices(cluster);
    let devices = slices.iter().flat_map(|slice| slice["spec"]["devices"].as_array().into_iter().flatten());
    devices.filter_map(|device| Some(device["name"].as_str()?.to_owned())).collect()
}

fn has_counters(cluster: &Cluster) -> bool {
    slices(cluster).iter().any(|slice| slice["spec"]["sharedCounters"].is_array())
}

fn waits(namespace: &Namespace, audit: &Audit<'_>, pod: &str) -> String {
    audit.agent.until(&format!("{pod} waits"), || why_waiting(&namespace.get(&["pod", pod])).is_some());
    why_waiting(&namespace.get(&["pod", pod])).unwrap_or_default()
}

#[test]
fn every_way_at_once_comes_to_whole_gpus() {
    let Some(cluster) = older() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-older-all", "h200-141gb:2") else { return };
    let namespace = cluster.namespace("dra-older-all");
    let agent = node.serve_claims(&namespace, &[]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    let told = || {
        let told = cluster.told("ModeLimited");
        told.into_iter().find(|text| text.contains("offered whole only"))
    };
    agent.until("an event says that less is offered", || told().is_some());
    let text = told().unwrap_or_default();
    assert!(text.contains("1.36.2 or later") && text.contains("--dra-mode"), "what to do: {text}");
    assert_eq!(devices(&cluster), ["gpu-0", "gpu-1"]);
    assert!(!has_counters(&cluster));
    for name in ["one", "two"] {
        namespace.apply(&node.claiming_pod(name, &Ask::of("gpu")));
        audit.run(&[name]);
    }
    namespace.apply(&node.claiming_pod("third", &Ask::of("gpu")));
    namespace.apply(&node.claiming_pod("part", &Ask::of("fraction").share("10Gi", "25")));
    for name in ["third", "part"] {
        let why = waits(&namespace, &audit, name);
        assert!(why.contains("cannot allocate all claims"), "{name}: {why}");
    }
    audit.settled(&["one", "two"]);
    audit.delete(&["one", "two", "third", "part"]);
    audit.gone(&["one", "two", "third", "part"]);
    audit.clean();
    agent.remove();
}

#[test]
fn fractions_alone_share_gpus_without_counters() {
    let Some(cluster) = older() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-older-part", "h200-141gb:2") else { return };
    let namespace = cluster.namespace("dra-older-part");
    let agent = node.serve_claims(&namespace, &[("CARVE_DRA_MODE", "fraction")]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    assert_eq!(devices(&cluster), ["gpu-0-frac", "gpu-1-frac"]);
    assert!(!has_counters(&cluster));
    let half = Ask::of("fraction").share("20Gi", "50");
    let mut given = Vec::new();
    let names = ["a", "b", "c", "d"];
    for name in names {
        namespace.apply(&node.claiming_pod(name, &half));
        audit.run(&[name]);
        given.push(device_of(&namespace, name));
    }
    assert_eq!(given, ["gpu-0-frac", "gpu-0-frac", "gpu-1-frac", "gpu-1-frac"]);
    namespace.apply(&node.claiming_pod("whole", &Ask::of("gpu")));
    namespace.apply(&node.claiming_pod("more", &half));
    for name in ["whole", "more"] {
        let why = waits(&namespace, &audit, name);
        assert!(why.contains("cannot allocate all claims"), "{name}: {why}");
    }
    audit.settled(&names);
    let all = ["a", "b", "c", "d", "whole", "more"];
    audit.delete(&all);
    audit.gone(&all);
    audit.clean();
    agent.remove();
}

#[test]
fn mig_alone_is_cut_on_demand() {
    let Some(cluster) = older() else { return };
    let Some(node) = GpuNode::new(&cluster, "dra-older-mig", "h200-141gb:1") else { return };
    let namespace = cluster.namespace("dra-older-mig");
    let agent = node.serve_claims(&namespace, &[("CARVE_DRA_MODE", "mig")]);
    let audit = Audit { cluster: &cluster, node: &node, namespace: &namespace, agent: &agent };
    assert!(has_counters(&cluster), "places of one GPU are kept apart by counters");
    let names = ["m3", "m2", "m1"];
    for (name, profile) in names.into_iter().zip(["3g.71gb", "2g.35gb", "1g.18gb"]) {
        namespace.apply(&node.claiming_pod(name, &Ask::profile("mig", profile)));
        audit.run(&[name]);
    }
    namespace.apply(&node.claiming_pod("m7", &Ask::profile("mig", "7g.141gb")));
    let why = waits(&namespace, &audit, "m7");
    assert!(why.contains("cannot allocate all claims"), "{why}");
    audit.settled(&names);
    let all = ["m3", "m2", "m1", "m7"];
    audit.delete(&all);
    audit.gone(&all);
    audit.clean();
    agent.remove();
}
