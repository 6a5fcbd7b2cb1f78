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

/// What a container holds; CPUs and memory are left out.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerResources {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its devices, by resource.
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<ContainerDevices>,
    /// Its claims.
    #[prost(message, repeated, tag = "5")]
    pub dynamic_resources: Vec<DynamicResource>,
}

/// A claim that a container uses.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DynamicResource {
    /// Its name. Field 1 was the claim's class, until a claim could have several.
    #[prost(string, tag = "2")]
    pub claim_name: String,
    /// Its namespace.
    #[prost(string, tag = "3")]
    pub claim_namespace: String,
    /// What it has.
    #[prost(message, repeated, tag = "4")]
    pub claim_resources: Vec<ClaimResource>,
}

/// A device of a claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClaimResource {
    /// What the container runtime looks up for it.
    #[prost(message, repeated, tag = "1")]
    pub cdi_devices: Vec<CdiDevice>,
    /// Whose device it is.
    #[prost(string, tag = "2")]
    pub driver_name: String,
    /// Its pool.
    #[prost(string, tag = "3")]
    pub pool_name: String,
    /// Its name there.
    #[prost(string, tag = "4")]
    pub device_name: String,
    /// Which share of it, where it is shared.
    #[prost(string, optional, tag = "5")]
    pub share_id: Option<String>,
}

/// A device by the name that a CDI file gives it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CdiDevice {
    /// Such as `vendor.com/gpu=0`.
    #[prost(string, tag = "1")]
    pub name: String,
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

#[cfg(test)]
mod tests {
    use super::{CdiDevice, ClaimResource, ContainerResources, DynamicResource};
    use prost::Message;

    /// A field of a message: its number, and its content with the length before it.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    #[test]
    fn claims_are_read_where_kubelet_writes_them() {
        // Written out by hand after kubelet's own description, field by field.
        let resource = [
            field(1, &field(1, b"k8s.gpu.carve.dev/claim=a")),
            field(2, b"gpu.carve.dev"),
            field(3, b"node0"),
            field(4, b"gpu-0-frac"),
            field(5, b"share"),
        ]
        .concat();
        let claim = [field(2, b"name"), field(3, b"space"), field(4, &resource)].concat();
        let bytes = [field(1, b"main"), field(3, &[0, 1]), field(5, &claim)].concat();
        let wanted = ContainerResources {
            name: "main".to_owned(),
            devices: Vec::new(),
            dynamic_resources: vec![DynamicResource {
                claim_name: "name".to_owned(),
                claim_namespace: "space".to_owned(),
                claim_resources: vec![ClaimResource {
                    cdi_devices: vec![CdiDevice { name: "k8s.gpu.carve.dev/claim=a".to_owned() }],
                    driver_name: "gpu.carve.dev".to_owned(),
                    pool_name: "node0".to_owned(),
                    device_name: "gpu-0-frac".to_owned(),
                    share_id: Some("share".to_owned()),
                }],
            }],
        };
        assert_eq!(ContainerResources::decode(bytes.as_slice()).unwrap(), wanted);
    }
}
