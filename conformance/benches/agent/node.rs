//! The programs of one side on the machine in a cage, with a kubelet, timed.

use crate::numbers::status_kib;
use carve_conformance::{Cage, Program, Running};
use carve_kubelet_api::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest, DevicePluginClient,
    PreferredAllocationRequest,
};
use carve_test_support::FakeKubelet;
use std::path::Path;
use std::time::{Duration, Instant};
use tonic::transport::Channel;

const GPU: &str = "nvidia.com/gpu";

/// Whose programs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Side {
    Carve,
    Nvidia,
}

/// A node that serves.
pub(crate) struct Node {
    running: Vec<Running>,
    plugin: DevicePluginClient<Channel>,
    ids: Vec<String>,
    /// From the start of the process until kubelet has the list.
    pub(crate) first_list: Duration,
    // Last, so that it outlives those that talk to it.
    _kubelet: FakeKubelet,
}

impl Side {
    /// NVIDIA's plugin knows one place for its sockets, so carve takes another.
    const fn folder(self) -> &'static str {
        match self {
            Side::Carve => "/var/lib/kubelet-of-carve",
            Side::Nvidia => "/var/lib/kubelet",
        }
    }

    fn begin(self, cage: &Cage) -> Running {
        match self {
            Side::Nvidia => cage.start(Program::DevicePlugin, &[]).expect("the plugin starts"),
            Side::Carve => {
                let folder = self.folder();
                let arguments = [
                    "agent".to_owned(),
                    format!("--kubelet-socket={folder}/device-plugins/kubelet.sock"),
                    format!("--pod-resources-socket={folder}/pod-resources/kubelet.sock"),
                    "--state-dir=/tmp/carve".to_owned(),
                    "--output-file=/tmp/carve-labels".to_owned(),
                    "--listen=127.0.0.1:0".to_owned(),
                ];
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                cage.start_carve(&arguments).expect("the agent starts")
            }
        }
    }
}

impl Node {
    /// Starts the programs of a side: of NVIDIA's the plugin first, and when it serves feature discovery.
    pub(crate) async fn start(cage: &Cage, side: Side) -> Self {
        for folder in [side.folder(), "/tmp/carve"] {
            let _ = std::fs::remove_dir_all(cage.outside(Path::new(folder)));
        }
        let kubelet = FakeKubelet::start(&cage.outside(Path::new(side.folder()))).await;
        let start = Instant::now();
        let mut first = side.begin(cage);
        while !kubelet.registered().contains_key(GPU) {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", first.heard());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let devices = kubelet.devices(GPU).await;
        let first_list = start.elapsed();
        let mut running = vec![first];
        if matches!(side, Side::Nvidia) {
            let arguments = ["--use-node-feature-api=false", "--output-file=/tmp/labels"];
            let _ = std::fs::remove_file(cage.outside(Path::new("/tmp/labels")));
            running.push(cage.start(Program::FeatureDiscovery, &arguments).expect("discovery starts"));
        }
        let labels = if matches!(side, Side::Nvidia) { "/tmp/labels" } else { "/tmp/carve-labels" };
        while !cage.outside(Path::new(labels)).exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "no labels");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let plugin = kubelet.plugin(GPU).await;
        let ids = devices.into_iter().map(|device| device.id).collect();
        Node { running, plugin, ids, first_list, _kubelet: kubelet }
    }

    /// How long the answer takes what a container with one GPU gets.
    pub(crate) async fn allocate(&self) -> Duration {
        let container_requests = vec![ContainerAllocateRequest { devices_ids: vec![self.ids[0].clone()] }];
        let mut plugin = self.plugin.clone();
        let start = Instant::now();
        plugin.allocate(AllocateRequest { container_requests }).await.expect("an answer");
        start.elapsed()
    }

    /// How long the answer takes which two GPUs go together best.
    pub(crate) async fn choose_two(&self) -> Duration {
        let container_requests = vec![ContainerPreferredAllocationRequest {
            available_device_ids: self.ids.clone(),
            must_include_device_ids: Vec::new(),
            allocation_size: 2,
        }];
        let mut plugin = self.plugin.clone();
        let start = Instant::now();
        let answer = plugin.get_preferred_allocation(PreferredAllocationRequest { container_requests }).await;
        let time = start.elapsed();
        let answer = answer.expect("an answer").into_inner();
        assert_eq!(answer.container_responses[0].device_ids.len(), 2);
        time
    }

    /// A field of the kernel's account of all processes together, in KiB.
    pub(crate) fn kib(&self, field: &str) -> u64 {
        self.running.iter().map(|one| status_kib(one.id(), field)).sum()
    }
}
