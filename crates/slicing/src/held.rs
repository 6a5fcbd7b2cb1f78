//! What pods hold already, and which devices must therefore wait although kubelet thinks them free.
//!
//! Kubelet counts names. When a GPU changes its form (whole to shares, shares to whole, one resource name to another) the
//! new names look free while pods still hold the GPU under the old ones. Such devices are offered as unhealthy until the
//! old holders are gone.

use crate::{Device, DeviceId, Offer, PartId};
use carve_formats::device_plugin::ResourceName;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A pod that holds a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of its container.
    pub container: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.pod)
    }
}

/// One device in a container, as kubelet tells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// The resource under which it was asked for.
    pub resource: String,
    /// The device, as it was called then.
    pub device: String,
    /// Who holds it.
    pub holder: Holder,
}

impl Held {
    /// The part the device is, or is a share of.
    pub fn part(&self) -> PartId {
        PartId::new(self.device.split("::").next().unwrap_or(&self.device))
    }
}

/// Devices that must wait, with the pod each waits for.
pub fn withheld(offer: &Offer, held: &[Held]) -> BTreeMap<(ResourceName, DeviceId), Holder> {
    let names: BTreeSet<&str> = offer
        .resources
        .values()
        .flat_map(|resource| &resource.devices)
        .map(|device| device.id.as_str())
        .collect();
    let mut waiting = BTreeMap::new();
    for (name, resource) in &offer.resources {
        for device in &resource.devices {
            // What a pod holds under this very name is no question of giving it away, and not sick.
            if held.iter().any(|held| held.device == device.id.as_str() && held.resource == name.as_str()) {
                continue;
            }
            if let Some(held) = held.iter().find(|held| stands_in_the_way(device, name, held, &names)) {
                waiting.insert((name.clone(), device.id.clone()), held.holder.clone());
            }
        }
    }
    waiting
}

/// Whether a held device keeps an offered one from being given away.
fn stands_in_the_way(device: &Device, resource: &ResourceName, held: &Held, names: &BTreeSet<&str>) -> bool {
    if held.device == device.id.as_str() {
        // Under the same resource kubelet knows by itself.
        return held.resource != resource.as_str();
    }
    // Another form of the same part: whole where there are shares now, or the other way round, or a share that is gone.
    held.part() == device.part && !names.contains(held.device.as_str())
}
