//! A node's offer as the ResourceSlices that the API server keeps.

use carve_dra::{
    Attribute, Capacity, Consumption, CounterSet, Device, Quantity, RequestPolicy, Slice, SliceContent, Taint,
};
use k8s_openapi::api::resource::v1 as api;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::BTreeMap;

/// Whose slices they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceOwner {
    /// The driver.
    pub driver: String,
    /// The node, which is also the name of the pool.
    pub node: String,
    /// The Node's uid: slices go with it. Nothing where it is not known.
    pub node_uid: Option<String>,
}

impl SliceOwner {
    /// What a slice is called. The scheduler looks at slices in the order of their names, and whoever publishes again finds its own.
    pub fn name_of(&self, index: usize) -> String {
        format!("{index:05x}-{}-{}", self.driver, self.node)
    }

    /// Whether a slice is called as [`SliceOwner::name_of`] calls one.
    pub(crate) fn has_named(&self, name: &str) -> bool {
        let index = name.split('-').next().and_then(|index| usize::from_str_radix(index, 16).ok());
        index.is_some_and(|index| self.name_of(index) == name)
    }

    /// A slice as an object, of one generation of the pool.
    pub fn object(&self, slice: &Slice, generation: i64) -> api::ResourceSlice {
        let (devices, sets) = match &slice.content {
            SliceContent::Sets(sets) => (None, some(sets.iter().map(set).collect())),
            SliceContent::Devices(devices) => (some(devices.iter().map(device).collect()), None),
        };
        let owner = self.node_uid.as_ref().map(|uid| OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid: uid.clone(),
            controller: Some(true),
            ..OwnerReference::default()
        });
        api::ResourceSlice {
            metadata: ObjectMeta {
                name: Some(self.name_of(slice.index)),
                owner_references: owner.map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: api::ResourceSliceSpec {
                driver: self.driver.clone(),
                node_name: Some(self.node.clone()),
                pool: api::ResourcePool {
                    name: self.node.clone(),
                    generation,
                    resource_slice_count: i64::try_from(slice.of).unwrap_or(i64::MAX),
                },
                devices,
                shared_counters: sets,
                ..api::ResourceSliceSpec::default()
            },
        }
    }
}

/// A list, unless it is empty: the API server leaves empty ones out, and what is sent should read back as it was.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn quantity(quantity: Quantity) -> ApiQuantity {
    ApiQuantity(quantity.to_string())
}

fn counters(counters: &BTreeMap<String, Quantity>) -> BTreeMap<String, api::Counter> {
    counters.iter().map(|(name, value)| (name.clone(), api::Counter { value: quantity(*value) })).collect()
}

fn set(set: &CounterSet) -> api::CounterSet {
    api::CounterSet { name: set.name.clone(), counters: counters(&set.counters) }
}

fn device(device: &Device) -> api::Device {
    let named = |name: &&'static str| (*name).to_owned();
    api::Device {
        name: device.name.to_string(),
        allow_multiple_allocations: device.is_shared().then_some(true),
        attributes: Some(
            device.attributes.iter().map(|(name, value)| (named(name), attribute(value))).collect(),
        ),
        capacity: Some(device.capacity.iter().map(|(name, value)| (named(name), capacity(value))).collect()),
        consumes_counters: device.consumes.as_ref().map(|consumption| vec![consumes(consumption)]),
        taints: some(device.taints.iter().map(taint).collect()),
        ..api::Device::default()
    }
}

/// Without the time it was added: the API server fills that in, and whoever publishes again keeps it.
fn taint(taint: &Taint) -> api::DeviceTaint {
    api::DeviceTaint {
        key: taint.key.clone(),
        value: (!taint.value.is_empty()).then(|| taint.value.clone()),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    }
}

fn attribute(attribute: &Attribute) -> api::DeviceAttribute {
    let mut value = api::DeviceAttribute::default();
    match attribute {
        Attribute::Text(text) => value.string = Some(text.clone()),
        Attribute::Number(number) => value.int = Some(*number),
        Attribute::Version(version) => value.version = Some(version.clone()),
    }
    value
}

fn capacity(capacity: &Capacity) -> api::DeviceCapacity {
    let policy = |policy: RequestPolicy| api::CapacityRequestPolicy {
        default: Some(quantity(policy.default)),
        valid_range: Some(api::CapacityRequestPolicyRange {
            min: quantity(policy.least),
            max: Some(quantity(policy.most)),
            step: Some(quantity(policy.step)),
        }),
        valid_values: None,
    };
    api::DeviceCapacity { value: quantity(capacity.value), request_policy: capacity.policy.map(policy) }
}

fn consumes(consumption: &Consumption) -> api::DeviceCounterConsumption {
    api::DeviceCounterConsumption {
        counter_set: consumption.set.clone(),
        counters: counters(&consumption.counters),
    }
}
