//! What was typed after `carve agent`: the flags and variables that NVIDIA's programs have, and a few of our own.

use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<AgentVerb>,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) config: ConfigurationArgs,
    #[command(flatten)]
    pub(crate) plugin: PluginArgs,
    #[command(flatten)]
    pub(crate) labels: LabelArgs,
    #[command(flatten)]
    pub(crate) mig: MigManagerArgs,
    #[command(flatten)]
    pub(crate) dra: DraArgs,
    #[command(flatten)]
    pub(crate) places: PlaceArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentVerb {
    /// Prove that driver, CDI, device plugin and CUDA work on this node
    Validate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobName {
    /// Offer devices to kubelet
    DevicePlugin,
    /// Label the node
    Labels,
    /// Cut GPUs as the node's label says
    Mig,
    /// Prove that everything works
    Validation,
}

/// Which node, and how the cluster is reached.
#[derive(Debug, Args)]
#[command(next_help_heading = "Node")]
pub(crate) struct NodeArgs {
    /// Jobs to leave to somebody else
    #[arg(long, env = "CARVE_WITHOUT", value_enum, value_delimiter = ',', value_name = "JOB")]
    pub(crate) without: Vec<JobName>,
    /// Name of this node; without it nothing is read from or told to the cluster
    #[arg(long, env = "NODE_NAME")]
    pub(crate) node_name: Option<String>,
    /// Namespace of the agent's own objects
    #[arg(long, env = "NAMESPACE", default_value = "default")]
    pub(crate) namespace: String,
    /// Kubeconfig to use instead of the pod's own account
    #[arg(long, env = "KUBECONFIG", value_name = "FILE", value_parser = path)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Serve although another plugin or manager already does
    #[arg(long, env = "CARVE_TAKE_OVER", num_args = 0..=1, default_missing_value = "true", default_value = "false", value_parser = truth, value_name = "BOOL")]
    pub(crate) take_over: bool,
    /// Where /healthz, /readyz, /metrics, books and the picture of the node (/api/v1) are served; empty for nowhere
    #[arg(long, env = "CARVE_LISTEN", default_value = "0.0.0.0:9411", value_name = "ADDRESS")]
    pub(crate) listen: String,
    /// Seconds between two looks at GPUs that report nothing by themselves
    #[arg(long, env = "CARVE_PROBE_SECONDS", default_value_t = 10, value_name = "SECONDS")]
    pub(crate) probe_seconds: u64,
    /// XIDs to pass over: all, xids, or a list of numbers
    #[arg(long, env = "DP_DISABLE_HEALTHCHECKS", value_name = "LIST")]
    pub(crate) disable_healthchecks: Option<String>,
    /// XIDs to act on although they are passed over: all, or a list of numbers
    #[arg(long, env = "DP_ENABLE_HEALTHCHECKS", value_name = "LIST")]
    pub(crate) enable_healthchecks: Option<String>,
}

/// Where the configuration comes from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct ConfigurationArgs {
    /// Configuration file of the device plugin (version v1)
    #[arg(long, env = "CONFIG_FILE", value_name = "FILE", value_parser = path)]
    pub(crate) config_file: Option<PathBuf>,
    /// Folder of named configurations, such as a mounted ConfigMap
    #[arg(long, env = "CONFIG_FILE_SRCDIR", value_name = "DIR", value_parser = path)]
    pub(crate) config_file_srcdir: Option<PathBuf>,
    /// ConfigMap of named configurations, read from the API server
    #[arg(long, env = "CARVE_CONFIG_MAP", value_name = "NAMESPACE/NAME")]
    pub(crate) config_map: Option<String>,
    /// Name of the configuration for nodes without the label
    #[arg(long, env = "DEFAULT_CONFIG", value_name = "NAME")]
    pub(crate) default_config: Option<String>,
    /// Label that chooses among named configurations
    #[arg(long, env = "NODE_LABEL", default_value = "nvidia.com/device-plugin.config", value_name = "LABEL")]
    pub(crate) node_label: String,
    /// Honour resource names, renames and device choices, which NVIDIA's plugin reads and discards
    #[arg(long, env = "CARVE_HONOUR_CHOICES", num_args = 0..=1, default_missing_value = "true", default_value = "false", value_parser = truth, value_name = "BOOL")]
    pub(crate) honour_choices: bool,
}

