//! Names that the cluster sees. NVIDIA's where users have them in their manifests, ours under `carve.dev`.

/// The agent, as the API server's records name it: who asks is told by the name of its own account.
pub const AGENT: &str = "carve-agent";
/// The controller.
pub const CONTROLLER: &str = "carve-controller";
/// The way off a cluster.
pub const LEAVE: &str = "carve-leave";
/// Commands that people type.
pub const COMMAND_LINE: &str = "carve";

/// Chooses among named device-plugin configurations.
pub const DEVICE_PLUGIN_CONFIG: &str = "nvidia.com/device-plugin.config";
/// A device-plugin configuration for a node whose agent was given none, written by the controller as a SlicePolicy says.
pub const POLICY_CONFIG: &str = "carve.dev/device-plugin.config";
/// A file of mig-parted with one config, for a node that nobody asks another config of by label, written by the controller as a SlicePolicy says.
pub const POLICY_MIG: &str = "carve.dev/mig.config";
/// Asks for a MIG config.
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// Tells how far the MIG config is: `pending`, `rebooting`, `success`, `failed`.
pub const MIG_CONFIG_STATE: &str = "nvidia.com/mig.config.state";
/// Tells which MIG config the state is about: right after a new label the state is still that of the one before.
pub const MIG_CONFIG_STATE_OF: &str = "carve.dev/mig.config.state-of";
/// Tells why the MIG config is not applied.
pub const MIG_CONFIG_REASON: &str = "carve.dev/mig.config.reason";
/// Of a Node: the GPUs that are given out in parts, written by the agent.
pub const GPUS: &str = "carve.dev/gpus";
/// Of a pod: which parts of which GPUs its containers have, written when it is bound.
pub const SLICES: &str = "carve.dev/slices";
/// Resource: tokens for parts of GPUs; kubelet counts them.
pub const SLICE: &str = "carve.dev/slice";
/// Resource: memory of all GPUs that are given out in parts, in MiB; the scheduler counts it.
pub const MEMORY: &str = "carve.dev/memory";
/// Resource: compute of all GPUs that are given out in parts, 100 for each; the scheduler counts it.
pub const COMPUTE: &str = "carve.dev/compute";
/// Whether there are GPUs.
pub const GPU_PRESENT: &str = "nvidia.com/gpu.present";

/// Condition: the configuration asked for is in force.
pub const CONFIGURED: &str = "CarveConfigured";
/// Condition: every GPU is well.
pub const GPUS_HEALTHY: &str = "CarveGpusHealthy";
/// Condition: driver, plugin and CUDA were proven to work.
pub const VALIDATED: &str = "CarveValidated";

/// Field manager of feature labels.
pub const LABELS_MANAGER: &str = "carve-labels";
/// Field manager of the MIG state.
pub const MIG_MANAGER: &str = "carve-mig";
/// Field manager of what is told about GPUs that can be cut.
pub const MIG_REPORT_MANAGER: &str = "carve-mig-report";
/// Field manager of conditions.
pub const CONDITIONS_MANAGER: &str = "carve-agent";
/// Field manager of what is told about the devices of claims.
pub const CLAIMS_MANAGER: &str = "carve-claims";
/// Field manager of what is told about GPUs that are given out in parts.
pub const SLICES_MANAGER: &str = "carve-slices";
/// Reason of the event by which an agent tells what of it is left on a node that carve leaves.
pub const LEFT: &str = "CarveLeft";
/// Who events come from.
pub const REPORTER: &str = "carve-agent";
