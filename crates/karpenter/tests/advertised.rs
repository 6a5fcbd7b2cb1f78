//! What is predicted, against what the agent's own code makes of simulated machines.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_formats::DevicePluginConfig;
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::{Bytes, Geometry, Product};
use carve_karpenter::{Cut, MigCut, predicted};
use carve_planner::{feasible, wanted};
use carve_slicing::{MigMinors, NodeGpus, Settings, offer};
use std::collections::{BTreeMap, BTreeSet};

/// Products that a cloud rents out.
fn products() -> Vec<&'static Product> {
    let keys: BTreeSet<&str> =
        carve_economics::CATALOGUE.iter().filter_map(|machine| machine.product).collect();
    keys.into_iter().filter_map(Product::by_key).collect()
}

fn host(product: &Product, gpus: u8) -> SimulatedHost {
    SimulatedHost::new(Machine::named(&format!("{}:{gpus}", product.key)).expect("a machine"))
}

/// What kubelet is told under a configuration.
fn advertised(host: &SimulatedHost, config: &str) -> BTreeMap<String, u64> {
    let node = NodeGpus::read(host, &MigMinors::default()).expect("a reading");
    let config = DevicePluginConfig::parse(config).value.expect("a configuration");
    let offer = offer(&node, &Settings::new(&config, true).expect("settings")).expect("an offer");
    offer
        .resources
        .into_iter()
        .map(|(name, resource)| (name.to_string(), resource.devices.len() as u64))
        .collect()
}

#[test]
fn shares() {
    for product in products() {
        for (gpus, replicas, renamed) in [(1, 4, false), (4, 3, true), (8, 10, false)] {
            let config = format!(
                "{{version: v1, sharing: {{timeSlicing: {{renameByDefault: {renamed}, \
                 resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]}}}}}}"
            );
            let promise = predicted(product, gpus, &Cut::Shared { replicas, renamed }).expect("a promise");
            let advertised = advertised(&host(product, gpus), &config);
            assert_eq!(promise.resources(), &advertised, "{}", product.key);
            assert_eq!(promise.broken_by(&advertised), []);
        }
    }
}

/// Cuts every GPU of a machine.
fn cut(host: &mut SimulatedHost, geometry: &Geometry) {
    for gpu in host.gpus().expect("GPUs").into_iter().map(|gpu| gpu.index) {
        host.set_mig_mode(gpu, true).expect("MIG");
        host.reset(&[gpu]).expect("a reset");
        let table = host.profile_table(gpu).expect("a table");
        let counts = geometry.iter().map(|(name, count)| (name, u64::from(count)));
        let instances = wanted(&table, counts).expect("instances");
        for placed in feasible(&table, &instances).expect("places") {
            let profile = table.get(placed.profile).expect("a profile");
            let instance = host.create_gpu_instance(gpu, profile.id, table.placement(placed)).expect("room");
            let compute = host.compute_profiles(gpu, instance.id).expect("compute profiles");
            let whole = compute.iter().find(|compute| compute.slices == profile.slices).expect("a whole one");
            host.create_compute_instance(gpu, instance.id, whole.index).expect("room");
        }
    }
}

#[test]
fn instances() {
    let mut seen = 0;
    for product in products() {
        let Some(table) = product.profile_table() else { continue };
        let profiles = table.profiles().iter().map(|profile| MigCut::All(profile.name.clone()));
        let largest = table.maximal_geometries().into_iter().max_by_key(|one| one.geometry.iter().count());
        for way in profiles.chain(largest.map(|one| MigCut::Mixed(one.geometry))) {
            let promise = predicted(product, 2, &Cut::Mig(way.clone())).expect("a promise");
            let geometry = match &way {
                MigCut::Mixed(geometry) => geometry.clone(),
                // As many as it promises must go, and one more must not.
                MigCut::All(profile) => {
                    let each = promise.resources().values().sum::<u64>() / 2;
                    let geometry = |count: u64| Geometry::from_iter([(profile.clone(), count as u32)]);
                    let more = predicted(product, 2, &Cut::Mig(MigCut::Mixed(geometry(each + 1))));
                    assert!(more.is_err(), "{} {profile}: {each} are not the most", product.key);
                    geometry(each)
                }
            };
            let mut host = host(product, 2);
            cut(&mut host, &geometry);
            let advertised = advertised(&host, "{version: v1, flags: {migStrategy: mixed}}");
            assert_eq!(promise.resources(), &advertised, "{} {way:?}", product.key);
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn parts() {
    for product in products() {
        let promise = predicted(product, 8, &Cut::Parts).expect("a promise");
        let host = host(product, 8);
        let node = NodeGpus::read(&host, &MigMinors::default()).expect("a reading");
        let memory: u64 =
            node.gpus.iter().map(|gpu| Bytes(gpu.gpu.memory.0 - gpu.reserved.0).whole_mebibytes().0).sum();
        let told = BTreeMap::from([
            ("carve.dev/slice".to_owned(), carve_bookings::tokens(node.gpus.len()).len() as u64),
            ("carve.dev/compute".to_owned(), 800),
            ("carve.dev/memory".to_owned(), memory),
        ]);
        assert_eq!(promise.broken_by(&told), [], "{}", product.key);
        assert!(promise.resources()["carve.dev/memory"] * 100 > memory * 92, "{}: too little", product.key);
        let whole = BTreeMap::from([("nvidia.com/gpu".to_owned(), 8)]);
        assert_eq!(promise.broken_by(&whole).len(), 4, "{}", product.key);
    }
}