/// What the device plugin of NVIDIA can be told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct PluginArgs {
    /// How MIG devices are named: none, single or mixed
    #[arg(long, env = "MIG_STRATEGY", value_name = "STRATEGY")]
    pub(crate) mig_strategy: Option<String>,
    /// End at once where there is no driver, rather than wait for one
    #[arg(long, env = "FAIL_ON_INIT_ERROR", num_args = 0..=1, default_missing_value = "true", value_parser = truth, value_name = "BOOL")]
    pub(crate) fail_on_init_error: Option<bool>,
    /// Where the driver is on the host
    #[arg(long, visible_alias = "nvidia-driver-root", env = "NVIDIA_DRIVER_ROOT", value_name = "DIR")]
    pub(crate) driver_root: Option<String>,
    /// Where the device nodes are on the host
    #[arg(long, visible_alias = "nvidia-dev-root", env = "NVIDIA_DEV_ROOT", value_name = "DIR")]
    pub(crate) dev_root: Option<String>,
    /// Put device nodes into the answer to kubelet
    #[arg(long, env = "PASS_DEVICE_SPECS", num_args = 0..=1, default_missing_value = "true", value_parser = truth, value_name = "BOOL")]
    pub(crate) pass_device_specs: Option<bool>,
    /// How containers learn their devices: envvar, volume-mounts, cdi-annotations, cdi-cri
    #[arg(long, env = "DEVICE_LIST_STRATEGY", value_delimiter = ',', value_name = "LIST")]
    pub(crate) device_list_strategy: Option<Vec<String>>,
    /// What devices are called towards containers: uuid or index
    #[arg(long, env = "DEVICE_ID_STRATEGY", value_name = "STRATEGY")]
    pub(crate) device_id_strategy: Option<String>,
    /// GDRCopy for containers
    #[arg(long, env = "GDRCOPY_ENABLED", num_args = 0..=1, default_missing_value = "true", value_parser = truth, value_name = "BOOL")]
    pub(crate) gdrcopy_enabled: Option<bool>,
    /// GPUDirect Storage for containers
    #[arg(long, env = "GDS_ENABLED", num_args = 0..=1, default_missing_value = "true", value_parser = truth, value_name = "BOOL")]
    pub(crate) gds_enabled: Option<bool>,
    /// InfiniBand for containers
    #[arg(long, env = "MOFED_ENABLED", num_args = 0..=1, default_missing_value = "true", value_parser = truth, value_name = "BOOL")]
    pub(crate) mofed_enabled: Option<bool>,
    /// Prefix of CDI annotations
    #[arg(long, env = "CDI_ANNOTATION_PREFIX", value_name = "PREFIX")]
    pub(crate) cdi_annotation_prefix: Option<String>,
    /// Where MPS daemons keep their files on the host
    #[arg(long, env = "MPS_ROOT", value_name = "DIR")]
    pub(crate) mps_root: Option<String>,
    /// Where shares of several GPUs come from: distributed or packed
    #[arg(long, env = "SHARED_DEVICES_ALLOCATION_POLICY", value_name = "POLICY")]
    pub(crate) shared_devices_allocation_policy: Option<String>,
    /// How devices are found: auto, nvml or tegra
    #[arg(long, env = "DEVICE_DISCOVERY_STRATEGY", value_name = "STRATEGY")]
    pub(crate) device_discovery_strategy: Option<String>,
    /// IMEX channels for containers
    #[arg(long, env = "IMEX_CHANNEL_IDS", value_delimiter = ',', value_name = "LIST")]
    pub(crate) imex_channel_ids: Option<Vec<i64>>,
}

