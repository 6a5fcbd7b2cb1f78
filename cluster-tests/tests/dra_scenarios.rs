//! Recorded sequences of claims, put to the real scheduler: what it answers is what its allocator answered when it was asked alone.

use carve_cluster_tests::{Cluster, DeviceOrder, Offered, Scenario, machine_layout, slice_objects};
use carve_dra::Ways;
use carve_test_support::fixture_text;
use std::collections::BTreeSet;

/// The driver of the records with our own devices.
const OURS: &str = "gpu.slicer.example";

/// Plays a record with the slices it brings, or with those of two or one of our GPUs.
fn play(name: &str, recorded_driver: &str, own: Option<(&str, &Ways)>) {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(record) = fixture_text(&format!("dra/ours/scenario-{name}.yaml")) else { return };
    let Some(expected) = fixture_text(&format!("dra/ours/scenario-{name}.expected.txt")) else { return };
    let node = if own.is_some() { format!("{name}-own") } else { name.to_owned() };
    // `mig.nvidia.com` and `gpu.nvidia.com` are names of classes as well; both become names of this test alone.
    let record = record.replace("mig.nvidia.com", &format!("mig.{node}.example.com"));
    let offered = Offered::new(&cluster, &format!("gpu.{node}.example.com"));
    let slices = own.map(|(machine, ways)| {
        let layout = machine_layout(machine, ways, DeviceOrder::Packing).expect("a machine");
        slice_objects(offered.driver(), &node, &layout)
    });
    let scenario = Scenario { cluster: &cluster, offered: &offered, node: &node, recorded_driver };
    scenario.play(&record, slices.as_deref(), &expected);
}

/// MIG and nothing else.
fn mig_alone() -> Ways {
    let none = BTreeSet::new();
    Ways { exclusive: false, shared: none.clone(), mig: true, shared_mig: none, turns: 1 }
}

/// The modes of two GPUs: fractions, MPS, MIG, shared MIG, exclusive, turns, and back.
#[test]
fn gpus_switch_between_modes() {
    play("modes", OURS, Some(("h100-sxm-80gb:2", &Ways::default())));
}

/// Devices by name, as NVIDIA's driver lists them: a 1g takes the place that a 4g needs.
#[test]
fn by_name_a_small_instance_is_in_the_way_of_a_large_one() {
    play("order-by-name", OURS, None);
}

/// The same claims with the places in the recorded order of preference: all are served.
#[test]
fn from_the_edge_all_are_served() {
    play("order-edge-first", OURS, None);
}

/// And with the places as we lay them out.
#[test]
fn laid_out_by_us_all_are_served() {
    play("order-edge-first", OURS, Some(("h100-sxm-80gb:1", &mig_alone())));
}

/// Two requests of a claim may land on one shared device: whoever prepares it tells them apart by share.
#[test]
fn two_requests_may_get_the_same_device() {
    play("same-device-twice", "gpu.nvidia.com", None);
}

/// Shares of a MIG device as NVIDIA's driver publishes them: what has no request policy is taken whole by the first claim.
#[test]
fn the_second_share_of_a_mig_device_of_nvidias_waits() {
    play("nvidia-consumable-shares-mig", "gpu.nvidia.com", None);
}
