//! What a publisher remembers of its slices: what it sent, what the API server made of that, and since when taints are there.

use k8s_openapi::api::resource::v1::{DeviceTaint, ResourceSlice, ResourceSliceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeMap;

/// A slice as it was last written or seen to be right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kept {
    /// What was sent.
    pub(crate) sent: ResourceSliceSpec,
    /// What the API server keeps.
    pub(crate) spec: ResourceSliceSpec,
    /// Its resource version.
    pub(crate) version: u64,
}

/// Which taint of which device: device, key, value, effect.
type TaintKey = (String, String, Option<String>, String);

/// All slices of a publisher.
#[derive(Debug, Default)]
pub(crate) struct KeptSlices {
    /// By name.
    pub(crate) slices: BTreeMap<String, Kept>,
    /// The newest generation that was written.
    pub(crate) generation: i64,
    /// The newest resource version of a write of ours, also of slices that were deleted since.
    newest: u64,
    /// Since when taints are there. Kubelet deletes slices, and a taint that comes back with them is no new one.
    times: BTreeMap<TaintKey, Time>,
}

impl KeptSlices {
    /// Remembers what was sent and what the API server made of it.
    pub(crate) fn note(&mut self, sent: &ResourceSliceSpec, there: &ResourceSlice) {
        let Some((name, version)) = version_of(there) else { return };
        self.newest = self.newest.max(version);
        self.slices.insert(name, Kept { sent: sent.clone(), spec: there.spec.clone(), version });
    }

    /// Whether a slice says what is wanted: because it is that, or because it is what became of that when it was last sent.
    pub(crate) fn says_the_same(
        &self,
        name: &str,
        wanted: &ResourceSliceSpec,
        there: &ResourceSliceSpec,
    ) -> bool {
        is_same(wanted, there)
            || self
                .slices
                .get(name)
                .is_some_and(|kept| is_same(&kept.sent, wanted) && is_same(&kept.spec, there))
    }

    /// Remembers since when the taints of slices are there.
    pub(crate) fn learn_times(&mut self, slices: &[ResourceSlice]) {
        for device in slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten()) {
            for taint in device.taints.iter().flatten() {
                if let Some(time) = &taint.time_added {
                    self.times.insert(key(&device.name, taint), time.clone());
                }
            }
        }
    }

    /// Says since when taints are there that were there before, and forgets those of its devices that are gone.
    pub(crate) fn keep_times(&mut self, spec: &mut ResourceSliceSpec) {
        for device in spec.devices.iter_mut().flatten() {
            let known = &mut self.times;
            for taint in device.taints.iter_mut().flatten() {
                taint.time_added = known.get(&key(&device.name, taint)).cloned();
            }
            let wanted: Vec<TaintKey> =
                device.taints.iter().flatten().map(|taint| key(&device.name, taint)).collect();
            known.retain(|known, _| known.0 != device.name || wanted.contains(known));
        }
    }

    /// Whether a write that was seen is somebody else's. Ours, and those that ours came after, are older than what is remembered.
    pub(crate) fn is_foreign_write(&self, slice: &ResourceSlice) -> bool {
        match version_of(slice) {
            Some((name, version)) => {
                version > self.slices.get(&name).map_or(self.newest, |kept| kept.version)
            }
            None => true,
        }
    }

    /// Whether a deletion that was seen is of a slice that should be there.
    pub(crate) fn is_foreign_delete(&self, slice: &ResourceSlice) -> bool {
        match version_of(slice) {
            Some((name, version)) => self.slices.get(&name).is_some_and(|kept| version > kept.version),
            None => true,
        }
    }

    /// Whether a list of everything, by name with resource versions, shows that somebody else changed something.
    pub(crate) fn is_foreign_list(&self, listed: &BTreeMap<String, u64>) -> bool {
        let missing = self.slices.keys().any(|name| !listed.contains_key(name));
        let newer = |(name, seen): (&String, &u64)| {
            *seen > self.slices.get(name).map_or(self.newest, |kept| kept.version)
        };
        missing || listed.iter().any(newer)
    }
}

/// Name and resource version of a slice.
pub(crate) fn version_of(slice: &ResourceSlice) -> Option<(String, u64)> {
    let version = slice.metadata.resource_version.as_ref()?.parse().ok()?;
    Some((slice.metadata.name.clone()?, version))
}

/// Whether two say the same, whatever their generation.
fn is_same(one: &ResourceSliceSpec, other: &ResourceSliceSpec) -> bool {
    let without = |spec: &ResourceSliceSpec| {
        let mut spec = spec.clone();
        spec.pool.generation = 0;
        spec.pool.resource_slice_count = 0;
        for taint in spec.devices.iter_mut().flatten().flat_map(|device| device.taints.iter_mut().flatten()) {
            taint.time_added = None;
        }
        spec
    };
    without(one) == without(other)
}

fn key(device: &str, taint: &DeviceTaint) -> TaintKey {
    (device.to_owned(), taint.key.clone(), taint.value.clone(), taint.effect.clone())
}
