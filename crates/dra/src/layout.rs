//! Which devices a node has: for each GPU one for each way it can be used.

use crate::counters::{self, Counters};
use crate::order::placements_in_order;
use crate::{
    Attribute, Capacity, Consumption, CounterSet, Device, DeviceName, MigPlace, Quantity, Sharing, Taint,
};
use carve_gpu_host::{Driver, Gpu};
use carve_gpu_model::{Bytes, Engines, GpuProfile, Mebibytes, Product, ProfileId, ProfileTable};
use std::collections::{BTreeMap, BTreeSet};

/// What is known about a GPU.
#[derive(Debug, Clone)]
pub struct GpuFacts {
    /// The GPU.
    pub gpu: Gpu,
    /// Memory the driver keeps for itself.
    pub reserved: Bytes,
    /// What it can be cut into, where it can.
    pub table: Option<ProfileTable>,
    /// The PCIe root complex it hangs on.
    pub pcie_root: Option<String>,
    /// What keeps claims away from all of its devices.
    pub taints: Vec<Taint>,
    /// What keeps claims away from an instance, by profile and first memory slot.
    pub mig_taints: BTreeMap<(ProfileId, u8), Vec<Taint>>,
}

/// The ways in which GPUs may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ways {
    /// Whole, by one claim.
    pub exclusive: bool,
    /// Whole, by several claims.
    pub shared: BTreeSet<Sharing>,
    /// Cut by MIG.
    pub mig: bool,
    /// An instance, by several claims.
    pub shared_mig: BTreeSet<Sharing>,
    /// How many claims take turns on a GPU.
    pub turns: u64,
}

impl Default for Ways {
    fn default() -> Self {
        Ways {
            exclusive: true,
            shared: BTreeSet::from(Sharing::ALL),
            mig: true,
            shared_mig: BTreeSet::from([Sharing::Limiter]),
            turns: 4,
        }
    }
}

/// What a node offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// What the devices take from; none for a GPU that is used in one way only.
    pub sets: Vec<CounterSet>,
    /// The devices of each GPU, best first, none for a GPU that can not be used in any of the ways; or, once packed, groups in the order of
    /// the whole node.
    pub gpus: Vec<Vec<Device>>,
}

/// Clients that one MPS server takes.
const MPS_CLIENTS: u64 = 48;

/// Lays out the devices of a node.
///
/// A GPU of which only one device is left by the ways has no counters: there is nothing to keep apart.
pub fn layout(driver: &Driver, gpus: &[GpuFacts], ways: &Ways) -> Layout {
    let mut layout = Layout::default();
    for facts in gpus {
        let table = facts.table.as_ref().filter(|_| ways.mig || !ways.shared_mig.is_empty());
        let set = format!("gpu-{}-counters", facts.gpu.minor);
        let of_gpu = OfGpu { facts, table, set: set.clone(), attributes: attributes(driver, facts) };
        let mut devices = of_gpu.devices(ways);
        match &mut devices[..] {
            [] => {}
            [only] => only.consumes = None,
            _ => layout.sets.push(CounterSet { name: set, counters: counters::all(table) }),
        }
        layout.gpus.push(devices);
    }
    layout
}

struct OfGpu<'a> {
    facts: &'a GpuFacts,
    table: Option<&'a ProfileTable>,
    set: String,
    /// What is the same for all devices of the GPU.
    attributes: BTreeMap<&'static str, Attribute>,
}

