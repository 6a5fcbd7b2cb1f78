//! Names that a simulated machine gives to its parts: the same ones every time.

use carve_gpu_model::{ComputeInstanceId, GpuInstanceId, GpuUuid, MigUuid, PciAddress, Placement};

/// Identity of the GPU at a position of a machine.
pub(super) fn gpu_uuid(machine: &str, index: usize) -> GpuUuid {
    GpuUuid(format!("GPU-{}", uuid(&format!("{machine}/{index}"))))
}

/// Identity of a MIG device. Like the driver's, it comes back when the same instance is created again.
pub(super) fn mig_uuid(gpu: &GpuUuid, instance: GpuInstanceId, compute: ComputeInstanceId) -> MigUuid {
    MigUuid(format!("MIG-{}", uuid(&format!("{gpu}/{instance}/{compute}"))))
}

/// Where the GPU at a position sits: one bus each.
pub(super) fn pci_address(index: usize) -> PciAddress {
    PciAddress { domain: 0, bus: 0x10 + index as u8, device: 0 }
}

/// The driver's id of an instance: its node in the binary tree over the slots, counted from the root.
pub(super) fn instance_id(slots: u8, at: Placement) -> GpuInstanceId {
    let size = at.size.max(1);
    let nodes = u32::from(slots / size).max(1);
    GpuInstanceId(nodes - 1 + u32::from(at.start / size))
}

/// A UUID that depends on the text alone (FNV-1a, twice, with the version and variant bits of a random UUID).
fn uuid(text: &str) -> String {
    let fnv = |seed: u64| {
        text.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
    };
    let mix = |mut hash: u64| {
        // The finaliser of splitmix64: FNV alone leaves like texts with like upper bits.
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        hash ^ (hash >> 31)
    };
    let high = mix(fnv(0xCBF2_9CE4_8422_2325));
    let low = mix(fnv(0x9E37_79B9_7F4A_7C15));
    let high = (high & !0xF000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}
