//! Everything that kubelet can learn from a device plugin, as a flat table: what was asked, and what was answered.

use carve_conformance::side_by_side::{Told, tell_container};
use carve_kubelet_api::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest, Device,
    DevicePluginClient, Empty, PreferredAllocationRequest,
};
use carve_test_support::{FakeKubelet, PATIENCE};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tonic::transport::Channel;

/// Asks everything about all resources, once those named are registered.
pub(crate) async fn ask(kubelet: &FakeKubelet, resources: &[&str], any_order: bool) -> Told {
    let give_up = Instant::now() + PATIENCE;
    while !resources.iter().all(|resource| kubelet.registered().contains_key(*resource)) {
        if Instant::now() > give_up {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Long enough for one that is too many.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut told = Told::new();
    for (resource, request) in kubelet.registered() {
        told.insert(format!("{resource} register version"), request.version);
        told.insert(format!("{resource} register endpoint"), request.endpoint);
        told.insert(format!("{resource} register options"), format!("{:?}", request.options));
        let mut plugin = kubelet.plugin(&resource).await;
        let options = plugin.get_device_plugin_options(Empty {}).await.map(|answer| answer.into_inner());
        told.insert(format!("{resource} options"), format!("{options:?}"));
        let mut devices = kubelet.devices(&resource).await;
        devices.sort_by(|one, other| one.id.cmp(&other.id));
        told.insert(format!("{resource} devices"), devices.len().to_string());
        for device in &devices {
            told.insert(format!("{resource} device {}", device.id), tell_device(device));
        }
        let ids: Vec<&str> = devices.iter().map(|device| device.id.as_str()).collect();
        for (question, containers) in requests(&ids) {
            let place = format!("{resource} allocate {question}");
            allocate(&mut plugin, &place, containers, any_order, &mut told).await;
        }
        for size in [1, 2, 4, ids.len() + 1] {
            let place = format!("{resource} prefer {size} of {}", ids.len());
            told.insert(place, prefer(&mut plugin, &ids, size).await);
        }
    }
    told
}

fn tell_device(device: &Device) -> String {
    let nodes = device.topology.iter().flat_map(|topology| &topology.nodes).map(|node| node.id.to_string());
    format!("{} numa [{}]", device.health, nodes.collect::<Vec<_>>().join(","))
}

/// What a container can ask for: a title, and the devices of each container.
fn requests(ids: &[&str]) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let own = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    let mut requests = vec![
        ("none", vec![vec![]]),
        ("unknown", vec![own(&["GPU-nobody"])]),
        ("all", vec![own(ids)]),
        ("no container", vec![]),
    ];
    if let Some(first) = ids.first() {
        requests.push(("one", vec![own(&[first])]));
        requests.push(("one, unknown", vec![own(&[first, "GPU-nobody::0"])]));
        requests.push(("one twice", vec![own(&[first, first])]));
        let last = ids.last().copied().unwrap_or(first);
        if last != *first {
            // Neither in the order of names nor in that of the driver.
            requests.push(("last and first", vec![own(&[last, first])]));
            requests.push(("two containers", vec![own(&[first]), own(&[last])]));
        }
        let part = |id: &str| id.split("::").next().unwrap_or_default().to_owned();
        let shares: Vec<&str> = ids.iter().copied().filter(|id| part(id) == part(first)).take(2).collect();
        if shares.len() == 2 {
            requests.push(("two shares of one", vec![own(&shares)]));
            let share = format!("{}::99", part(first));
            requests.push(("a share too many", vec![vec![share]]));
            requests.push(("the part of a share", vec![vec![part(first)]]));
        }
    }
    requests
}

async fn allocate(
    plugin: &mut DevicePluginClient<Channel>,
    place: &str,
    containers: Vec<Vec<String>>,
    any_order: bool,
    told: &mut Told,
) {
    let container_requests =
        containers.into_iter().map(|devices_ids| ContainerAllocateRequest { devices_ids }).collect();
    match plugin.allocate(AllocateRequest { container_requests }).await {
        Err(status) => {
            told.insert(format!("{place} refused"), format!("{:?}: {}", status.code(), status.message()));
        }
        Ok(answer) => {
            let answers = answer.into_inner().container_responses;
            told.insert(format!("{place} containers"), answers.len().to_string());
            for (number, container) in answers.iter().enumerate() {
                tell_container(&format!("{place} {number}"), container, any_order, told);
            }
        }
    }
}

/// How many shares of each part are preferred, largest first: among equals NVIDIA's choice is random.
async fn prefer(plugin: &mut DevicePluginClient<Channel>, ids: &[&str], size: usize) -> String {
    let request = ContainerPreferredAllocationRequest {
        available_device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        must_include_device_ids: Vec::new(),
        allocation_size: size as i32,
    };
    let answer = plugin
        .get_preferred_allocation(PreferredAllocationRequest { container_requests: vec![request] })
        .await;
    match answer {
        Err(status) => format!("{:?}: {}", status.code(), status.message()),
        Ok(answer) => {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for id in answer.into_inner().container_responses.into_iter().flat_map(|one| one.device_ids) {
                *counts.entry(id.split("::").next().unwrap_or_default().to_owned()).or_default() += 1;
            }
            let mut counts: Vec<usize> = counts.into_values().collect();
            counts.sort_unstable_by(|one, other| other.cmp(one));
            format!("{counts:?}")
        }
    }
}
