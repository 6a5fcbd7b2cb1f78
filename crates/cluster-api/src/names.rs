//! Names that the cluster sees. NVIDIA's where users have them in their manifests, ours under `carve.dev`.

/// Chooses among named device-plugin configurations.
pub const DEVICE_PLUGIN_CONFIG: &str = "nvidia.com/device-plugin.config";
/// Asks for a MIG config.
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// Tells how far the MIG config is: `pending`, `rebooting`, `success`, `failed`.
pub const MIG_CONFIG_STATE: &str = "nvidia.com/mig.config.state";
/// Tells which MIG config the state is about: right after a new label the state is still that of the one before.
pub const MIG_CONFIG_STATE_OF: &str = "carve.dev/mig.config.state-of";
/// Tells why the MIG config is not applied.
pub const MIG_CONFIG_REASON: &str = "carve.dev/mig.config.reason";
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
/// Field manager of conditions.
pub const CONDITIONS_MANAGER: &str = "carve-agent";
/// Field manager of what is told about the devices of claims.
pub const CLAIMS_MANAGER: &str = "carve-claims";
/// Who events come from.
pub const REPORTER: &str = "carve-agent";
