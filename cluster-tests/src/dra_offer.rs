//! What simulated machines offer through dynamic resource allocation: ResourceSlices and DeviceClasses that go with the test.

use crate::Cluster;
use carve_cluster_api::SliceOwner;
use carve_dra::{Device, GpuFacts, Layout, Ways, layout, slices};
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::GpuIndex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// In which order the devices of a GPU are listed, and so which one the scheduler takes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceOrder {
    /// Ours: places first that keep the most room.
    Packing,
    /// By name, as NVIDIA's driver lists them.
    Name,
}

/// The layout of a machine; nothing where the product can not be simulated.
pub fn machine_layout(machine: &str, ways: &Ways, order: DeviceOrder) -> Option<Layout> {
    let host = SimulatedHost::new(Machine::named(machine).ok()?);
    let facts = |gpu: carve_gpu_host::Gpu| -> Option<GpuFacts> {
        let index: GpuIndex = gpu.index;
        let table = host.profile_table(index).ok().filter(|table| !table.profiles().is_empty());
        let reserved = host.memory(index).ok()?.reserved;
        Some(GpuFacts {
            gpu,
            reserved,
            table,
            pcie_root: None,
            taints: Vec::new(),
            mig_taints: BTreeMap::new(),
        })
    };
    let gpus: Option<Vec<GpuFacts>> = host.gpus().ok()?.into_iter().map(facts).collect();
    let mut layout = layout(&host.driver().ok()?, &gpus?, ways);
    match order {
        DeviceOrder::Packing => layout = layout.packed(),
        DeviceOrder::Name => {
            layout.gpus.iter_mut().for_each(|devices| devices.sort_by_key(|device| device.name.to_string()));
        }
    }
    Some(layout)
}

/// The slices of a layout, as objects of a node.
pub fn slice_objects(driver: &str, node: &str, layout: &Layout) -> Vec<Value> {
    let owner = SliceOwner { driver: driver.to_owned(), node: node.to_owned(), node_uid: None };
    slices(layout).iter().map(|slice| json!(owner.object(slice, 1))).collect()
}

/// The attribute of a device that is a text.
pub fn text_attribute<'a>(device: &'a Device, name: &str) -> Option<&'a str> {
    match device.attributes.get(name) {
        Some(carve_dra::Attribute::Text(text)) => Some(text),
        _ => None,
    }
}

/// The classes of a driver, as objects.
pub fn class_objects(driver: &str) -> Vec<Value> {
    let classes = carve_dra::classes(driver, &[]).unwrap_or_else(|error| panic!("{error}"));
    classes.iter().map(carve_dra::DeviceClass::manifest).collect()
}

/// Slices and classes of a driver. They are objects of the whole cluster, and go when this is dropped.
#[derive(Debug)]
pub struct Offered {
    cluster: Cluster,
    driver: String,
}

impl Offered {
    /// Nothing yet; what an interrupted run left is taken away.
    pub fn new(cluster: &Cluster, driver: &str) -> Self {
        let offered = Offered { cluster: cluster.clone(), driver: driver.to_owned() };
        offered.withdraw();
        offered
    }

    /// The driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Publishes slices, or classes; all of them or the test fails.
    pub fn publish(&self, objects: &[Value]) {
        let mut objects = objects.to_vec();
        for object in &mut objects {
            object["metadata"]["labels"] = json!({"test": self.driver});
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        // Another suite may have applied the same classes in another way.
        let words = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        let applied = self.cluster.try_kubectl(&words, Some(&list));
        applied.unwrap_or_else(|error| panic!("kubectl apply: {error}"));
    }

    /// The specification of each slice as the API server keeps it.
    pub fn kept(&self) -> BTreeMap<String, Value> {
        let driver = format!("--field-selector=spec.driver={}", self.driver);
        let kept = self.cluster.get(&["resourceslices", &driver]);
        let slices = kept["items"].as_array().into_iter().flatten();
        slices.map(|slice| (slice["metadata"]["name"].to_string(), slice["spec"].clone())).collect()
    }

    /// Makes the scheduler look again at pods that found no room. It counts a share twice for as long as the claim is being written down, and a
    /// pod that it refused for that waits until something changes.
    pub fn look_again(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let (classes, mark) = (format!("test={}", self.driver), format!("looked-again={now}"));
        let words = ["annotate", "deviceclasses", "-l", &classes, &mark, "--overwrite"];
        let annotated = self.cluster.try_kubectl(&words, None);
        annotated.unwrap_or_else(|error| panic!("kubectl annotate: {error}"));
    }

    /// Takes everything back.
    pub fn withdraw(&self) {
        let driver = format!("--field-selector=spec.driver={}", self.driver);
        // Nothing holds them, so they are gone when kubectl has asked.
        let _ = self.cluster.try_kubectl(&["delete", "resourceslices", &driver, "--wait=false"], None);
        let classes = format!("test={}", self.driver);
        let _ = self.cluster.try_kubectl(&["delete", "deviceclasses", "-l", &classes, "--wait=false"], None);
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        self.withdraw();
    }
}
