//! What Prometheus is told, and that it is true.

use crate::node::{Node, allocated, devices, request};
use crate::openmetrics::Scrape;
use crate::{GPU, SHARED};
use carve_gpu_model::GpuIndex;
use rustix::process::Signal;

/// The agent's series, which must be well-formed whenever they are asked for.
pub(crate) async fn scrape(node: &Node) -> Scrape {
    let answer = node.answer_when("/metrics", "there are metrics", |answer| answer.code == 200).await;
    assert!(answer.head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{answer:?}");
    Scrape::read(&answer.body).unwrap_or_else(|why| panic!("no OpenMetrics: {why}\n{}", answer.body))
}

/// Waits until a series has a value.
pub(crate) async fn wait_for(node: &Node, series: &str, labels: &[(&str, &str)], wanted: f64) {
    let holds = |scrape: &Scrape| scrape.value(series, labels) == Some(wanted);
    let what = format!("{series} {labels:?} is {wanted}");
    node.answer_when("/metrics", &what, |answer| Scrape::read(&answer.body).is_ok_and(|it| holds(&it))).await;
}

const HEALTHY: [(&str, &str); 2] = [("resource", GPU), ("health", "healthy")];
const UNHEALTHY: [(&str, &str); 2] = [("resource", GPU), ("health", "unhealthy")];

#[tokio::test(flavor = "multi_thread")]
async fn devices_and_allocations_are_counted() {
    let mut node = Node::new();
    node.install_driver();
    let kubelet = node.kubelet().await;
    node.start(&[]);
    let ids = devices(&kubelet, GPU, 2).await;
    let first = scrape(&node).await;
    assert_eq!(first.value("carve_agent_devices", &HEALTHY), Some(2.0), "{first:?}");
    assert_eq!(first.value("carve_agent_devices", &UNHEALTHY), Some(0.0), "{first:?}");
    assert_eq!(first.value("carve_agent_config_ok", &[]), Some(1.0), "{first:?}");
    wait_for(&node, "carve_agent_registrations_total", &[("resource", GPU)], 1.0).await;

    for id in [&ids[0], &ids[1], &ids[0]] {
        allocated(&kubelet, GPU, std::slice::from_ref(id)).await;
    }
    let mut plugin = kubelet.plugin(GPU).await;
    plugin.allocate(request(&["GPU-nobody-has-this".to_owned()])).await.expect_err("a refusal");
    let then = scrape(&node).await;
    let allocations = |outcome| {
        let labels = [("resource", GPU), ("outcome", outcome)];
        then.value("carve_agent_allocations_total", &labels)
    };
    assert_eq!((allocations("ok"), allocations("refused")), (Some(3.0), Some(1.0)), "{then:?}");

    node.machine().change_world(|host| host.lose(GpuIndex(1))).expect("a lost GPU");
    node.signal(Signal::HUP);
    wait_for(&node, "carve_agent_devices", &UNHEALTHY, 1.0).await;
    wait_for(&node, "carve_agent_devices", &HEALTHY, 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_configuration_is_told_until_a_good_one_comes() {
    let mut node = Node::new();
    node.install_driver();
    node.configure(SHARED);
    let kubelet = node.kubelet().await;
    node.start_on_file();
    devices(&kubelet, GPU, 8).await;
    wait_for(&node, "carve_agent_config_ok", &[], 1.0).await;
    node.configure(
        "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: one}]}}\n",
    );
    wait_for(&node, "carve_agent_config_ok", &[], 0.0).await;
    wait_for(&node, "carve_agent_config_loads_total", &[("result", "refused")], 1.0).await;
    node.configure(SHARED);
    wait_for(&node, "carve_agent_config_ok", &[], 1.0).await;
    // A file that goes and comes back unchanged is good again, too.
    std::fs::rename(node.path("config.yaml"), node.path("aside.yaml")).expect("a rename");
    wait_for(&node, "carve_agent_config_ok", &[], 0.0).await;
    devices(&kubelet, GPU, 8).await;
    std::fs::rename(node.path("aside.yaml"), node.path("config.yaml")).expect("a rename");
    wait_for(&node, "carve_agent_config_ok", &[], 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_is_no_longer_offered_counts_no_devices() {
    let mut node = Node::new();
    node.install_driver();
    node.configure(SHARED);
    let kubelet = node.kubelet().await;
    node.start_on_file();
    devices(&kubelet, GPU, 8).await;
    node.configure(&SHARED.replace("timeSlicing:", "timeSlicing:\n    renameByDefault: true"));
    devices(&kubelet, "nvidia.com/gpu.shared", 8).await;
    devices(&kubelet, GPU, 0).await;
    let shared = [("resource", "nvidia.com/gpu.shared"), ("health", "healthy")];
    wait_for(&node, "carve_agent_devices", &shared, 8.0).await;
    // Kubelet shows 0 of the old name; nothing but 0, or no series at all, is true here.
    let seen = scrape(&node).await;
    assert!(matches!(seen.value("carve_agent_devices", &HEALTHY), None | Some(0.0)), "{seen:?}");
}
