//! Which part is shared how: the sharing rules of a configuration, put on the parts of a node.

use crate::offer::{MOST_REPLICAS, Named, OfferError};
use crate::{Mechanism, PartId, Settings, Share};
use carve_formats::device_plugin::{
    DeviceRef, DeviceRefKind, ReplicatedDevices, ReplicatedResource, ReplicatedResources, ResourceName,
};
use std::collections::BTreeMap;

/// What sharing makes of a part.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) share: Share,
    pub(crate) name: ResourceName,
    pub(crate) one_share_each: bool,
}

/// Every part that a rule shares. Parts that are not in the answer are exclusive.
pub(crate) fn shares(
    named: &[Named<'_>],
    settings: &Settings,
    remarks: &mut Vec<String>,
) -> Result<BTreeMap<PartId, Shared>, OfferError> {
    let sharing = &settings.sharing;
    let time_slicing = sharing.time_slicing.as_ref().map(|rules| (Mechanism::TimeSlicing, rules));
    let mps = sharing.mps.as_ref().map(|rules| (Mechanism::Mps, rules));
    let mut shared: BTreeMap<PartId, (Shared, String)> = BTreeMap::new();
    let lists: Vec<_> = if settings.honour_choices {
        [time_slicing, mps].into_iter().flatten().collect()
    } else {
        if time_slicing.is_some() && mps.is_some() {
            remarks.push(
                "sharing.mps and sharing.timeSlicing are both given: MPS holds and time-slicing is ignored"
                    .to_owned(),
            );
        }
        mps.or(time_slicing).into_iter().collect()
    };
    for (mechanism, rules) in lists {
        for (position, rule) in rules.resources.iter().enumerate() {
            let title = match mechanism {
                Mechanism::Mps => format!("sharing.mps.resources[{position}]"),
                _ => format!("sharing.timeSlicing.resources[{position}]"),
            };
            if rule.replicas > MOST_REPLICAS {
                return Err(OfferError::TooManyReplicas { rule: title, replicas: rule.replicas });
            }
            let chosen = chosen(named, rule, settings.honour_choices, &title)?;
            if chosen.is_empty() {
                remarks.push(format!("{title}: this node has no {} now", rule.name));
            } else if let (ReplicatedDevices::Count(count), true) = (&rule.devices, settings.honour_choices)
                && u64::try_from(chosen.len()).is_ok_and(|there| there < *count)
            {
                remarks.push(format!(
                    "{title}: devices: {count} are to be shared, and this node has {} {} now; all of them are",
                    chosen.len(),
                    rule.name
                ));
            }
            for part in chosen {
                let this = Shared {
                    share: Share { mechanism, replicas: rule.replicas },
                    name: offered_name(rules, rule, settings.honour_choices),
                    one_share_each: rules
                        .fail_requests_greater_than_one
                        .unwrap_or(mechanism == Mechanism::Mps),
                };
                let before = shared.insert(part.clone(), (this, title.clone()));
                // NVIDIA's plugin lets the later of two rules win; where choices count, that is a mistake.
                if let (Some((_, first)), true) = (before, settings.honour_choices) {
                    return Err(OfferError::SharedTwice { part, first, second: title });
                }
            }
        }
    }
    Ok(shared.into_iter().map(|(part, (shared, _))| (part, shared)).collect())
}

fn offered_name(rules: &ReplicatedResources, rule: &ReplicatedResource, honour: bool) -> ResourceName {
    match (&rule.rename, honour) {
        (Some(rename), true) => rename.clone(),
        _ => rules.offered_name(rule),
    }
}

/// Parts a rule is for.
fn chosen(
    named: &[Named<'_>],
    rule: &ReplicatedResource,
    honour: bool,
    title: &str,
) -> Result<Vec<PartId>, OfferError> {
    let mut candidates = named.iter().filter(|part| part.name == rule.name);
    match (&rule.devices, honour) {
        (ReplicatedDevices::Count(count), true) => {
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            Ok(candidates.take(count).map(Named::part).collect())
        }
        (ReplicatedDevices::List(list), true) => list
            .iter()
            .map(|device| {
                candidates.clone().find(|part| is_meant(device, part)).map(Named::part).ok_or_else(|| {
                    OfferError::NoSuchDevice {
                        rule: title.to_owned(),
                        device: device.to_string(),
                        resource: rule.name.clone(),
                    }
                })
            })
            .collect(),
        _ => Ok(candidates.by_ref().map(Named::part).collect()),
    }
}

fn is_meant(device: &DeviceRef, part: &Named<'_>) -> bool {
    match device.kind() {
        DeviceRefKind::GpuIndex | DeviceRefKind::MigIndex => device.as_str() == part.index(),
        DeviceRefKind::GpuUuid => device.as_str() == part.part().as_str(),
        DeviceRefKind::MigUuid => {
            let old = part.mig.map(|mig| {
                let (gpu, mig) = (&part.gpu.gpu.uuid, &mig.device);
                format!("MIG-{gpu}/{}/{}", mig.gpu_instance, mig.compute_instance)
            });
            device.as_str() == part.part().as_str() || Some(device.as_str()) == old.as_deref()
        }
    }
}
