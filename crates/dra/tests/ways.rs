//! What each mode publishes: counters only where a GPU can be used in several ways, and taints where somebody put them.

use carve_dra::{
    Device, GpuFacts, Mode, Sharing, SliceContent, Taint, TaintEffect, Ways, layout, placements_in_order,
    slices,
};
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::GpuIndex;
use std::collections::{BTreeMap, BTreeSet};

fn facts(host: &SimulatedHost) -> Vec<GpuFacts> {
    let facts = |gpu: carve_gpu_host::Gpu| {
        let index: GpuIndex = gpu.index;
        let table = host.profile_table(index).ok().filter(|table| !table.profiles().is_empty());
        let reserved = host.memory(index).expect("memory").reserved;
        GpuFacts { gpu, reserved, table, pcie_root: None, taints: Vec::new(), mig_taints: BTreeMap::new() }
    };
    host.gpus().expect("GPUs").into_iter().map(facts).collect()
}

fn machine(name: &str) -> SimulatedHost {
    SimulatedHost::new(Machine::named(name).expect("a machine"))
}

fn names(devices: &[Device]) -> Vec<String> {
    devices.iter().map(|device| device.name.to_string()).collect()
}

#[test]
fn one_way_needs_no_counters() {
    let host = machine("h100-sxm-80gb:2");
    let driver = host.driver().expect("a driver");
    let ending =
        [(Mode::Exclusive, ""), (Mode::Fraction, "-frac"), (Mode::Mps, "-mps"), (Mode::TimeSlicing, "-ts")];
    for (mode, ending) in ending {
        let layout = layout(&driver, &facts(&host), &mode.ways());
        assert!(layout.sets.is_empty(), "{mode}");
        let expected = [[format!("gpu-0{ending}")], [format!("gpu-1{ending}")]];
        assert_eq!(layout.gpus.iter().map(|gpu| names(gpu)).collect::<Vec<_>>(), expected, "{mode}");
        for device in layout.gpus.iter().flatten() {
            assert_eq!(device.consumes, None, "{mode}");
            assert_eq!(device.is_shared(), mode != Mode::Exclusive, "{mode}");
            // A share without any capacity would be counted twice by schedulers of 1.36.
            assert!(!device.capacity.is_empty(), "{mode}");
        }
        let slices = slices(&layout);
        assert_eq!(slices.len(), 2, "{mode}");
        assert!(slices.iter().all(|slice| matches!(slice.content, SliceContent::Devices(_))));
    }
}

#[test]
fn mig_is_counted_even_alone_and_several_ways_always_are() {
    let host = machine("h100-sxm-80gb:2");
    let driver = host.driver().expect("a driver");
    for mode in [Mode::Mig, Mode::All] {
        let layout = layout(&driver, &facts(&host), &mode.ways());
        assert_eq!(layout.sets.len(), 2, "{mode}");
        assert!(layout.gpus.iter().flatten().all(|device| device.consumes.is_some()), "{mode}");
    }
    let two = Ways { shared: BTreeSet::from([Sharing::Limiter, Sharing::Mps]), ..Mode::Fraction.ways() };
    assert_eq!(layout(&driver, &facts(&host), &two).sets.len(), 2);
}

#[test]
fn a_gpu_that_can_not_be_cut_is_not_offered_by_mig_and_takes_no_counters() {
    let host = machine("l4:1");
    let driver = host.driver().expect("a driver");
    let layout = layout(&driver, &facts(&host), &Mode::Mig.ways());
    assert!(layout.sets.is_empty());
    assert_eq!(layout.gpus, [Vec::new()]);
    assert_eq!(slices(&layout).len(), 1, "a pool that says that there is nothing");
}

#[test]
fn taints_of_a_gpu_are_on_all_of_its_devices_and_those_of_an_instance_on_that() {
    let host = machine("h100-sxm-80gb:2");
    let driver = host.driver().expect("a driver");
    let taint = |key: &str, effect| Taint { key: key.to_owned(), value: "xid-79".to_owned(), effect };
    let sick = taint("gpu.carve.dev/unhealthy", TaintEffect::NoExecute);
    let held = taint("gpu.carve.dev/held", TaintEffect::NoSchedule);
    let mut gpus = facts(&host);
    let table = gpus[1].table.clone().expect("a table");
    let (_, profile) = table.by_name(&"1g.10gb".parse().expect("a name")).expect("a profile");
    let start = placements_in_order(&table, profile)[0].start;
    gpus[0].taints = vec![sick.clone(), sick.clone()];
    gpus[1].mig_taints = BTreeMap::from([((profile.id, start), vec![held.clone(), sick.clone()])]);
    let layout = layout(&driver, &gpus, &Ways::default());
    assert!(layout.gpus[0].len() > 10 && layout.gpus[0].iter().all(|device| device.taints == [sick.clone()]));
    let tainted: Vec<&Device> = layout.gpus[1].iter().filter(|device| !device.taints.is_empty()).collect();
    let expected = ["gpu-1-mig-1g10gb-19-6", "gpu-1-mig-1g10gb-19-6-frac"];
    assert_eq!(tainted.iter().map(|device| device.name.to_string()).collect::<Vec<_>>(), expected);
    assert!(tainted.iter().all(|device| device.taints == [held.clone(), sick.clone()]));
    // A taint changes what is in slices, never how they are cut.
    let plain = slices(&carve_dra::layout(&driver, &facts(&host), &Ways::default()));
    let changed: Vec<usize> = slices(&layout)
        .iter()
        .zip(&plain)
        .filter(|(tainted, plain)| tainted != plain)
        .map(|(slice, _)| slice.index)
        .collect();
    assert_eq!(slices(&layout).len(), plain.len());
    assert_eq!(changed, [1, 2]);
}
