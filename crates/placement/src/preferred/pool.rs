//! The devices of a resource, and what a question about them means.

use super::{PreferredError, Request};
use carve_gpu_model::GpuIndex;
use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// The name under which kubelet knows a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(String);

/// A whole GPU or a MIG device, by the name the driver gives it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(String);

macro_rules! names {
    ($($name:ident),*) => {$(
        impl $name {
            /// From the name.
            pub fn new(name: impl Into<String>) -> Self {
                $name(name.into())
            }

            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
names!(DeviceId, PartId);

impl Borrow<str> for DeviceId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<DeviceId> for String {
    fn from(id: DeviceId) -> String {
        id.0
    }
}

/// A device that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What kubelet calls it.
    pub id: DeviceId,
    /// What it is, or is a share of.
    pub part: PartId,
    /// The GPU it is on.
    pub gpu: GpuIndex,
    /// NUMA node, where the machine has several.
    pub numa: Option<u32>,
}

/// A part and how many devices it makes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) gpu: GpuIndex,
    pub(super) total: usize,
}

/// All devices of a resource, free or not. Made once, asked often.
#[derive(Debug, Clone)]
pub struct Pool {
    /// By GPU; devices of one GPU in the order they were given. This order breaks every tie.
    devices: Vec<Candidate>,
    /// Only looked up, never walked: the order of a hash map is not to be seen in an answer.
    places: HashMap<DeviceId, usize>,
    parts: Vec<Part>,
    /// For each device, its part.
    part_of: Vec<usize>,
}

impl Pool {
    /// From the devices of a resource. Of two with the same name the first counts.
    pub fn new(devices: impl IntoIterator<Item = Candidate>) -> Self {
        let mut given: Vec<Candidate> = devices.into_iter().collect();
        given.sort_by_key(|device| device.gpu);
        let mut pool = Pool {
            devices: Vec::with_capacity(given.len()),
            places: HashMap::with_capacity(given.len()),
            parts: Vec::new(),
            part_of: Vec::with_capacity(given.len()),
        };
        let mut numbers: HashMap<PartId, usize> = HashMap::new();
        for device in given {
            if pool.places.contains_key(&device.id) {
                continue;
            }
            let next = pool.parts.len();
            let part = *numbers.entry(device.part.clone()).or_insert(next);
            if part == next {
                pool.parts.push(Part { gpu: device.gpu, total: 0 });
            }
            pool.parts[part].total += 1;
            pool.part_of.push(part);
            pool.places.insert(device.id.clone(), pool.devices.len());
            pool.devices.push(device);
        }
        pool
    }

    /// The devices, by GPU.
    pub fn devices(&self) -> &[Candidate] {
        &self.devices
    }

    pub(super) fn device(&self, place: usize) -> &Candidate {
        &self.devices[place]
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(super) fn part_of(&self, place: usize) -> usize {
        self.part_of[place]
    }

    fn place(&self, id: &DeviceId) -> Option<usize> {
        self.places.get(id).copied()
    }
}

/// A question that can be answered. Devices are places in the pool.
#[derive(Debug)]
pub(super) struct Asked {
    /// The names that must be in the answer, each once.
    required_names: Vec<DeviceId>,
    /// Those of them that the pool has.
    pub(super) required: Vec<usize>,
    /// What else can be chosen, in the pool's order.
    pub(super) free: Vec<usize>,
    /// How many of the free devices to pick. Never more than there are.
    pub(super) needed: usize,
    /// Names of free devices that the pool does not have.
    pub(super) unknown: usize,
}

impl Asked {
    pub(super) fn new(request: &Request<'_>) -> Result<Self, PreferredError> {
        let Request { pool, size, .. } = *request;
        let mut seen = BTreeSet::new();
        let required_names: Vec<DeviceId> =
            request.must_include.iter().filter(|id| seen.insert(*id)).cloned().collect();
        let Some(needed) = size.checked_sub(required_names.len()) else {
            return Err(PreferredError::TooManyRequired { size, required: required_names.len() });
        };
        let required: Vec<usize> = required_names.iter().filter_map(|id| pool.place(id)).collect();
        let mut is_free = vec![false; pool.devices.len()];
        let mut unknown = 0;
        for id in request.available {
            match pool.place(id) {
                Some(place) => is_free[place] = true,
                None if seen.contains(id) => {}
                None => unknown += 1,
            }
        }
        for place in &required {
            is_free[*place] = false;
        }
        let free: Vec<usize> = (0..is_free.len()).filter(|place| is_free[*place]).collect();
        if free.len() < needed {
            return Err(PreferredError::TooFew { size, usable: free.len() + required_names.len(), unknown });
        }
        Ok(Asked { required_names, required, free, needed, unknown })
    }

    /// Whether no two of the devices in question are on one GPU.
    pub(super) fn one_device_per_gpu(&self, pool: &Pool) -> bool {
        let mut seen = BTreeSet::new();
        self.required.iter().chain(&self.free).all(|place| seen.insert(pool.device(*place).gpu))
    }

    /// The whole answer by name.
    pub(super) fn answer(self, pool: &Pool, picks: &[usize]) -> Vec<DeviceId> {
        let mut answer = self.required_names;
        answer.extend(picks.iter().map(|place| pool.device(*place).id.clone()));
        answer
    }
}
