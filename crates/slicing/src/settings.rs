//! What the operator wants, checked: after this nothing looks at flags or files again.

use carve_formats::device_plugin::{DevicePluginConfig, FlagError, Resources, Sharing};
use std::collections::BTreeSet;
use thiserror::Error;

/// How MIG devices are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigStrategy {
    /// Not at all: a GPU is a GPU.
    None,
    /// As GPUs; all of a node must be alike.
    Single,
    /// Each profile by its own name.
    Mixed,
}

/// How a container learns which devices it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceList {
    /// In an environment variable that NVIDIA's runtime reads.
    Envvar,
    /// In mounts that NVIDIA's runtime reads.
    VolumeMounts,
    /// In annotations that the container runtime reads.
    CdiAnnotations,
    /// In a field of the request to the container runtime.
    CdiCri,
}

impl DeviceList {
    /// Whether the container runtime itself puts the devices in.
    pub fn is_cdi(self) -> bool {
        matches!(self, DeviceList::CdiAnnotations | DeviceList::CdiCri)
    }
}

/// What devices are called towards containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceIds {
    /// By identity.
    Uuid,
    /// By place in the driver's order.
    Index,
}

/// Where shares of several GPUs come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocationPolicy {
    /// From the least used GPU.
    Distributed,
    /// From the most used GPU.
    Packed,
}

/// Everything that decides what a node offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How MIG devices are named.
    pub mig_strategy: MigStrategy,
    /// How containers learn their devices; never empty.
    pub device_lists: BTreeSet<DeviceList>,
    /// What devices are called towards containers.
    pub device_ids: DeviceIds,
    /// Where shares come from.
    pub policy: AllocationPolicy,
    /// Whether device nodes stand in the answer to kubelet.
    pub pass_device_specs: bool,
    /// Where the device nodes are on the host.
    pub dev_root: String,
    /// Where the driver is on the host.
    pub driver_root: String,
    /// Prefix of CDI annotations.
    pub cdi_annotation_prefix: String,
    /// Where MPS daemons keep their files on the host.
    pub mps_root: String,
    /// GDRCopy for containers.
    pub gdrcopy: bool,
    /// GPUDirect Storage for containers.
    pub gds: bool,
    /// InfiniBand for containers.
    pub mofed: bool,
    /// IMEX channels for containers.
    pub imex_channels: Vec<u64>,
    /// Whether nothing is offered without them.
    pub imex_required: bool,
    /// How devices are shared.
    pub sharing: Sharing,
    /// Names for devices; empty unless they are honoured.
    pub names: Resources,
    /// Whether names and device choices in the configuration hold. NVIDIA's plugin reads and discards them.
    pub honour_choices: bool,
}

/// Why a configuration can not be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// A flag has no such value.
    #[error(transparent)]
    Flag(#[from] FlagError),
}

/// Where MPS daemons keep their files unless told otherwise.
const MPS_ROOT: &str = "/run/nvidia/mps";

impl Settings {
    /// Reads a configuration into which command line and environment were put already.
    ///
    /// What NVIDIA's plugin refuses and carve can do is not refused: MPS on MIG devices, MPS without a root.
    pub fn new(config: &DevicePluginConfig, honour_choices: bool) -> Result<Self, SettingsError> {
        match config.validate_flags() {
            Err(FlagError::MixedWithMps | FlagError::MpsRootMissing) => {
                // Both stand before other checks, which must not be lost.
                let mut rest = config.clone();
                rest.sharing.mps = None;
                rest.validate_flags()?;
            }
            other => other?,
        }
        let flags = &config.flags;
        let plugin = flags.plugin.clone().unwrap_or_default();
        let list = |text: &String| match text.as_str() {
            "volume-mounts" => DeviceList::VolumeMounts,
            "cdi-annotations" => DeviceList::CdiAnnotations,
            "cdi-cri" => DeviceList::CdiCri,
            _ => DeviceList::Envvar,
        };
        let mps_root = flags.mps_root.clone().filter(|root| !root.is_empty());
        Ok(Settings {
            mig_strategy: match flags.mig_strategy() {
                "single" => MigStrategy::Single,
                "mixed" => MigStrategy::Mixed,
                _ => MigStrategy::None,
            },
            device_lists: flags.device_list_strategy().iter().map(list).collect(),
            device_ids: if flags.device_id_strategy() == "index" {
                DeviceIds::Index
            } else {
                DeviceIds::Uuid
            },
            policy: match flags.shared_devices_allocation_policy() {
                "packed" => AllocationPolicy::Packed,
                _ => AllocationPolicy::Distributed,
            },
            pass_device_specs: plugin.pass_device_specs.unwrap_or(false),
            dev_root: flags.nvidia_dev_root().to_owned(),
            driver_root: flags.nvidia_driver_root().to_owned(),
            cdi_annotation_prefix: plugin.cdi_annotation_prefix.unwrap_or_else(|| "cdi.k8s.io/".to_owned()),
            mps_root: mps_root.unwrap_or_else(|| MPS_ROOT.to_owned()),
            gdrcopy: flags.gdrcopy_enabled.unwrap_or(false),
            gds: flags.gds_enabled.unwrap_or(false),
            mofed: flags.mofed_enabled.unwrap_or(false),
            imex_channels: config.imex.channel_ids.iter().filter_map(|id| u64::try_from(*id).ok()).collect(),
            imex_required: config.imex.required,
            sharing: config.sharing.clone(),
            names: if honour_choices { config.resources.clone() } else { Resources::default() },
            honour_choices,
        })
    }

    /// Whether anything is left to NVIDIA's runtime rather than to the container runtime itself.
    pub fn any_legacy_list(&self) -> bool {
        self.device_lists.iter().any(|list| !list.is_cdi())
    }

    /// Whether the container runtime puts devices in.
    pub fn any_cdi_list(&self) -> bool {
        self.device_lists.iter().any(|list| list.is_cdi())
    }
}
