//! How kubelet learns of devices and has containers told of theirs (`deviceplugin` v1beta1).

use std::collections::BTreeMap;

/// The version both sides must name.
pub const VERSION: &str = "v1beta1";
/// A device that may be given to a container.
pub const HEALTHY: &str = "Healthy";
/// A device that may not.
pub const UNHEALTHY: &str = "Unhealthy";
/// Where kubelet expects the sockets of plugins and keeps its own, `kubelet.sock`.
pub const FOLDER: &str = "/var/lib/kubelet/device-plugins";

/// Nothing.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Empty {}

/// What a plugin can do.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct DevicePluginOptions {
    /// Whether kubelet must call before a container starts.
    #[prost(bool, tag = "1")]
    pub pre_start_required: bool,
    /// Whether kubelet may ask which devices are best.
    #[prost(bool, tag = "2")]
    pub get_preferred_allocation_available: bool,
}

/// A plugin says what it offers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterRequest {
    /// [`VERSION`].
    #[prost(string, tag = "1")]
    pub version: String,
    /// Name of its socket inside [`FOLDER`].
    #[prost(string, tag = "2")]
    pub endpoint: String,
    /// What pods ask for.
    #[prost(string, tag = "3")]
    pub resource_name: String,
    /// What it can do.
    #[prost(message, optional, tag = "4")]
    pub options: Option<DevicePluginOptions>,
}

/// Every device of a resource; what is not in the list is gone.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListAndWatchResponse {
    /// The devices.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
}

/// Where a device is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TopologyInfo {
    /// NUMA nodes it is near to.
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<NumaNode>,
}

/// A NUMA node.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct NumaNode {
    /// Its number.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// One device.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Device {
    /// What kubelet calls it.
    #[prost(string, tag = "1")]
    pub id: String,
    /// [`HEALTHY`] or [`UNHEALTHY`].
    #[prost(string, tag = "2")]
    pub health: String,
    /// Where it is.
    #[prost(message, optional, tag = "3")]
    pub topology: Option<TopologyInfo>,
}

/// Asked before a container starts, if the plugin wants it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreStartContainerRequest {
    /// Devices of the container.
    #[prost(string, repeated, tag = "1")]
    pub devices_ids: Vec<String>,
}

/// Heard.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct PreStartContainerResponse {}

/// Which devices are best, for each container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreferredAllocationRequest {
    /// One for each container.
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerPreferredAllocationRequest>,
}

/// Which devices are best for one container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerPreferredAllocationRequest {
    /// Devices to choose from.
    #[prost(string, repeated, tag = "1")]
    pub available_device_ids: Vec<String>,
    /// Devices that must be among the chosen.
    #[prost(string, repeated, tag = "2")]
    pub must_include_device_ids: Vec<String>,
    /// How many to choose.
    #[prost(int32, tag = "3")]
    pub allocation_size: i32,
}

/// The best devices, for each container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreferredAllocationResponse {
    /// One for each container, in the order asked.
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerPreferredAllocationResponse>,
}

/// The best devices for one container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerPreferredAllocationResponse {
    /// The chosen.
    #[prost(string, repeated, tag = "1")]
    pub device_ids: Vec<String>,
}

/// Devices were given to containers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateRequest {
    /// One for each container.
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerAllocateRequest>,
}

/// Devices were given to one container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerAllocateRequest {
    /// The devices.
    #[prost(string, repeated, tag = "1")]
    pub devices_ids: Vec<String>,
}

/// What containers get with their devices.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateResponse {
    /// One for each container, in the order asked.
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerAllocateResponse>,
}

/// What one container gets with its devices.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerAllocateResponse {
    /// Environment variables.
    #[prost(btree_map = "string, string", tag = "1")]
    pub envs: BTreeMap<String, String>,
    /// Files and folders of the host.
    #[prost(message, repeated, tag = "2")]
    pub mounts: Vec<Mount>,
    /// Device nodes of the host.
    #[prost(message, repeated, tag = "3")]
    pub devices: Vec<DeviceSpec>,
    /// Annotations for the container runtime.
    #[prost(btree_map = "string, string", tag = "4")]
    pub annotations: BTreeMap<String, String>,
    /// Devices that the container runtime looks up.
    #[prost(message, repeated, tag = "5")]
    pub cdi_devices: Vec<CdiDevice>,
}

/// A device that the container runtime looks up.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CdiDevice {
    /// `vendor/class=name`.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A file or folder of the host in a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Mount {
    /// Where the container sees it.
    #[prost(string, tag = "1")]
    pub container_path: String,
    /// Where it is on the host.
    #[prost(string, tag = "2")]
    pub host_path: String,
    /// Whether the container may not write.
    #[prost(bool, tag = "3")]
    pub read_only: bool,
}

/// A device node of the host in a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeviceSpec {
    /// Where the container sees it.
    #[prost(string, tag = "1")]
    pub container_path: String,
    /// Where it is on the host.
    #[prost(string, tag = "2")]
    pub host_path: String,
    /// Letters of `rwm`.
    #[prost(string, tag = "3")]
    pub permissions: String,
}

mod generated {
    #![allow(
        clippy::allow_attributes_without_reason,
        unreachable_pub,
        reason = "generated code, whose taste is not ours"
    )]
    include!(concat!(env!("OUT_DIR"), "/v1beta1.Registration.rs"));
    include!(concat!(env!("OUT_DIR"), "/v1beta1.DevicePlugin.rs"));
}

pub use generated::device_plugin_client::DevicePluginClient;
pub use generated::device_plugin_server::{DevicePlugin, DevicePluginServer};
pub use generated::registration_client::RegistrationClient;
pub use generated::registration_server::{Registration, RegistrationServer};
