//! Which pod holds which device, as kubelet tells (`podresources` v1).

use crate::device_plugin::TopologyInfo;

/// Where kubelet answers.
pub const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

/// "Who holds what?"
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ListPodResourcesRequest {}

/// Every pod on the node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListPodResourcesResponse {
    /// The pods.
    #[prost(message, repeated, tag = "1")]
    pub pod_resources: Vec<PodResources>,
}

/// What a pod holds.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodResources {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// Its containers.
    #[prost(message, repeated, tag = "3")]
    pub containers: Vec<ContainerResources>,
}

/// What a container holds; CPUs, memory and claims are left out.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerResources {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its devices, by resource.
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<ContainerDevices>,
}

/// Devices of one resource.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerDevices {
    /// The resource.
    #[prost(string, tag = "1")]
    pub resource_name: String,
    /// The devices.
    #[prost(string, repeated, tag = "2")]
    pub device_ids: Vec<String>,
    /// Where they are.
    #[prost(message, optional, tag = "3")]
    pub topology: Option<TopologyInfo>,
}

mod generated {
    #![allow(
        clippy::allow_attributes_without_reason,
        unreachable_pub,
        reason = "generated code, whose taste is not ours"
    )]
    include!(concat!(env!("OUT_DIR"), "/v1.PodResourcesLister.rs"));
}

pub use generated::pod_resources_lister_client::PodResourcesListerClient;
pub use generated::pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer};
