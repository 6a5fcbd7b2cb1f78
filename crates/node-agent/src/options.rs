//! What the agent was told when it was started.

use crate::dra::DraOptions;
use crate::ledger::PriceOptions;
use carve_formats::DevicePluginConfig;
use carve_formats::device_plugin::Flags;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The jobs of the agent; each can be left to somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// Offers devices to kubelet.
    DevicePlugin,
    /// Labels the node.
    Labels,
    /// Cuts GPUs as the node's label says.
    Mig,
    /// Proves that driver, plugin and CUDA work.
    Validation,
    /// Serves claims; in place of offering devices and of cutting GPUs by label, because a GPU has one master.
    Claims,
    /// Serves tokens for pods that carve's scheduler has placed; in place of the same.
    Slices,
}

impl Job {
    /// Every job with its name.
    pub const ALL: [(Job, &'static str); 6] = [
        (Job::DevicePlugin, "device-plugin"),
        (Job::Labels, "labels"),
        (Job::Mig, "mig"),
        (Job::Validation, "validation"),
        (Job::Claims, "claims"),
        (Job::Slices, "slices"),
    ];
}

/// Where the configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigSource {
    /// Defaults, flags and environment only.
    Flags,
    /// One file.
    File(PathBuf),
    /// A folder of named files; the node's label chooses.
    Folder(PathBuf),
    /// A ConfigMap of named configurations; the node's label chooses.
    ConfigMap {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Where labels go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelTarget {
    /// A NodeFeature where Node Feature Discovery serves that API, otherwise the Node itself.
    Auto,
    /// The Node itself.
    Node,
    /// A NodeFeature, which Node Feature Discovery turns into labels.
    NodeFeature,
    /// A file that Node Feature Discovery reads.
    File(PathBuf),
}

/// How MIG is managed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigOptions {
    /// mig-parted's config file; names it does not have are looked up among the built-in ones.
    pub config_file: Option<PathBuf>,
    /// The config of a node without the label.
    pub default_config: Option<String>,
    /// Whether pods that hold what must go are evicted.
    pub evict: bool,
    /// Whether the machine may be rebooted when a mode change needs it.
    pub reboot: bool,
    /// The program that reboots it; without one its systemd is signalled.
    pub reboot_program: Option<PathBuf>,
}

/// Everything.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// What to do.
    pub jobs: BTreeSet<Job>,
    /// Name of the node; without one nothing is said to the cluster.
    pub node_name: Option<String>,
    /// Namespace of the agent's own objects.
    pub namespace: String,
    /// Kubeconfig to use instead of the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// kubelet's socket for plugins.
    pub kubelet_socket: PathBuf,
    /// kubelet's socket that tells who holds what.
    pub pod_resources_socket: PathBuf,
    /// Where the configuration comes from.
    pub config: ConfigSource,
    /// The configuration of a node without the label.
    pub default_config: Option<String>,
    /// The label that chooses among named configurations.
    pub config_label: String,
    /// What command line and environment say; it wins over the file.
    pub flags: Flags,
    /// IMEX settings of command line and environment.
    pub imex_channels: Option<Vec<i64>>,
    /// Whether names and device choices of the configuration hold.
    pub honour_choices: bool,
    /// Whether to serve although another plugin does.
    pub take_over: bool,
    /// Where labels go.
    pub label_target: LabelTarget,
    /// Whether the labels of the old nodeSelectors are set too.
    pub label_aliases: bool,
    /// How MIG is managed.
    pub mig: MigOptions,
    /// Where the driver's files are for this process, when it runs in a container.
    pub container_driver_root: PathBuf,
    /// Where the host's folder for CDI files is.
    pub cdi_folder: PathBuf,
    /// Path on the host of a program that answers `cdi-hook`; this program is put there if the folder can be written.
    pub hook_program: PathBuf,
    /// The same path as this process sees it.
    pub hook_program_here: PathBuf,
    /// containerd's configuration, to see whether it reads CDI files.
    pub containerd_config: PathBuf,
    /// The host's cgroups as this process sees them, so that MPS daemons outlive its container.
    pub cgroup_root: Option<PathBuf>,
    /// The cgroup that MPS daemons get below it.
    pub mps_cgroup: String,
    /// Where validation results are written.
    pub validations: PathBuf,
    /// Where the agent keeps what must survive a restart.
    pub state_dir: PathBuf,
    /// Where health and metrics are served.
    pub listen: Option<SocketAddr>,
    /// How often GPUs are looked at without any event.
    pub probe: Duration,
    /// `DP_DISABLE_HEALTHCHECKS`.
    pub disable_health: Option<String>,
    /// `DP_ENABLE_HEALTHCHECKS`.
    pub enable_health: Option<String>,
    /// How claims are served.
    pub dra: DraOptions,
    /// Where prices come from.
    pub prices: PriceOptions,
}

