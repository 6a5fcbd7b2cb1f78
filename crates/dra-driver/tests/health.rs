//! The health of devices as kubelet hears of it, in both versions of the service.

mod served;

use carve_kubelet_api::dra_health::{
    DRAResourceHealthClient, DeviceHealth, DeviceIdentifier, HealthStatus, NodeWatchResourcesRequest,
    NodeWatchResourcesResponse, v1alpha1,
};
use served::{DRIVER, Instance, Node, PACE, in_time};
use tonic::Streaming;

fn health(device: &str, health: HealthStatus, message: &str) -> DeviceHealth {
    DeviceHealth {
        device: Some(DeviceIdentifier { pool_name: "node0".to_owned(), device_name: device.to_owned() }),
        health: health.into(),
        last_updated_time: 1_800_000_000,
        health_check_timeout_seconds: 0,
        message: message.to_owned(),
    }
}

/// What kubelet hears, and what it hears at last.
async fn heard(mut stream: Streaming<NodeWatchResourcesResponse>, instance: Instance) {
    let mut next = async || in_time(stream.message()).await.expect("a stream").map(|list| list.devices);
    assert_eq!(next().await, Some(Vec::new()), "at once, whatever there is");
    let well = vec![health("gpu-0", HealthStatus::Healthy, ""), health("gpu-1", HealthStatus::Healthy, "")];
    instance.health.send_replace(well.clone());
    while next().await != Some(well.clone()) {}
    for _ in 0..3 {
        assert_eq!(next().await, Some(well.clone()), "again, so that it does not become outdated");
    }
    let ill = vec![well[0].clone(), health("gpu-1", HealthStatus::Unhealthy, "XID 79: the GPU is gone")];
    instance.health.send_replace(ill.clone());
    while next().await != Some(ill.clone()) {}
    let ended = instance.begin_to_stop();
    while next().await.is_some() {}
    in_time(ended).await.expect("a task").expect("a clean end");
}

#[tokio::test]
async fn a_kubelet_of_today_hears_of_every_change() {
    let node = Node::new();
    let instance = node.serve(PACE, None);
    let mut client = DRAResourceHealthClient::new(node.kubelet.latest(DRIVER).await);
    let stream = in_time(client.node_watch_resources(NodeWatchResourcesRequest {})).await.expect("a stream");
    heard(stream.into_inner(), instance).await;
}

#[tokio::test]
async fn a_kubelet_before_1_37_hears_the_same() {
    let node = Node::new();
    let instance = node.serve(PACE, None);
    let mut client = v1alpha1::DRAResourceHealthClient::new(node.kubelet.latest(DRIVER).await);
    let stream = in_time(client.node_watch_resources(NodeWatchResourcesRequest {})).await.expect("a stream");
    heard(stream.into_inner(), instance).await;
}

/// A change is told at once, not with the next repetition.
#[tokio::test]
async fn a_change_does_not_wait_for_the_next_repetition() {
    let node = Node::new();
    let pace = carve_dra_driver::Pace { health: std::time::Duration::from_secs(3600), ..PACE };
    let instance = node.serve(pace, None);
    let mut client = DRAResourceHealthClient::new(node.kubelet.latest(DRIVER).await);
    let stream = in_time(client.node_watch_resources(NodeWatchResourcesRequest {})).await.expect("a stream");
    let mut stream = stream.into_inner();
    assert_eq!(in_time(stream.message()).await.expect("a stream").map(|list| list.devices.len()), Some(0));
    instance.health.send_replace(vec![health("gpu-0", HealthStatus::Healthy, "")]);
    assert_eq!(in_time(stream.message()).await.expect("a stream").map(|list| list.devices.len()), Some(1));
    // Nobody watches the devices any more, so nothing is claimed about them.
    drop(instance.health);
    assert_eq!(in_time(stream.message()).await.expect("a stream"), None);
}
