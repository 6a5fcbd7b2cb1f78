//! Pods that ask for devices, what kubelet wrote down about them, and what they see.

use crate::cases::Wave;
use carve_cluster_tests::{Cluster, Namespace, PATIENCE, Pod};
use carve_conformance::side_by_side::{Told, tell_container};
use serde_json::{Value, json};
use std::cell::RefCell;

/// What a pod tells about itself before it sleeps: its variables, and the names below folders where devices appear.
const TELL: &str = "/usr/bin/env; for folder in /dev /dev/nvidia-caps /var/run/nvidia-container-devices; do \
     for file in $folder/*; do echo \"file $file\"; done; done; echo told; exec /bin/sleep infinity";

/// Runs the pods of a wave and adds what is learnt of each, under the devices that it was given.
pub(crate) fn run(cluster: &Cluster, namespace: &Namespace, wave: Wave, told: &mut Told) {
    let pod = |(number, (resource, amount)): (usize, &(&str, u64))| -> Value {
        let pod = Pod::sleeping(cluster, &format!("pod-{number}"))
            .limit(resource, &amount.to_string())
            .container("command", json!(["/bin/sh", "-c", TELL]));
        serde_json::from_str(&pod.manifest()).expect("a manifest is JSON")
    };
    let pods: Vec<Value> = wave.iter().enumerate().map(pod).collect();
    namespace.apply(&json!({"apiVersion": "v1", "kind": "List", "items": pods}).to_string());
    let all = || namespace.get(&["pods", "-l", "app!=carve-agent"])["items"].as_array().cloned();
    let running = || {
        all().is_some_and(|pods| {
            pods.len() == wave.len() && pods.iter().all(|pod| pod["status"]["phase"] == "Running")
        })
    };
    cluster.until_or(&format!("the pods {wave:?} run"), PATIENCE, running, || format!("{:#?}", all()));
    let records = cluster.kubelet_records();
    let lines = seen(cluster, namespace, wave.len());
    for pod in all().unwrap_or_default() {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let own: Vec<_> = records.iter().filter(|record| record.pod == uid).collect();
        assert_eq!(own.len(), 1, "kubelet wrote down one answer for {name}: {own:?}");
        for record in own {
            let devices = record.devices.iter().cloned().collect::<Vec<_>>().join("+");
            let (resource, place) = (&record.resource, format!("allocate {devices} 0"));
            // Kubelet itself asks in no particular order.
            tell_container(&format!("{resource} {place}"), &record.answer, true, told);
            let prefix = format!("[pod/{name}/main] ");
            let own = lines.iter().filter_map(|line| line.strip_prefix(&prefix));
            see(own, &format!("{resource} pod {devices}"), told);
        }
    }
    let words = ["delete", "pods", "-n", namespace.name(), "-l", "app!=carve-agent", "--timeout=60s"];
    cluster.kubectl(&words);
}

/// What all pods have told about themselves, once all have.
fn seen(cluster: &Cluster, namespace: &Namespace, pods: usize) -> Vec<String> {
    let words = [
        "logs",
        "-n",
        namespace.name(),
        "-l",
        "app!=carve-agent",
        "--prefix",
        "--tail=-1",
        "--max-log-requests=20",
    ];
    let lines = || -> Vec<String> {
        let text = cluster.try_kubectl(&words, None).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let told = |lines: &[String]| lines.iter().filter(|line| line.ends_with("] told")).count();
    let last = RefCell::new(Vec::new());
    cluster.until("the pods have told what they see", PATIENCE, || {
        *last.borrow_mut() = lines();
        told(&last.borrow()) == pods
    });
    last.into_inner()
}

/// Adds what a pod sees of its devices.
fn see<'a>(lines: impl Iterator<Item = &'a str>, place: &str, told: &mut Told) {
    for line in lines {
        if let Some(file) = line.strip_prefix("file ") {
            if file.contains("nvidia") && !file.ends_with('*') {
                told.insert(format!("{place} file {file}"), "there".to_owned());
            }
        } else if let Some((name, value)) = line.split_once('=')
            && ["NVIDIA_", "CUDA_", "LD_"].iter().any(|start| name.starts_with(start))
        {
            let mut names: Vec<&str> = value.split(',').collect();
            names.sort_unstable();
            told.insert(format!("{place} env {name}"), names.join(","));
        }
    }
}
