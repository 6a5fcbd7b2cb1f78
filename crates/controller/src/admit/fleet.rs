//! What is known of the cluster's GPUs when pods are admitted: from Nodes on the scheduler road, from ResourceSlices on the claims road.

use crate::cluster::Cluster;
use carve_admission::{Fleet, FleetProduct, FleetProfile, Road};
use carve_formats::workloads::Quantity;
use carve_gpu_model::Mebibytes;
use serde_json::Value;
use std::collections::BTreeMap;

/// Devices of one driver, slice by slice.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    /// What each slice, by its name, says of products.
    by_name: BTreeMap<String, Vec<FleetProduct>>,
    known: bool,
}

impl Slices {
    /// A slice is there, or has changed.
    pub(crate) fn seen(&mut self, slice: &Value) {
        let name = slice["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut products = Vec::new();
        for device in slice["spec"]["devices"].as_array().into_iter().flatten() {
            if let Some(product) = told_by(device) {
                join(&mut products, product);
            }
        }
        self.by_name.insert(name, products);
    }

    /// A slice is gone.
    pub(crate) fn gone(&mut self, slice: &Value) {
        self.by_name.remove(slice["metadata"]["name"].as_str().unwrap_or_default());
    }

    /// All slices were listed: these are there, and no others.
    pub(crate) fn listed(&mut self, slices: &[Value]) {
        let is_there = |name: &str| slices.iter().any(|slice| slice["metadata"]["name"] == name);
        self.by_name.retain(|name, _| is_there(name));
        self.known = true;
    }

    /// Whether all of them were seen once.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }
}

/// What a device says of the GPU that it is of.
fn told_by(device: &Value) -> Option<FleetProduct> {
    let attribute = |name: &str| device["attributes"][name]["string"].as_str();
    let memory = device["capacity"]["memory"]["value"].as_str().and_then(mebibytes)?;
    let name = attribute("productName")?.to_owned();
    match attribute("type")? {
        "fraction" => Some(FleetProduct { name, memory, profiles: Vec::new() }),
        "mig" => {
            let profile = FleetProfile { name: attribute("profile")?.parse().ok()?, memory };
            Some(FleetProduct { name, memory: Mebibytes(0), profiles: vec![profile] })
        }
        _ => None,
    }
}

fn mebibytes(text: &str) -> Option<Mebibytes> {
    Some(text.parse::<Quantity>().ok()?.whole_mebibytes())
}

/// Adds what is said of a product. Of several memories the least counts: what fits there fits everywhere.
fn join(products: &mut Vec<FleetProduct>, new: FleetProduct) {
    let Some(known) = products.iter_mut().find(|known| known.name == new.name) else {
        products.push(new);
        return;
    };
    if known.memory.0 == 0 || (new.memory.0 > 0 && new.memory < known.memory) {
        known.memory = new.memory;
    }
    for profile in new.profiles {
        if known.profiles.iter().all(|there| there.name != profile.name) {
            known.profiles.push(profile);
        }
    }
}

/// The fleet as one road has it.
pub(crate) fn fleet(road: Road, driver: &str, cluster: &Cluster, slices: &Slices) -> Fleet {
    let mut products = Vec::new();
    match road {
        Road::Claims => {
            let all = slices.by_name.values().flatten();
            all.for_each(|product| join(&mut products, product.clone()));
        }
        Road::Scheduler => {
            let mut least: BTreeMap<&str, Mebibytes> = BTreeMap::new();
            for (gpu, _) in cluster.book().rooms().flat_map(|(_, room)| room.left()) {
                let known = least.entry(&gpu.product).or_insert(gpu.memory);
                *known = gpu.memory.min(*known);
            }
            let product = |(name, memory): (&str, Mebibytes)| FleetProduct {
                name: name.to_owned(),
                memory,
                profiles: Vec::new(),
            };
            products.extend(least.into_iter().map(product));
        }
    }
    products.sort_by(|one, other| one.name.cmp(&other.name));
    Fleet { driver: driver.to_owned(), products }
}

#[cfg(test)]
mod tests {
    use super::{Slices, fleet};
    use crate::cluster::Cluster;
    use carve_admission::Road;
    use serde_json::{Value, json};

    fn device(product: &str, kind: &str, memory: &str, profile: Option<&str>) -> Value {
        let mut attributes = json!({"productName": {"string": product}, "type": {"string": kind}});
        if let Some(profile) = profile {
            attributes["profile"] = json!({"string": profile});
        }
        json!({"name": "d", "attributes": attributes, "capacity": {"memory": {"value": memory}}})
    }

    fn slice(name: &str, devices: Vec<Value>) -> Value {
        json!({"metadata": {"name": name}, "spec": {"devices": devices}})
    }

    #[test]
    fn products_are_put_together_from_all_slices() {
        let mut slices = Slices::default();
        let a100 = "NVIDIA A100-SXM4-80GB";
        slices.seen(&slice(
            "one",
            vec![device(a100, "fraction", "81152Mi", None), device(a100, "gpu", "80Gi", None)],
        ));
        slices.seen(&slice(
            "two",
            vec![device(a100, "mig", "9856Mi", Some("1g.10gb")), device(a100, "fraction", "80Gi", None)],
        ));
        slices.seen(&slice("three", vec![device("Tesla T4", "fraction", "15Gi", None)]));
        let known = fleet(Road::Claims, "gpu.carve.dev", &Cluster::default(), &slices);
        let told: Vec<(&str, u64, usize)> =
            known.products.iter().map(|one| (one.name.as_str(), one.memory.0, one.profiles.len())).collect();
        assert_eq!(told, [(a100, 81_152, 1), ("Tesla T4", 15_360, 0)]);
        slices.gone(&json!({"metadata": {"name": "three"}}));
        slices.listed(&[slice("two", Vec::new())]);
        let known = fleet(Road::Claims, "gpu.carve.dev", &Cluster::default(), &slices);
        assert_eq!(known.products.iter().map(|one| one.memory.0).collect::<Vec<_>>(), [81_920]);
    }

    #[test]
    fn on_the_scheduler_road_nodes_tell() {
        let mut cluster = Cluster::default();
        let gpus = r#"{"v":1,"gpus":[{"uuid":"GPU-0","product":"Tesla T4","memory":15000},{"uuid":"GPU-1","product":"Tesla T4","memory":14000}]}"#;
        cluster.node_seen(&json!({"metadata": {"name": "a", "annotations": {"carve.dev/gpus": gpus}}}));
        let known = fleet(Road::Scheduler, "gpu.carve.dev", &cluster, &Slices::default());
        assert_eq!((known.products.len(), known.products[0].memory.0), (1, 14_000));
    }
}
