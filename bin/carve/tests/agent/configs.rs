//! Every configuration whose fate under NVIDIA's plugin is recorded, fed to one running agent.

use crate::metrics::wait_for;
use crate::node::{Node, devices};
use crate::{GPU, SHARED};
use carve_test_support::{FakeKubelet, fixture_text};
use rustix::process::Signal;
use std::collections::BTreeMap;

/// What every resource the agent has ever registered offers now, without those that offer nothing.
async fn offered(kubelet: &FakeKubelet) -> BTreeMap<String, usize> {
    let mut offered = BTreeMap::new();
    for resource in kubelet.registered().keys() {
        let devices = kubelet.devices(resource).await;
        if !devices.is_empty() {
            offered.insert(resource.clone(), devices.len());
        }
    }
    offered
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_ones_change_nothing_and_good_ones_hold() {
    let Some(text) = fixture_text("device-plugin/golden-config-errors/config-cases.json") else { return };
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).expect("cases");
    let mut node = Node::new();
    node.install_driver();
    node.configure(SHARED);
    let kubelet = node.kubelet().await;
    node.start_on_file();
    devices(&kubelet, GPU, 8).await;
    let before = BTreeMap::from([(GPU.to_owned(), 8)]);
    let (mut good, mut bad) = (0, 0);
    for case in &cases {
        let name = case["case"].as_str().expect("a name");
        let accepted = case["accepted"].as_bool().expect("a verdict");
        eprintln!("case {name}: {}", if accepted { "good" } else { "bad" });
        node.configure(case["yaml"].as_str().expect("a configuration"));
        node.signal(Signal::HUP);
        if accepted {
            let wanted: BTreeMap<String, usize> =
                serde_json::from_value(case["resources"].clone()).expect("counts");
            for (resource, count) in &wanted {
                devices(&kubelet, resource, *count).await;
            }
            assert_eq!(offered(&kubelet).await, wanted, "case {name}");
            wait_for(&node, "carve_agent_config_ok", &[], 1.0).await;
            good += 1;
        } else {
            wait_for(&node, "carve_agent_config_ok", &[], 0.0).await;
            assert_eq!(offered(&kubelet).await, before, "case {name}");
            let ready = node.ask("/readyz").await.expect("an answer");
            assert_eq!(ready.code, 200, "case {name}: it still does its work: {ready:?}");
            bad += 1;
        }
        assert!(node.lives(), "case {name}:\n{}", node.said());
        // Every case meets an agent with the same good configuration in force.
        node.configure(SHARED);
        node.signal(Signal::HUP);
        wait_for(&node, "carve_agent_config_ok", &[], 1.0).await;
        devices(&kubelet, GPU, 8).await;
    }
    assert!(good >= 5 && bad >= 15, "{good} good and {bad} bad ones are too few to prove anything");
    assert_eq!(kubelet.registrations(), 1, "one agent, and one registration for all of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_the_node_can_not_carry_out_holds_as_soon_as_it_can() {
    const MIG: &str = "nvidia.com/mig-1g.18gb";
    let mut node = Node::new();
    node.install_driver();
    node.configure("version: v1\nflags: {migStrategy: mixed}\n");
    node.cut("  - {devices: [0], mig-enabled: true, mig-devices: {1g.18gb: 7}}\n");
    let kubelet = node.kubelet().await;
    let mut command = node.command();
    command.arg("--config-file").arg(node.path("config.yaml"));
    command.args(["--probe-seconds", "1", "--without", "mig"]);
    node.start_as(&mut command);
    devices(&kubelet, GPU, 1).await;
    devices(&kubelet, MIG, 7).await;
    // One GPU is cut and one is not, which strategy 'single' can not name.
    node.configure("version: v1\nflags: {migStrategy: single}\n");
    wait_for(&node, "carve_agent_config_ok", &[], 0.0).await;
    devices(&kubelet, MIG, 7).await;
    node.cut("  - {devices: all, mig-enabled: true, mig-devices: {1g.18gb: 7}}\n");
    devices(&kubelet, GPU, 14).await;
    devices(&kubelet, MIG, 0).await;
    wait_for(&node, "carve_agent_config_ok", &[], 1.0).await;
    let refusals = node.said().matches("ConfigRefused").count();
    assert_eq!(refusals, 1, "it is tried again and again, and told once:\n{}", node.said());
}
