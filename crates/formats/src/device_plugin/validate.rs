//! What the plugin refuses after the file was read: values of flags, and flags that exclude each other.

use super::{DevicePluginConfig, SharingStrategy};
use crate::diagnostic::{Finding, Place, Report};
use crate::suggestion::did_you_mean;
use thiserror::Error;

/// A flag the plugin does not start with. The texts are NVIDIA's own.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlagError {
    /// Not one of the four strategies.
    #[error("invalid --device-list-strategy option: invalid strategy: {0}")]
    DeviceListStrategy(String),
    /// Neither `uuid` nor `index`.
    #[error("invalid --device-id-strategy option: {0}")]
    DeviceIdStrategy(String),
    /// Neither `distributed` nor `packed`.
    #[error("invalid --shared-devices-allocation-policy option: {0}")]
    AllocationPolicy(String),
    /// MPS does not work on MIG devices.
    #[error("using --mig-strategy=mixed is not supported with MPS")]
    MixedWithMps,
    /// MPS without a directory for its daemons.
    #[error("using MPS requires --mps-root to be specified")]
    MpsRootMissing,
    /// Not one of the ways to find devices.
    #[error("invalid --device-discovery-strategy option {0}")]
    DeviceDiscoveryStrategy(String),
    /// Not one of the MIG strategies.
    #[error("unknown MIG strategy: {0}")]
    MigStrategy(String),
    /// Any other channel than 0.
    #[error("invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found [{0}]")]
    ImexChannels(String),
}

const LIST_STRATEGIES: [&str; 4] = ["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"];
const ID_STRATEGIES: [&str; 2] = ["uuid", "index"];
const POLICIES: [&str; 2] = ["distributed", "packed"];
const DISCOVERY: [&str; 3] = ["auto", "nvml", "tegra"];
const MIG_STRATEGIES: [&str; 3] = ["none", "single", "mixed"];

impl DevicePluginConfig {
    /// Checks the flags in the order of NVIDIA's plugin and gives its first refusal.
    ///
    /// Put what command line and environment say into [`flags`](Self::flags) first: they win over the file.
    pub fn validate_flags(&self) -> Result<(), FlagError> {
        let flags = &self.flags;
        if let Some(unknown) =
            flags.device_list_strategy().into_iter().find(|s| !LIST_STRATEGIES.contains(&s.as_str()))
        {
            return Err(FlagError::DeviceListStrategy(unknown));
        }
        let check = |value: &str, known: &[&str], error: fn(String) -> FlagError| {
            if known.contains(&value) { Ok(()) } else { Err(error(value.to_owned())) }
        };
        check(flags.device_id_strategy(), &ID_STRATEGIES, FlagError::DeviceIdStrategy)?;
        check(flags.shared_devices_allocation_policy(), &POLICIES, FlagError::AllocationPolicy)?;
        if self.sharing.strategy() == SharingStrategy::Mps {
            if flags.mig_strategy() == "mixed" {
                return Err(FlagError::MixedWithMps);
            }
            if flags.mps_root.as_deref().unwrap_or_default().is_empty() {
                return Err(FlagError::MpsRootMissing);
            }
        }
        check(flags.device_discovery_strategy(), &DISCOVERY, FlagError::DeviceDiscoveryStrategy)?;
        check(flags.mig_strategy(), &MIG_STRATEGIES, FlagError::MigStrategy)?;
        match self.imex.channel_ids.as_slice() {
            [] | [0] => Ok(()),
            ids => {
                let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
                Err(FlagError::ImexChannels(ids.join(" ")))
            }
        }
    }
}

/// Turns a refusal into a finding about the file.
pub(super) fn report(error: &FlagError, root: &Place<'_>, report: &mut Report) {
    let one_of = |name: &str, value: &str, known: &[&str]| {
        let meant = did_you_mean(value, known.iter().copied());
        let hint = meant.unwrap_or_else(|| format!("one of: {}", known.join(", ")));
        (format!("{name} '{value}' is not known"), hint)
    };
    let (path, (message, hint)) = match error {
        FlagError::DeviceListStrategy(value) if value.contains(',') => {
            let list = value.split(',').map(str::trim).collect::<Vec<_>>().join(", ");
            let message = format!(
                "device list strategy '{value}' is not known; only the command line splits at commas"
            );
            ("flags.plugin.deviceListStrategy", (message, format!("write a list: [{list}]")))
        }
        FlagError::DeviceListStrategy(value) => {
            ("flags.plugin.deviceListStrategy", one_of("device list strategy", value, &LIST_STRATEGIES))
        }
        FlagError::DeviceIdStrategy(value) => {
            ("flags.plugin.deviceIDStrategy", one_of("device id strategy", value, &ID_STRATEGIES))
        }
        FlagError::AllocationPolicy(value) => {
            ("flags.plugin.sharedDevicesAllocationPolicy", one_of("allocation policy", value, &POLICIES))
        }
        FlagError::MixedWithMps => (
            "sharing.mps",
            (
                "MPS does not go together with migStrategy 'mixed'".to_owned(),
                "share MIG devices with time-slicing, or set migStrategy to 'none'".to_owned(),
            ),
        ),
        FlagError::MpsRootMissing => (
            "flags.mpsRoot",
            (
                "MPS needs a directory for its daemons, which this file does not name".to_owned(),
                "fine if the plugin gets MPS_ROOT or --mps-root otherwise, as with the Helm chart".to_owned(),
            ),
        ),
        FlagError::DeviceDiscoveryStrategy(value) => {
            ("flags.deviceDiscoveryStrategy", one_of("device discovery strategy", value, &DISCOVERY))
        }
        FlagError::MigStrategy(value) => {
            ("flags.migStrategy", one_of("MIG strategy", value, &MIG_STRATEGIES))
        }
        FlagError::ImexChannels(ids) => (
            "imex.channelIDs",
            (format!("the only IMEX channel is 0, not [{ids}]"), "write [] or [0]".to_owned()),
        ),
    };
    let place = Place { node: root.node, path: path.to_owned() };
    // Only the environment of the plugin can tell whether this one is an error.
    let finding = match error {
        FlagError::MpsRootMissing => Finding::warning(&place, message),
        _ => Finding::error(&place, message),
    };
    let at = super::doubts::position_of(root.node, path);
    finding.at(at.unwrap_or(root.node.at)).hint(hint).upstream(error.to_string()).report(report);
}
