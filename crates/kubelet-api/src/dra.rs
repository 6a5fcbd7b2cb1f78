//! How kubelet has the devices of claims made ready for their pods (`dra` v1 and v1beta1).
//!
//! Both versions have the same messages; v1beta1 knows no shares and passes over their ids.
//! Every claim asked for must be in the answer, under its uid, in both calls: kubelet asks again for those that are not.

use std::collections::BTreeMap;

/// What a plugin that speaks this service lists among its supported versions.
pub const VERSION: &str = "v1.DRAPlugin";
/// What it lists for kubelets before Kubernetes 1.34.
pub const VERSION_BETA: &str = "v1beta1.DRAPlugin";

/// A ResourceClaim, by name only: what was allocated to it stands in its status.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Claim {
    /// Its namespace.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// Its uid: a claim of the same name may be another one by now.
    #[prost(string, tag = "2")]
    pub uid: String,
    /// Its name.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// Claims to make ready.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePrepareResourcesRequest {
    /// The claims.
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

/// What became of them.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePrepareResourcesResponse {
    /// By uid of the claim.
    #[prost(btree_map = "string, message", tag = "1")]
    pub claims: BTreeMap<String, NodePrepareResourceResponse>,
}

/// What became of one claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePrepareResourceResponse {
    /// The devices that are ready.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
    /// Why they are not; kubelet then ignores the devices.
    #[prost(string, tag = "2")]
    pub error: String,
}

/// One device of a claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Device {
    /// Requests of the claim it was allocated for; none means all of them.
    #[prost(string, repeated, tag = "1")]
    pub request_names: Vec<String>,
    /// Pool it is from.
    #[prost(string, tag = "2")]
    pub pool_name: String,
    /// Its name in the pool.
    #[prost(string, tag = "3")]
    pub device_name: String,
    /// What the container runtime looks up, `vendor/class=name`.
    #[prost(string, repeated, tag = "4")]
    pub cdi_device_ids: Vec<String>,
    /// Which share of the device, where several claims hold one.
    #[prost(string, optional, tag = "5")]
    pub share_id: Option<String>,
}

/// Claims to undo.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnprepareResourcesRequest {
    /// The claims; by now they may be gone from the cluster.
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

/// What became of them.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnprepareResourcesResponse {
    /// By uid of the claim.
    #[prost(btree_map = "string, message", tag = "1")]
    pub claims: BTreeMap<String, NodeUnprepareResourceResponse>,
}

/// What became of one claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnprepareResourceResponse {
    /// Why it could not be undone.
    #[prost(string, tag = "1")]
    pub error: String,
}

mod generated {
    #![allow(
        clippy::allow_attributes_without_reason,
        unreachable_pub,
        reason = "generated code, whose taste is not ours"
    )]
    include!(concat!(env!("OUT_DIR"), "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin.rs"));
}

pub use generated::d_r_a_plugin_client::DRAPluginClient;
pub use generated::d_r_a_plugin_server::{DRAPlugin, DRAPluginServer};

mod generated_beta {
    #![allow(
        clippy::allow_attributes_without_reason,
        unreachable_pub,
        reason = "generated code, whose taste is not ours"
    )]
    include!(concat!(env!("OUT_DIR"), "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin.rs"));
}

/// The service under its older name.
pub mod v1beta1 {
    pub use super::generated_beta::d_r_a_plugin_client::DRAPluginClient;
    pub use super::generated_beta::d_r_a_plugin_server::{DRAPlugin, DRAPluginServer};
}
