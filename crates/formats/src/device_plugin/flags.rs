//! Flags of the plugin and of feature discovery: absent is not the same as false, so every flag keeps that apart.

use super::Duration;

/// Flags for both programs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flags {
    /// `none`, `single` or `mixed`.
    pub mig_strategy: Option<String>,
    /// Whether a missing driver is fatal.
    pub fail_on_init_error: Option<bool>,
    /// Where the MPS control daemons keep their files. No default in the program itself.
    pub mps_root: Option<String>,
    /// Where the driver is on the host.
    pub nvidia_driver_root: Option<String>,
    /// Where the device nodes are on the host; the driver root where absent or empty.
    pub nvidia_dev_root: Option<String>,
    /// GDRCopy devices for containers.
    pub gdrcopy_enabled: Option<bool>,
    /// GPUDirect Storage devices for containers.
    pub gds_enabled: Option<bool>,
    /// InfiniBand devices for containers.
    pub mofed_enabled: Option<bool>,
    /// Labels through the NodeFeature API rather than a file.
    pub use_node_feature_api: Option<bool>,
    /// `auto`, `nvml` or `tegra`.
    pub device_discovery_strategy: Option<String>,
    /// Flags of the plugin alone.
    pub plugin: Option<PluginFlags>,
    /// Flags of feature discovery alone.
    pub gfd: Option<GfdFlags>,
}

/// Flags of the device plugin alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PluginFlags {
    /// Device nodes in the answer to the kubelet, for static CPU management.
    pub pass_device_specs: Option<bool>,
    /// How containers learn their devices: `envvar`, `volume-mounts`, `cdi-annotations`, `cdi-cri`.
    pub device_list_strategy: Option<Vec<String>>,
    /// `uuid` or `index`.
    pub device_id_strategy: Option<String>,
    /// Prefix of CDI annotations.
    pub cdi_annotation_prefix: Option<String>,
    /// Path of nvidia-ctk on the host.
    pub nvidia_ctk_path: Option<String>,
    /// Where the driver root is mounted in the plugin's container.
    pub container_driver_root: Option<String>,
    /// `distributed` or `packed`.
    pub shared_devices_allocation_policy: Option<String>,
}

/// Flags of GPU feature discovery alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GfdFlags {
    /// Label once and exit.
    pub oneshot: Option<bool>,
    /// Leave the timestamp label out.
    pub no_timestamp: Option<bool>,
    /// Time between two rounds.
    pub sleep_interval: Option<Duration>,
    /// Where the labels are written.
    pub output_file: Option<String>,
    /// Where the machine type is read.
    pub machine_type_file: Option<String>,
}

impl Flags {
    /// The MIG strategy in force.
    pub fn mig_strategy(&self) -> &str {
        self.mig_strategy.as_deref().unwrap_or("none")
    }

    /// Whether a missing driver is fatal.
    pub fn fail_on_init_error(&self) -> bool {
        self.fail_on_init_error.unwrap_or(true)
    }

    /// Where the driver is on the host.
    pub fn nvidia_driver_root(&self) -> &str {
        self.nvidia_driver_root.as_deref().unwrap_or("/")
    }

    /// Where the device nodes are on the host.
    pub fn nvidia_dev_root(&self) -> &str {
        self.nvidia_dev_root.as_deref().filter(|root| !root.is_empty()).unwrap_or(self.nvidia_driver_root())
    }

    /// Whether labels go through the NodeFeature API.
    pub fn use_node_feature_api(&self) -> bool {
        self.use_node_feature_api.unwrap_or(true)
    }

    /// How devices are found.
    pub fn device_discovery_strategy(&self) -> &str {
        self.device_discovery_strategy.as_deref().unwrap_or("auto")
    }

    /// How containers learn their devices.
    pub fn device_list_strategy(&self) -> Vec<String> {
        let written = self.plugin.as_ref().and_then(|plugin| plugin.device_list_strategy.clone());
        written.unwrap_or_else(|| vec!["envvar".to_owned()])
    }

    /// What devices are called towards containers.
    pub fn device_id_strategy(&self) -> &str {
        self.plugin.as_ref().and_then(|plugin| plugin.device_id_strategy.as_deref()).unwrap_or("uuid")
    }

    /// How replicas are spread over GPUs.
    pub fn shared_devices_allocation_policy(&self) -> &str {
        let written =
            self.plugin.as_ref().and_then(|plugin| plugin.shared_devices_allocation_policy.as_deref());
        written.unwrap_or("distributed")
    }

    /// Time between two rounds of labelling.
    pub fn sleep_interval(&self) -> Duration {
        let written = self.gfd.as_ref().and_then(|gfd| gfd.sleep_interval);
        written.unwrap_or(Duration::from_nanoseconds(60_000_000_000))
    }
}
