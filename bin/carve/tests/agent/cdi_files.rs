//! CDI files go when containers learn their devices otherwise: ours, no others, and not while a pod holds a device.

use crate::GPU;
use crate::node::{Node, devices};
use carve_test_support::PATIENCE;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const FILE: &str = "k8s.device-plugin.nvidia.com-gpu.json";
const BY_CDI: &str = "version: v1\nflags: {plugin: {deviceListStrategy: cdi-cri}}\n";
const BY_VARIABLE: &str = "version: v1\nflags: {plugin: {deviceListStrategy: envvar}}\n";

fn named(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn wait_for(node: &Node, wanted: &BTreeSet<String>) {
    let give_up = Instant::now() + PATIENCE;
    while node.files("cdi") != *wanted {
        assert!(Instant::now() < give_up, "{:?}, not {wanted:?}:\n{}", node.files("cdi"), node.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the agent has taken the configuration and looked around once more after it.
async fn settled(node: &Node, configured: usize) {
    let give_up = Instant::now() + PATIENCE;
    while node.said().matches("is in force").count() < configured {
        assert!(Instant::now() < give_up, "{}", node.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    node.signal(Signal::HUP);
    tokio::time::sleep(Duration::from_millis(500)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_go_when_nobody_can_ask_for_them() {
    let mut node = Node::new();
    node.install_driver();
    node.install_driver_root();
    node.configure(BY_CDI);
    let kubelet = node.kubelet().await;
    std::fs::create_dir_all(node.path("cdi")).expect("a folder");
    std::fs::write(node.path("cdi/vendor.com-nic.json"), "{}").expect("a file");
    node.start_on_file();
    let ids = devices(&kubelet, GPU, 2).await;
    let (theirs, both) = (named(&["vendor.com-nic.json"]), named(&[FILE, "vendor.com-nic.json"]));
    wait_for(&node, &both).await;

    kubelet.hold(GPU, &ids[0], "trainer");
    node.signal(Signal::HUP);
    tokio::time::sleep(Duration::from_millis(500)).await;
    node.configure(BY_VARIABLE);
    settled(&node, 2).await;
    assert_eq!(node.files("cdi"), both, "a container of the pod may be started again");
    kubelet.release("trainer");
    node.signal(Signal::HUP);
    wait_for(&node, &theirs).await;

    node.configure(BY_CDI);
    wait_for(&node, &both).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_nvidias_plugin_stays() {
    let mut node = Node::new();
    node.install_driver();
    node.install_driver_root();
    node.configure(BY_VARIABLE);
    let kubelet = node.kubelet().await;
    std::fs::create_dir_all(node.path("cdi")).expect("a folder");
    let hook = r#"{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook",
        "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib64"]}"#;
    let text = format!(
        r#"{{"cdiVersion": "0.5.0", "kind": "k8s.device-plugin.nvidia.com/gpu",
        "devices": [{{"name": "GPU-1", "containerEdits": {{"deviceNodes": [{{"path": "/dev/nvidia0"}}]}}}}],
        "containerEdits": {{"hooks": [{hook}]}}}}"#
    );
    std::fs::write(node.path("cdi").join(FILE), &text).expect("a file");
    node.start_on_file();
    devices(&kubelet, GPU, 2).await;
    settled(&node, 1).await;
    assert_eq!(std::fs::read_to_string(node.path("cdi").join(FILE)).expect("the file"), text);
}