impl OfGpu<'_> {
    fn devices(&self, ways: &Ways) -> Vec<Device> {
        let mut devices: Vec<Device> =
            ways.shared.iter().map(|sharing| self.whole(Some(*sharing), ways)).collect();
        let profiles = self.table.map(ProfileTable::profiles).unwrap_or_default();
        let ways_of_mig =
            ways.mig.then_some(None).into_iter().chain(ways.shared_mig.iter().copied().map(Some));
        for sharing in ways_of_mig {
            devices.extend(profiles.iter().flat_map(|profile| self.instances(profile, sharing, ways)));
        }
        if ways.exclusive {
            devices.push(self.whole(None, ways));
        }
        devices
    }

    fn whole(&self, sharing: Option<Sharing>, ways: &Ways) -> Device {
        let gpu = &self.facts.gpu;
        let memory = match sharing {
            Some(_) => Bytes(gpu.memory.0.saturating_sub(self.facts.reserved.0)).whole_mebibytes(),
            None => gpu.memory.whole_mebibytes(),
        };
        let product = Product::by_pci_id(gpu.pci_id);
        let multiprocessors = product.and_then(Product::multiprocessors);
        let mut attributes = self.attributes.clone();
        attributes.insert("type", Attribute::text(if sharing.is_some() { "fraction" } else { "gpu" }));
        self.device(
            DeviceName { minor: gpu.minor, mig: None, sharing },
            attributes,
            whole_capacity(memory, multiprocessors, self.facts.table.as_ref().map(ProfileTable::engines)),
            counters::all(self.table),
            ways,
        )
    }

    fn instances<'b>(
        &'b self,
        profile: &'b GpuProfile,
        sharing: Option<Sharing>,
        ways: &'b Ways,
    ) -> impl Iterator<Item = Device> + 'b {
        let places = self.table.map(|table| placements_in_order(table, profile)).unwrap_or_default();
        places.into_iter().map(move |placement| {
            let place = MigPlace::new(&profile.name, profile.id, placement.start);
            let mut attributes = self.attributes.clone();
            attributes
                .insert("type", Attribute::text(if sharing.is_some() { "mig-fraction" } else { "mig" }));
            attributes.insert("profile", Attribute::text(&profile.name.to_string()));
            let memory = profile.memory.map_or(Mebibytes(0), |memory| memory.value);
            self.device(
                DeviceName { minor: self.facts.gpu.minor, mig: Some(place), sharing },
                attributes,
                whole_capacity(memory, profile.multiprocessors.map(|fact| fact.value), Some(profile.engines)),
                counters::of(profile, placement),
                ways,
            )
        })
    }

    fn device(
        &self,
        name: DeviceName,
        mut attributes: BTreeMap<&'static str, Attribute>,
        capacity: BTreeMap<&'static str, Capacity>,
        counters: Counters,
        ways: &Ways,
    ) -> Device {
        let capacity = match name.sharing {
            None => capacity,
            Some(sharing) => {
                attributes.insert("sharing", Attribute::text(sharing.attribute()));
                shared_capacity(sharing, capacity.get("memory"), ways)
            }
        };
        let of_place = name.mig.as_ref().and_then(|mig| self.facts.mig_taints.get(&(mig.id, mig.start)));
        let mut taints = self.facts.taints.clone();
        taints.extend(of_place.into_iter().flatten().cloned());
        // A key may be there once for each effect; what is known twice is said once, and always in the same order.
        taints.sort_by(|one, other| {
            (&one.key, one.effect, &one.value).cmp(&(&other.key, other.effect, &other.value))
        });
        taints.dedup_by(|one, other| (&one.key, one.effect) == (&other.key, other.effect));
        Device {
            name,
            attributes,
            capacity,
            consumes: Some(Consumption { set: self.set.clone(), counters }),
            taints,
        }
    }
}

/// What one claim gets with a whole GPU or instance.
fn whole_capacity(
    memory: Mebibytes,
    multiprocessors: Option<u16>,
    engines: Option<Engines>,
) -> BTreeMap<&'static str, Capacity> {
    let count = |number: u64| Capacity::whole(Quantity::Count(number));
    let mut capacity = BTreeMap::from([("memory", Capacity::whole(Quantity::Memory(memory)))]);
    if let Some(multiprocessors) = multiprocessors {
        capacity.insert("multiprocessors", count(u64::from(multiprocessors)));
    }
    if let Some(engines) = engines {
        capacity.insert("copyEngines", count(u64::from(engines.copy)));
        capacity.insert("decoders", count(u64::from(engines.decoder)));
        capacity.insert("encoders", count(u64::from(engines.encoder)));
        capacity.insert("jpegEngines", count(u64::from(engines.jpeg)));
        capacity.insert("ofaEngines", count(u64::from(engines.ofa)));
    }
    capacity
}

/// What claims share. Everything named here is consumed, so nothing may be named that a claim would take whole without asking.
fn shared_capacity(
    sharing: Sharing,
    memory: Option<&Capacity>,
    ways: &Ways,
) -> BTreeMap<&'static str, Capacity> {
    let memory = match memory.map(|capacity| capacity.value) {
        Some(Quantity::Memory(memory)) => memory,
        _ => Mebibytes(0),
    };
    let limits = [("memory", Capacity::shared_memory(memory)), ("compute", Capacity::shared_compute())];
    match sharing {
        Sharing::Limiter => BTreeMap::from(limits),
        Sharing::Mps => limits.into_iter().chain([("clients", Capacity::seats(MPS_CLIENTS))]).collect(),
        Sharing::TimeSlicing => BTreeMap::from([("replicas", Capacity::seats(ways.turns))]),
    }
}

/// What is the same for all devices of a GPU; the names are those of NVIDIA's driver.
fn attributes(driver: &Driver, facts: &GpuFacts) -> BTreeMap<&'static str, Attribute> {
    let gpu = &facts.gpu;
    let uuid = Attribute::text(&gpu.uuid.0);
    let mut attributes = BTreeMap::from([
        ("uuid", uuid.clone()),
        ("parentUUID", uuid),
        ("productName", Attribute::text(&gpu.name)),
        ("resource.kubernetes.io/pciBusID", Attribute::text(&gpu.address.to_string().to_lowercase())),
    ]);
    let (major, minor) = gpu.compute_capability;
    let versions = [
        ("cudaComputeCapability", format!("{major}.{minor}")),
        ("cudaDriverVersion", format!("{}.{}", driver.cuda.0, driver.cuda.1)),
        ("driverVersion", driver.version.clone()),
    ];
    for (name, version) in versions {
        if let Some(version) = Attribute::version(&version) {
            attributes.insert(name, version);
        }
    }
    if let Some(product) = Product::by_pci_id(gpu.pci_id) {
        attributes.insert("architecture", Attribute::text(&product.architecture.to_string()));
    }
    if let Some(root) = &facts.pcie_root {
        attributes.insert("resource.kubernetes.io/pcieRoot", Attribute::text(root));
    }
    if let Some(node) = gpu.numa_node {
        attributes.insert("numaNode", Attribute::Number(i64::from(node)));
    }
    attributes
}
