//! Devices offered several times over: time-slicing and MPS.

use super::{ReplicatedDevices, ResourceName};
use crate::diagnostic::At;

/// Both ways of sharing. A node has one: MPS where it is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sharing {
    /// Time-slicing.
    pub time_slicing: Option<ReplicatedResources>,
    /// The multi-process service.
    pub mps: Option<ReplicatedResources>,
}

/// The way of sharing that is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SharingStrategy {
    /// Nothing is shared.
    None,
    /// Time-slicing.
    TimeSlicing,
    /// The multi-process service.
    Mps,
}

/// What is offered how many times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicatedResources {
    /// Whether `.shared` is put behind each name.
    pub rename_by_default: bool,
    /// Whether a pod may ask for more than one replica. See [`Sharing::fail_requests_greater_than_one`].
    pub fail_requests_greater_than_one: Option<bool>,
    /// Never empty.
    pub resources: Vec<ReplicatedResource>,
}

/// One resource and its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicatedResource {
    /// The resource, always with `nvidia.com/` in front.
    pub name: ResourceName,
    /// Another name for its replicas, as written. Ignored by NVIDIA's plugin.
    pub rename: Option<ResourceName>,
    /// Which devices. Ignored by NVIDIA's plugin, which takes all.
    pub devices: ReplicatedDevices,
    /// How often each device is offered; at least 2.
    pub replicas: u64,
    /// Where it stands.
    pub at: At,
}

impl Sharing {
    /// The way of sharing that is in force: MPS beats time-slicing without a word.
    pub fn strategy(&self) -> SharingStrategy {
        match (&self.mps, &self.time_slicing) {
            (Some(_), _) => SharingStrategy::Mps,
            (None, Some(_)) => SharingStrategy::TimeSlicing,
            (None, None) => SharingStrategy::None,
        }
    }

    /// The resources of the strategy that is in force.
    pub fn active(&self) -> Option<&ReplicatedResources> {
        self.mps.as_ref().or(self.time_slicing.as_ref())
    }

    /// Whether a request for more than one replica fails. Unset means no for time-slicing and yes for MPS.
    pub fn fail_requests_greater_than_one(&self) -> bool {
        let default = self.strategy() == SharingStrategy::Mps;
        self.active().and_then(|active| active.fail_requests_greater_than_one).unwrap_or(default)
    }
}

impl ReplicatedResources {
    /// The name under which NVIDIA's plugin offers a resource of this list.
    pub fn offered_name(&self, resource: &ReplicatedResource) -> ResourceName {
        if self.rename_by_default { resource.name.shared() } else { resource.name.clone() }
    }
}
