//! How a plugin tells kubelet what it is and where it serves (`pluginregistration` v1).

/// What a driver of dynamic resources calls its kind.
pub const DRA_PLUGIN: &str = "DRAPlugin";

/// "Who are you?"
#[derive(Clone, PartialEq, prost::Message)]
pub struct InfoRequest {}

/// Who the plugin is; kubelet waits one second for it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginInfo {
    /// Kind of plugin, such as [`DRA_PLUGIN`].
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Name of the driver.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Path of the socket with the service itself.
    #[prost(string, tag = "3")]
    pub endpoint: String,
    /// Services spoken on that socket, such as [`crate::dra::VERSION`].
    #[prost(string, repeated, tag = "4")]
    pub supported_versions: Vec<String>,
}

/// What kubelet made of it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatus {
    /// Whether the plugin is in use now.
    #[prost(bool, tag = "1")]
    pub plugin_registered: bool,
    /// Why not.
    #[prost(string, tag = "2")]
    pub error: String,
}

/// Heard.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatusResponse {}

mod generated {
    #![allow(
        clippy::allow_attributes_without_reason,
        unreachable_pub,
        reason = "generated code, whose taste is not ours"
    )]
    include!(concat!(env!("OUT_DIR"), "/pluginregistration.Registration.rs"));
}

pub use generated::registration_client::RegistrationClient;
pub use generated::registration_server::{Registration, RegistrationServer};
