//! How a driver tells kubelet which of its devices are well (`dra-health` v1 and v1alpha1).
//!
//! Both versions have the same messages. Kubelets up to Kubernetes 1.36 ask for v1alpha1, whatever the driver lists.

/// What a plugin that speaks this service lists among its supported versions.
pub const VERSION: &str = "v1.DRAResourceHealth";
/// What it lists for kubelets before Kubernetes 1.37.
pub const VERSION_ALPHA: &str = "v1alpha1.DRAResourceHealth";

/// "How are your devices, from now on?"
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct NodeWatchResourcesRequest {}

/// Every device of the driver; one that is missing becomes unknown after a while.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeWatchResourcesResponse {
    /// The devices.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<DeviceHealth>,
}

/// Which device is meant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct DeviceIdentifier {
    /// Pool it is in.
    #[prost(string, tag = "1")]
    pub pool_name: String,
    /// Its name in the pool.
    #[prost(string, tag = "2")]
    pub device_name: String,
}

/// How a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum HealthStatus {
    /// Nobody knows.
    Unknown = 0,
    /// It works.
    Healthy = 1,
    /// It has a problem.
    Unhealthy = 2,
}

/// How one device is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeviceHealth {
    /// The device.
    #[prost(message, optional, tag = "1")]
    pub device: Option<DeviceIdentifier>,
    /// How it is.
    #[prost(enumeration = "HealthStatus", tag = "2")]
    pub health: i32,
    /// When that was found out, in seconds since 1970.
    #[prost(int64, tag = "3")]
    pub last_updated_time: i64,
    /// After how many seconds without news it is unknown again; zero means kubelet's own limit, 30 s.
    #[prost(int64, tag = "4")]
    pub health_check_timeout_seconds: i64,
    /// What is wrong, for people; kubelet shows the first 1024 characters.
    #[prost(string, tag = "5")]
    pub message: String,
}

impl DeviceHealth {
    /// A device that works. When that was found out is filled in where it is sent.
    pub fn healthy(pool: &str, device: &str) -> Self {
        Self::of(pool, device, HealthStatus::Healthy, "")
    }

    /// A device that does not, and why.
    pub fn unhealthy(pool: &str, device: &str, why: &str) -> Self {
        Self::of(pool, device, HealthStatus::Unhealthy, why)
    }

    fn of(pool: &str, device: &str, health: HealthStatus, message: &str) -> Self {
        DeviceHealth {
            device: Some(DeviceIdentifier { pool_name: pool.to_owned(), device_name: device.to_owned() }),
            health: health.into(),
            last_updated_time: 0,
            health_check_timeout_seconds: 0,
            message: message.to_owned(),
        }
    }
}

mod generated {
    #![allow(
        clippy::allow_attributes_without_reason,
        unreachable_pub,
        reason = "generated code, whose taste is not ours"
    )]
    include!(concat!(env!("OUT_DIR"), "/v1.DRAResourceHealth.rs"));
}

mod generated_alpha {
    #![allow(
        clippy::allow_attributes_without_reason,
        unreachable_pub,
        reason = "generated code, whose taste is not ours"
    )]
    include!(concat!(env!("OUT_DIR"), "/v1alpha1.DRAResourceHealth.rs"));
}

pub use generated::d_r_a_resource_health_client::DRAResourceHealthClient;
pub use generated::d_r_a_resource_health_server::{DRAResourceHealth, DRAResourceHealthServer};

/// The service under its older name.
pub mod v1alpha1 {
    pub use super::generated_alpha::d_r_a_resource_health_client::DRAResourceHealthClient;
    pub use super::generated_alpha::d_r_a_resource_health_server::{
        DRAResourceHealth, DRAResourceHealthServer,
    };
}