/// What feature discovery can be told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Labels")]
pub(crate) struct LabelArgs {
    /// Write labels to this file for Node Feature Discovery
    #[arg(long, visible_alias = "output", env = "GFD_OUTPUT_FILE", value_name = "FILE", value_parser = path)]
    pub(crate) output_file: Option<PathBuf>,
    /// Write labels to the Node, or to a NodeFeature; the default is a NodeFeature where that API is served
    #[arg(long, env = "CARVE_LABELS_TO", value_enum, default_value_t = LabelsTo::Auto)]
    pub(crate) labels_to: LabelsTo,
    /// Leave the timestamp label out
    #[arg(long, env = "GFD_NO_TIMESTAMP", num_args = 0..=1, default_missing_value = "true", value_parser = truth, value_name = "BOOL")]
    pub(crate) no_timestamp: Option<bool>,
    /// Where the machine type is read
    #[arg(long, env = "GFD_MACHINE_TYPE_FILE", value_name = "FILE")]
    pub(crate) machine_type_file: Option<String>,
    /// Set nvidia.com/cuda.driver and nvidia.com/cuda.runtime as well
    #[arg(long, env = "CARVE_LABEL_ALIASES", num_args = 0..=1, default_missing_value = "true", default_value = "false", value_parser = truth, value_name = "BOOL")]
    pub(crate) label_aliases: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LabelsTo {
    /// A NodeFeature where that API is served, otherwise the Node
    Auto,
    /// The Node
    Node,
    /// A NodeFeature
    NodeFeature,
}

/// What the MIG manager can be told.
#[derive(Debug, Args)]
#[command(next_help_heading = "MIG")]
pub(crate) struct MigManagerArgs {
    /// MIG configs (mig-parted's format); names it does not have are made from the hardware
    #[arg(long, env = "MIG_PARTED_CONFIG_FILE", value_name = "FILE", value_parser = path)]
    pub(crate) mig_config_file: Option<PathBuf>,
    /// MIG config of a node without the label nvidia.com/mig.config
    #[arg(long, env = "DEFAULT_MIG_CONFIG", value_name = "NAME")]
    pub(crate) default_mig_config: Option<String>,
    /// Evict pods that hold what must go; without this the change waits for them
    #[arg(long, env = "CARVE_MIG_EVICT", num_args = 0..=1, default_missing_value = "true", default_value = "false", value_parser = truth, value_name = "BOOL")]
    pub(crate) mig_evict: bool,
    /// Reboot the machine where a change of MIG mode needs it
    #[arg(long, env = "WITH_REBOOT", num_args = 0..=1, default_missing_value = "true", value_parser = truth, default_value_t = false, value_name = "BOOL")]
    pub(crate) with_reboot: bool,
    /// Program that reboots the machine, where a signal to its systemd does not
    #[arg(long, env = "CARVE_REBOOT_PROGRAM", value_name = "FILE", value_parser = path)]
    pub(crate) reboot_program: Option<PathBuf>,
}

/// How claims are served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Claims (DRA)")]
pub(crate) struct DraArgs {
    /// Serve ResourceClaims, in place of the device plugin and of the label nvidia.com/mig.config
    #[arg(long, env = "CARVE_DRA", num_args = 0..=1, default_missing_value = "true", default_value = "false", value_parser = truth, value_name = "BOOL")]
    pub(crate) dra: bool,
    /// Offer tokens for parts of GPUs that carve's scheduler has decided on, in place of the device plugin and of the label nvidia.com/mig.config; not together with --dra
    #[arg(long, env = "CARVE_SLICES", help_heading = "Parts of GPUs", num_args = 0..=1, default_missing_value = "true", default_value = "false", value_parser = truth, value_name = "BOOL")]
    pub(crate) slices: bool,
    /// Name of the driver; gpu.nvidia.com where claims were written for NVIDIA's
    #[arg(long, env = "CARVE_DRIVER_NAME", default_value = "gpu.carve.dev", value_name = "NAME")]
    pub(crate) driver_name: String,
    /// Ways in which GPUs are offered: all, or one of exclusive, fraction, mps, timeslicing, mig
    #[arg(long, env = "CARVE_DRA_MODE", default_value = "all", value_name = "MODE")]
    pub(crate) dra_mode: String,
    /// kubelet's folder for sockets of plugins
    #[arg(long, env = "KUBELET_PLUGINS_DIR", default_value = "/var/lib/kubelet/plugins", value_name = "DIR", value_parser = path)]
    pub(crate) kubelet_plugins: PathBuf,
    /// kubelet's folder in which plugins show up
    #[arg(long, env = "KUBELET_REGISTRAR_DIR", default_value = "/var/lib/kubelet/plugins_registry", value_name = "DIR", value_parser = path)]
    pub(crate) kubelet_registry: PathBuf,
    /// Uid of this pod, so that two agents can overlap in a rolling update
    #[arg(long, env = "POD_UID", value_name = "UID")]
    pub(crate) pod_uid: Option<String>,
    /// The limiter's library on the host, which holds fractions to what they have and counts what claims over MPS use; the one at
    /// /usr/lib/carve in the agent's image is put there unless told otherwise, and an empty name is none
    #[arg(long, env = "CARVE_LIMITER", value_name = "FILE", value_parser = path)]
    pub(crate) limiter: Option<PathBuf>,
    /// What a process's context takes of a GPU, which fractions contain: auto to measure it, or an amount such as 526Mi; 0 leaves it beside them
    #[arg(long, env = "CARVE_LIMITER_CONTEXT", default_value = "auto", value_name = "auto|QUANTITY")]
    pub(crate) limiter_context: String,
    /// Where limits of fractions and of claims over MPS are kept, under the same path here and on the host
    #[arg(long, env = "CARVE_LIMITS_ROOT", default_value = "/run/carve/limits", value_name = "DIR", value_parser = path)]
    pub(crate) limits: PathBuf,
}

/// Where things are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Places")]
pub(crate) struct PlaceArgs {
    /// kubelet's socket for plugins
    #[arg(
        long,
        env = "KUBELET_SOCKET",
        default_value = "/var/lib/kubelet/device-plugins/kubelet.sock",
        value_name = "SOCKET", value_parser = path)]
    pub(crate) kubelet_socket: PathBuf,
    /// kubelet's socket that tells which pod holds which device
    #[arg(
        long,
        env = "POD_RESOURCES_SOCKET",
        default_value = "/var/lib/kubelet/pod-resources/kubelet.sock",
        value_name = "SOCKET", value_parser = path)]
    pub(crate) pod_resources_socket: PathBuf,
    /// Where the driver root of the host is for this process
    #[arg(
        long,
        visible_alias = "container-driver-root",
        env = "DRIVER_ROOT_CTR_PATH",
        default_value = "/driver-root",
        value_name = "DIR", value_parser = path)]
    pub(crate) driver_root_ctr_path: PathBuf,
    /// Where container runtimes look for CDI files
    #[arg(long, env = "CDI_ROOT", default_value = "/var/run/cdi", value_name = "DIR", value_parser = path)]
    pub(crate) cdi_root: PathBuf,
    /// Prices that win over all others: a type, the name of this node or *, and dollars an hour on each line
    #[arg(long, env = "CARVE_PRICES", value_name = "FILE", value_parser = path)]
    pub(crate) prices: Option<PathBuf>,
    /// Where Karpenter serves its metrics, for what machines really cost, such as http://karpenter.kube-system:8080/metrics
    #[arg(long, env = "CARVE_KARPENTER_METRICS", value_name = "URL")]
    pub(crate) karpenter_metrics: Option<String>,
    /// Path on the host of the program that answers `cdi-hook`; this program is copied there
    #[arg(
        long,
        visible_alias = "nvidia-ctk-path",
        env = "NVIDIA_CDI_HOOK_PATH",
        default_value = "/var/lib/carve/bin/carve",
        value_name = "FILE", value_parser = path)]
    pub(crate) nvidia_cdi_hook_path: PathBuf,
    /// The same path as this process sees it
    #[arg(long, env = "CARVE_HOOK_HERE", value_name = "FILE", value_parser = path)]
    pub(crate) hook_here: Option<PathBuf>,
    /// containerd's configuration, to see whether it serves CDI
    #[arg(
        long,
        env = "CONTAINERD_CONFIG",
        default_value = "/etc/containerd/config.toml",
        value_name = "FILE", value_parser = path)]
    pub(crate) containerd_config: PathBuf,
    /// The host's cgroups, so that MPS daemons outlive the agent's container
    #[arg(long, env = "CARVE_CGROUP_ROOT", value_name = "DIR", value_parser = path)]
    pub(crate) cgroup_root: Option<PathBuf>,
    /// The cgroup that MPS daemons get
    #[arg(long, env = "CARVE_MPS_CGROUP", default_value = "carve-mps", value_name = "NAME")]
    pub(crate) mps_cgroup: String,
    /// Where results of validation are written
    #[arg(long, env = "VALIDATIONS_DIR", default_value = "/run/nvidia/validations", value_name = "DIR", value_parser = path)]
    pub(crate) validations: PathBuf,
}

impl NodeArgs {
    /// The address to serve on.
    pub(crate) fn listen(&self) -> Result<Option<SocketAddr>, String> {
        if self.listen.is_empty() {
            return Ok(None);
        }
        let text = if self.listen.starts_with(':') {
            format!("0.0.0.0{}", self.listen)
        } else {
            self.listen.clone()
        };
        text.parse()
            .map(Some)
            .map_err(|_| format!("--listen '{}' is no address; write for example :9411", self.listen))
    }
}

/// A truth value as Go's programs read it, which are what the variables were written for.
fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(format!("'{other}' is neither true nor false")),
    }
}

/// A path; an empty one means that none is given, as a variable without a value does.
#[allow(clippy::unnecessary_wraps, reason = "the shape that clap asks for")]
fn path(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
}