impl AgentOptions {
    /// Where links to the driver's libraries are, for the driver's own programs.
    pub fn driver_links(&self) -> PathBuf {
        self.state_dir.join("driver-libraries")
    }

    /// Puts flags over a configuration: what was given on the command line wins.
    pub fn overlay(&self, config: &mut DevicePluginConfig) {
        overlay(&self.flags, &mut config.flags);
        if let Some(channels) = &self.imex_channels {
            config.imex.channel_ids.clone_from(channels);
        }
    }
}

/// Every flag that is set in one replaces the same flag of the other.
fn overlay(given: &Flags, into: &mut Flags) {
    fn put<T: Clone>(given: &Option<T>, into: &mut Option<T>) {
        if given.is_some() {
            into.clone_from(given);
        }
    }
    put(&given.mig_strategy, &mut into.mig_strategy);
    put(&given.fail_on_init_error, &mut into.fail_on_init_error);
    put(&given.mps_root, &mut into.mps_root);
    put(&given.nvidia_driver_root, &mut into.nvidia_driver_root);
    put(&given.nvidia_dev_root, &mut into.nvidia_dev_root);
    put(&given.gdrcopy_enabled, &mut into.gdrcopy_enabled);
    put(&given.gds_enabled, &mut into.gds_enabled);
    put(&given.mofed_enabled, &mut into.mofed_enabled);
    put(&given.use_node_feature_api, &mut into.use_node_feature_api);
    put(&given.device_discovery_strategy, &mut into.device_discovery_strategy);
    if let Some(given) = &given.plugin {
        let into = into.plugin.get_or_insert_default();
        put(&given.pass_device_specs, &mut into.pass_device_specs);
        put(&given.device_list_strategy, &mut into.device_list_strategy);
        put(&given.device_id_strategy, &mut into.device_id_strategy);
        put(&given.cdi_annotation_prefix, &mut into.cdi_annotation_prefix);
        put(&given.nvidia_ctk_path, &mut into.nvidia_ctk_path);
        put(&given.container_driver_root, &mut into.container_driver_root);
        put(&given.shared_devices_allocation_policy, &mut into.shared_devices_allocation_policy);
    }
    if let Some(given) = &given.gfd {
        let into = into.gfd.get_or_insert_default();
        put(&given.oneshot, &mut into.oneshot);
        put(&given.no_timestamp, &mut into.no_timestamp);
        put(&given.sleep_interval, &mut into.sleep_interval);
        put(&given.output_file, &mut into.output_file);
        put(&given.machine_type_file, &mut into.machine_type_file);
    }
}

#[cfg(test)]
mod tests {
    use super::overlay;
    use carve_formats::DevicePluginConfig;
    use carve_formats::device_plugin::{Flags, PluginFlags};

    #[test]
    fn what_was_typed_wins_and_the_rest_stays() {
        let text = "version: v1\nflags: {migStrategy: single, plugin: {deviceIDStrategy: index, passDeviceSpecs: true}}\n";
        let mut config = DevicePluginConfig::parse(text).value.expect("a config");
        let plugin = PluginFlags { device_id_strategy: Some("uuid".to_owned()), ..PluginFlags::default() };
        let typed =
            Flags { mig_strategy: Some("mixed".to_owned()), plugin: Some(plugin), ..Flags::default() };
        overlay(&typed, &mut config.flags);
        assert_eq!(config.flags.mig_strategy(), "mixed");
        assert_eq!(config.flags.device_id_strategy(), "uuid");
        assert_eq!(config.flags.plugin.and_then(|plugin| plugin.pass_device_specs), Some(true));
    }
}
