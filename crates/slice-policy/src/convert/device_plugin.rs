//! What a configuration of the device plugin says of sharing, in the words of a policy.

use crate::sharing::GPU;
use crate::{Mechanism, SharedResource, Sharing};
use carve_formats::DevicePluginConfig;
use carve_formats::device_plugin::{Flags, ReplicatedDevices, SharingStrategy};
use std::collections::BTreeSet;

/// The most that a policy takes.
const MOST: u64 = 48;

/// How GPUs are shared by a configuration with a name; what a policy has no words for goes to a list.
pub(super) fn sharing(
    name: &str,
    config: &DevicePluginConfig,
    left_out: &mut BTreeSet<String>,
) -> Option<Sharing> {
    let mut leave = |what: &str, why: &str| {
        left_out.insert(format!("device-plugin config '{name}': {what}: {why}"));
    };
    if config.flags != Flags::default() {
        leave(
            "flags",
            "they are the agent's (mig.strategy and agent.* of the chart, or options of carve agent), not a policy's",
        );
    }
    if !config.resources.gpus.is_empty() || !config.resources.mig.is_empty() {
        leave("resources", "NVIDIA's plugin reads and ignores them, and a policy has nothing like it");
    }
    if !config.imex.channel_ids.is_empty() || config.imex.required {
        leave("imex", "channels are the agent's, not a policy's");
    }
    if config.sharing.mps.is_some() && config.sharing.time_slicing.is_some() {
        leave("sharing.timeSlicing", "sharing.mps stands beside it and wins, as with NVIDIA's plugin");
    }
    let active = config.sharing.active()?;
    let mechanism = if config.sharing.strategy() == SharingStrategy::Mps {
        Mechanism::Mps
    } else {
        Mechanism::TimeSlicing
    };
    let mut sharing = Sharing {
        mechanism,
        replicas: 1,
        renamed: active.rename_by_default,
        one_share_each: active.fail_requests_greater_than_one,
        resources: Vec::new(),
    };
    for resource in &active.resources {
        let title = resource.name.as_str();
        if resource.rename.is_some() {
            leave(
                &format!("rename of {title}"),
                "NVIDIA's plugin ignores it; renamed: true calls all shares .shared",
            );
        }
        if resource.devices != ReplicatedDevices::All {
            leave(
                &format!("devices of {title}"),
                "NVIDIA's plugin ignores it and shares all; a policy does, too",
            );
        }
        let replicas = u32::try_from(resource.replicas.min(MOST)).unwrap_or(1);
        if resource.replicas > MOST {
            leave(
                &format!("replicas of {title}"),
                &format!(
                    "{} are more than the {MOST} clients that MPS serves and a policy takes; {MOST} are offered",
                    resource.replicas
                ),
            );
        }
        if title == GPU {
            sharing.replicas = replicas;
        } else if title.starts_with("nvidia.com/mig-") {
            sharing.resources.push(SharedResource { name: title.to_owned(), replicas });
        } else {
            leave(title, "no GPU of any node is offered under this name");
        }
    }
    (sharing.replicas > 1 || !sharing.resources.is_empty()).then_some(sharing)
}
