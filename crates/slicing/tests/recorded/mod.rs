//! The machines on which NVIDIA's programs were recorded, as this crate sees them.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_formats::DevicePluginConfig;
use carve_gpu_host::{Driver, Gpu, GpuHost, Machine, SimulatedHost};
use carve_gpu_model::{Bytes, GpuIndex, GpuUuid, Mebibytes, MigUuid, PciAddress, PciId, ProfileName};
use carve_slicing::{MigMinors, NodeGpu, NodeGpus};
use carve_test_support::fixture_text;

/// A machine by the words of a recording: `H200*1,T4*1` and `0=1g.18gb,2g.35gb;1=7g.141gb`.
pub(crate) fn machine(gpus: &str, mig: &str) -> NodeGpus {
    let names = gpus.split(',').flat_map(|group| {
        let (name, count) = group.split_once('*').expect("NAME*COUNT");
        std::iter::repeat_n(name, count.parse().expect("a count"))
    });
    let mut nodes: Vec<NodeGpu> = names
        .enumerate()
        .map(|(number, name)| {
            let wanted = mig.split(';').find_map(|part| part.strip_prefix(&format!("{number}=")));
            one_gpu(number as u32, name, wanted)
        })
        .collect();
    for (migs, mig) in nodes.iter_mut().flat_map(|node| &mut node.migs).enumerate() {
        mig.device.uuid = MigUuid(format!("MIG-{:08x}-aaaa-5bbb-8ccc-{:012x}", 0x2000_0000 + migs, migs + 7));
    }
    let driver = Driver { version: "580.65.06".to_owned(), cuda: (13, 0) };
    NodeGpus { driver, gpus: nodes }
}

fn one_gpu(number: u32, name: &str, mig: Option<&str>) -> NodeGpu {
    let (board, mebibytes, capability, product) = match name {
        "H200" => ("NVIDIA H200", 143_771, (9, 0), Some("h200-141gb")),
        "H100" => ("NVIDIA H100 80GB HBM3", 81_559, (9, 0), Some("h100-sxm-80gb")),
        "A100" => ("NVIDIA A100-SXM4-40GB", 40_960, (8, 0), Some("a100-40gb")),
        "L40S" => ("NVIDIA L40S", 46_068, (8, 9), None),
        "V100" => ("Tesla V100-SXM2-16GB", 16_384, (7, 0), None),
        "T4" => ("Tesla T4", 15_360, (7, 5), None),
        other => panic!("no GPU {other} was recorded"),
    };
    let gpu = Gpu {
        index: GpuIndex(number),
        uuid: GpuUuid(format!("GPU-{:08x}-aaaa-bbbb-cccc-{:012x}", 0x1000_0000 + number, number + 1)),
        name: board.to_owned(),
        address: PciAddress { domain: 0, bus: number as u8 + 1, device: 0 },
        pci_id: PciId::nvidia(0x2335),
        subsystem: None,
        minor: number,
        memory: Mebibytes(mebibytes).bytes(),
        compute_capability: capability,
        numa_node: None,
        mig_capable: product.is_some(),
    };
    let mut node =
        NodeGpu { gpu, reserved: Bytes(0), mig_enabled: mig.is_some(), migs: Vec::new(), lost: false };
    if let (Some(profiles), Some(product)) = (mig, product) {
        let mut host = SimulatedHost::new(Machine::named(product).expect("a product"));
        let gpu = GpuIndex(0);
        host.set_mig_mode(gpu, true).expect("MIG");
        host.reset(&[gpu]).expect("a reset");
        let table = host.profile_table(gpu).expect("a table");
        let wanted: Vec<ProfileName> = profiles
            .split(',')
            .filter(|name| !name.is_empty())
            .map(|name| name.parse().expect("a profile"))
            .collect();
        let mut largest_first = wanted.clone();
        largest_first.sort_by_key(|name| std::cmp::Reverse(name.gpu_slices()));
        for name in largest_first {
            let (_, profile) = table.by_name(&name).expect("a known profile");
            let instance = host.create_gpu_instance(gpu, profile.id, None).expect("room");
            let compute = host.compute_profiles(gpu, instance.id).expect("compute profiles");
            let whole = compute.iter().find(|compute| u64::from(compute.slices) == name.gpu_slices());
            let whole = whole.expect("a compute instance that fills it").index;
            host.create_compute_instance(gpu, instance.id, whole).expect("room");
        }
        let mut there = NodeGpus::read(&host, &MigMinors::default()).expect("a reading").gpus[0].migs.clone();
        // The recorded machine lists them in the order in which they were asked for.
        for (position, name) in wanted.iter().enumerate() {
            let found = there.iter().position(|mig| mig.profile == *name).expect("it was just made");
            let mut mig = there.remove(found);
            mig.device.position = position as u32;
            node.migs.push(mig);
        }
    }
    node
}

/// A recorded configuration.
pub(crate) fn config(name: &str) -> Option<DevicePluginConfig> {
    let text = fixture_text(&format!("device-plugin/configs/{name}.yaml"))?;
    Some(DevicePluginConfig::parse(&text).value.expect("recorded configs are read"))
}
