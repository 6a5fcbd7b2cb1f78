//! What the API server did not keep of a slice, and which feature gate is the reason.

use k8s_openapi::api::resource::v1::{Device, ResourceSliceSpec};
use std::collections::BTreeMap;
use std::fmt;

/// A field that was sent and not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DroppedField {
    /// What the devices of a GPU take from.
    SharedCounters,
    /// What a device takes.
    ConsumesCounters,
    /// That several claims may hold a device.
    AllowMultipleAllocations,
    /// How much of a device a claim may ask for.
    RequestPolicy,
    /// What keeps claims away from a device.
    Taints,
    /// Something that no gate of ours explains: an admission policy or webhook changes slices.
    Other,
}

impl DroppedField {
    /// Whether devices that exclude each other would be given away at once without it.
    pub fn keeps_apart(self) -> bool {
        matches!(self, DroppedField::SharedCounters | DroppedField::ConsumesCounters)
    }

    fn path(self) -> &'static str {
        match self {
            DroppedField::SharedCounters => "spec.sharedCounters",
            DroppedField::ConsumesCounters => "spec.devices[].consumesCounters",
            DroppedField::AllowMultipleAllocations => "spec.devices[].allowMultipleAllocations",
            DroppedField::RequestPolicy => "spec.devices[].capacity[].requestPolicy",
            DroppedField::Taints => "spec.devices[].taints",
            DroppedField::Other => "spec",
        }
    }

    /// The feature gate that is off.
    pub fn gate(self) -> Option<&'static str> {
        match self {
            DroppedField::SharedCounters | DroppedField::ConsumesCounters => Some("DRAPartitionableDevices"),
            DroppedField::AllowMultipleAllocations | DroppedField::RequestPolicy => {
                Some("DRAConsumableCapacity")
            }
            DroppedField::Taints => Some("DRADeviceTaints"),
            DroppedField::Other => None,
        }
    }

    fn consequence(self) -> &'static str {
        match self {
            DroppedField::SharedCounters | DroppedField::ConsumesCounters => {
                "one GPU would be given to several claims that exclude each other, so nothing is offered"
            }
            DroppedField::AllowMultipleAllocations => {
                "the first claim gets a device whole that was to be shared"
            }
            DroppedField::RequestPolicy => {
                "a claim that asks for no amount gets all of it, and no amount is rounded"
            }
            DroppedField::Taints => "devices are given away that are known to be unwell",
            DroppedField::Other => "what is offered is not what was laid out",
        }
    }
}

/// What was not kept, once for all slices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The field.
    pub field: DroppedField,
    /// In how many places.
    pub places: usize,
    /// One of them: the name of a slice or of a device.
    pub example: String,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dropped { field, places, example } = self;
        write!(f, "the API server does not keep {} of ResourceSlices ({example}", field.path())?;
        if *places > 1 {
            write!(f, " and {} more", places - 1)?;
        }
        write!(f, "): {}; ", field.consequence())?;
        match field.gate() {
            Some(gate) => write!(
                f,
                "switch on the feature gate {gate} in kube-apiserver and kube-scheduler, or upgrade to Kubernetes 1.36"
            ),
            None => f.write_str("look for admission policies and webhooks that change ResourceSlices"),
        }
    }
}

/// Compares what was sent with what was kept, by slice.
pub(crate) fn dropped<'a>(
    slices: impl IntoIterator<Item = (&'a String, &'a ResourceSliceSpec, &'a ResourceSliceSpec)>,
) -> Vec<Dropped> {
    let mut found: BTreeMap<DroppedField, Vec<String>> = BTreeMap::new();
    for (name, sent, kept) in slices {
        let mut tell = |field, place: &str| found.entry(field).or_default().push(place.to_owned());
        let before = lost_by_gates(sent, kept, name, &mut tell);
        if before != *kept {
            tell(DroppedField::Other, name);
        }
    }
    let told = |(field, places): (DroppedField, Vec<String>)| {
        Some(Dropped { field, places: places.len(), example: places.into_iter().next()? })
    };
    found.into_iter().filter_map(told).collect()
}

/// What was sent, less what gates explain.
fn lost_by_gates(
    sent: &ResourceSliceSpec,
    kept: &ResourceSliceSpec,
    name: &str,
    tell: &mut impl FnMut(DroppedField, &str),
) -> ResourceSliceSpec {
    let mut rest = sent.clone();
    // A new generation alone is no loss.
    rest.pool = kept.pool.clone();
    if sent.shared_counters.is_some() && kept.shared_counters.is_none() {
        tell(DroppedField::SharedCounters, name);
        rest.shared_counters = None;
    }
    for device in rest.devices.iter_mut().flatten() {
        let Some(kept) = kept.devices.iter().flatten().find(|kept| kept.name == device.name) else {
            continue;
        };
        lost_of_device(device, kept, tell);
    }
    rest
}

fn lost_of_device(device: &mut Device, kept: &Device, tell: &mut impl FnMut(DroppedField, &str)) {
    let name = device.name.clone();
    if device.consumes_counters.is_some() && kept.consumes_counters.is_none() {
        tell(DroppedField::ConsumesCounters, &name);
        device.consumes_counters = None;
    }
    if device.allow_multiple_allocations.is_some() && kept.allow_multiple_allocations.is_none() {
        tell(DroppedField::AllowMultipleAllocations, &name);
        device.allow_multiple_allocations = None;
    }
    if device.taints.is_some() && kept.taints.is_none() {
        tell(DroppedField::Taints, &name);
        device.taints = None;
    }
    let mut policies = false;
    for (name, capacity) in device.capacity.iter_mut().flatten() {
        let kept = kept.capacity.as_ref().and_then(|kept| kept.get(name));
        if capacity.request_policy.is_some() && kept.is_some_and(|kept| kept.request_policy.is_none()) {
            policies = true;
            capacity.request_policy = None;
        }
    }
    if policies {
        tell(DroppedField::RequestPolicy, &name);
    }
    // The time a taint was added is the API server's to fill in.
    for (ours, theirs) in device.taints.iter_mut().flatten().zip(kept.taints.iter().flatten()) {
        ours.time_added = ours.time_added.take().or_else(|| theirs.time_added.clone());
    }
}
