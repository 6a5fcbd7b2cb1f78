//! GPUs: how many, their handles, and what does not change about them.

use crate::abi::{In, Out, VERSION_MISMATCH, field, nvml, struct_version};
use crate::handle::{Handle, Thing};
use crate::session::Answer;
use crate::simulation::{Simulation, said};
use carve_gpu_host::{Gpu, HostFailure};
use carve_gpu_model::{Architecture, PciAddress, Product};
use nvml_wrapper_sys::bindings::{nvmlPciInfo_t, nvmlPciInfoExt_v1_t, nvmlUUID_v1_t};
use std::ffi::{c_char, c_int, c_uint};

/// What the first version of the PCI facts had; later fields must not be written into a caller's old struct.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PciInfoV1 {
    bus_id: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
}

/// What the second version had.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PciInfoV2 {
    first: PciInfoV1,
    pci_sub_system_id: c_uint,
}

/// PCI facts of an address.
pub(crate) fn pci_info(address: PciAddress, device: u32, subsystem: u32) -> nvmlPciInfo_t {
    let PciAddress { domain, bus, device: slot } = address;
    nvmlPciInfo_t {
        busIdLegacy: field(&format!("{domain:04X}:{bus:02X}:{slot:02X}.0")),
        domain,
        bus: c_uint::from(bus),
        device: c_uint::from(slot),
        pciDeviceId: device,
        pciSubSystemId: subsystem,
        busId: field(&address.nvml_bus_id()),
    }
}

/// PCI facts of a GPU.
pub(crate) fn gpu_pci_info(gpu: &Gpu) -> nvmlPciInfo_t {
    pci_info(gpu.address, gpu.pci_id.packed(), gpu.subsystem.map_or(0, |id| id.packed()))
}

fn first_version(info: &nvmlPciInfo_t) -> PciInfoV1 {
    PciInfoV1 {
        bus_id: info.busIdLegacy,
        domain: info.domain,
        bus: info.bus,
        device: info.device,
        pci_device_id: info.pciDeviceId,
    }
}

/// The handle of a GPU or MIG device by its identity.
fn by_uuid(simulation: &Simulation, uuid: &str) -> Answer<Handle> {
    if let Some(gpu) = simulation.shown().find(|gpu| gpu.uuid.0 == uuid) {
        return simulation.alive(gpu.index).map(|gpu| Handle::of(Thing::Gpu(gpu)));
    }
    for gpu in simulation.shown() {
        let Ok(devices) = simulation.host.plain().mig_devices(gpu.index) else { continue };
        let devices = simulation.shown_migs(gpu.index, devices)?;
        if let Some(found) = devices.iter().find(|device| device.uuid.0 == uuid) {
            let thing = Thing::MigDevice(gpu.index, found.gpu_instance, found.compute_instance);
            return Ok(Handle::of(thing));
        }
    }
    Err(HostFailure::NotFound)
}

fn architecture(gpu: &Gpu) -> u32 {
    match Product::by_name(&gpu.name).map(|product| product.architecture) {
        Some(Architecture::Pascal) => 4,
        Some(Architecture::Volta) => 5,
        Some(Architecture::Turing) => 6,
        Some(Architecture::Ampere) => 7,
        Some(Architecture::AdaLovelace) => 8,
        Some(Architecture::Hopper) => 9,
        Some(Architecture::Blackwell) => 10,
        None => u32::MAX,
    }
}

nvml! {
    fn nvmlDeviceGetCount | nvmlDeviceGetCount_v2(simulation, count: Out<c_uint>) {
        said(simulation.host.gpus())?;
        count.set(simulation.shown().count() as c_uint)
    }

    fn nvmlDeviceGetHandleByIndex | nvmlDeviceGetHandleByIndex_v2(
        simulation, index: c_uint, device: Out<Handle>,
    ) {
        let gpu = simulation.at_index(index)?;
        device.set(Handle::of(Thing::Gpu(gpu)))
    }

    fn nvmlDeviceGetHandleByUUID(simulation, uuid: In<c_char>, device: Out<Handle>) {
        device.set(by_uuid(simulation, &uuid.text()?)?)
    }

    // The text form only: nobody who asks NVML by 16 bare bytes has been seen.
    fn nvmlDeviceGetHandleByUUIDV(simulation, uuid: In<nvmlUUID_v1_t>, device: Out<Handle>) {
        let uuid = uuid.get()?;
        if uuid.version != struct_version::<nvmlUUID_v1_t>(1) {
            return Err(VERSION_MISMATCH);
        }
        if uuid.type_ != 1 {
            return Err(HostFailure::NotSupported);
        }
        // SAFETY: type 1 says that the union holds characters, and every bit pattern is a character.
        let characters = unsafe { uuid.value.str_ };
        let bytes: Vec<u8> = characters.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
        let text = String::from_utf8(bytes).map_err(|_| HostFailure::InvalidArgument)?;
        device.set(by_uuid(simulation, &text)?)
    }

    fn nvmlDeviceGetHandleByPciBusId | nvmlDeviceGetHandleByPciBusId_v2(
        simulation, bus_id: In<c_char>, device: Out<Handle>,
    ) {
        let address: PciAddress = bus_id.text()?.parse().map_err(|_| HostFailure::InvalidArgument)?;
        let gpu = simulation.shown().find(|gpu| gpu.address == address).ok_or(HostFailure::NotFound)?;
        device.set(Handle::of(Thing::Gpu(simulation.alive(gpu.index)?)))
    }

    fn nvmlDeviceGetName(simulation, device: Handle, name: Out<c_char>, length: c_uint) {
        let device = simulation.device(device)?;
        let gpu = &simulation.facts(device.gpu)?.name;
        match &device.mig {
            None => name.set_text(length, gpu),
            Some(mig) => {
                let profile = simulation.mig_profile(device.gpu, mig)?;
                name.set_text(length, &format!("{gpu} MIG {profile}"))
            }
        }
    }

    fn nvmlDeviceGetUUID(simulation, device: Handle, uuid: Out<c_char>, length: c_uint) {
        let device = simulation.device(device)?;
        match &device.mig {
            None => uuid.set_text(length, &simulation.facts(device.gpu)?.uuid.0),
            Some(mig) => uuid.set_text(length, &mig.uuid.0),
        }
    }

    fn nvmlDeviceGetIndex(simulation, device: Handle, index: Out<c_uint>) {
        let device = simulation.device(device)?;
        match device.mig {
            None => index.set(simulation.index_of(device.gpu)?),
            Some(mig) => index.set(mig.position),
        }
    }

    fn nvmlDeviceGetMinorNumber(simulation, device: Handle, minor: Out<c_uint>) {
        let gpu = simulation.gpu(device)?;
        minor.set(simulation.facts(gpu)?.minor)
    }

    fn nvmlDeviceGetCudaComputeCapability(
        simulation, device: Handle, major: Out<c_int>, minor: Out<c_int>,
    ) {
        let device = simulation.device(device)?;
        let capability = simulation.facts(device.gpu)?.compute_capability;
        minor.required()?;
        major.set(capability.0 as c_int)?;
        minor.set(capability.1 as c_int)
    }

    fn nvmlDeviceGetArchitecture(simulation, device: Handle, generation: Out<c_uint>) {
        let device = simulation.device(device)?;
        generation.set(architecture(simulation.facts(device.gpu)?))
    }

    // 13 is the brand of workstation boards, 14 that of everything for data centres.
    fn nvmlDeviceGetBrand(simulation, device: Handle, brand: Out<c_uint>) {
        let device = simulation.device(device)?;
        brand.set(if simulation.facts(device.gpu)?.name.contains("RTX") { 13 } else { 14 })
    }

    fn nvmlDeviceGetPciInfo(simulation, device: Handle, pci: Out<PciInfoV1>) {
        let device = simulation.device(device)?;
        pci.set(first_version(&gpu_pci_info(simulation.facts(device.gpu)?)))
    }

    fn nvmlDeviceGetPciInfo_v2(simulation, device: Handle, pci: Out<PciInfoV2>) {
        let device = simulation.device(device)?;
        let info = gpu_pci_info(simulation.facts(device.gpu)?);
        pci.set(PciInfoV2 { first: first_version(&info), pci_sub_system_id: info.pciSubSystemId })
    }

    fn nvmlDeviceGetPciInfo_v3(simulation, device: Handle, pci: Out<nvmlPciInfo_t>) {
        let device = simulation.device(device)?;
        pci.set(gpu_pci_info(simulation.facts(device.gpu)?))
    }

    fn nvmlDeviceGetPciInfoExt(simulation, device: Handle, pci: Out<nvmlPciInfoExt_v1_t>) {
        let device = simulation.device(device)?;
        let version = struct_version::<nvmlPciInfoExt_v1_t>(1);
        if pci.get()?.version != version {
            return Err(VERSION_MISMATCH);
        }
        let info = gpu_pci_info(simulation.facts(device.gpu)?);
        pci.set(nvmlPciInfoExt_v1_t {
            version,
            domain: info.domain,
            bus: info.bus,
            device: info.device,
            pciDeviceId: info.pciDeviceId,
            pciSubSystemId: info.pciSubSystemId,
            baseClass: 0x03,
            subClass: 0x02,
            busId: info.busId,
        })
    }

    // Shared by all: anybody may open a context.
    fn nvmlDeviceGetComputeMode(simulation, device: Handle, mode: Out<c_uint>) {
        simulation.gpu(device)?;
        mode.set(0)
    }

    fn nvmlDeviceGetPersistenceMode(simulation, device: Handle, mode: Out<c_uint>) {
        simulation.gpu(device)?;
        mode.set(0)
    }

    fn nvmlDeviceGetVirtualizationMode(simulation, device: Handle, mode: Out<c_uint>) {
        simulation.gpu(device)?;
        mode.set(0)
    }

    fn nvmlDeviceGetMultiGpuBoard(simulation, device: Handle, several: Out<c_uint>) {
        simulation.gpu(device)?;
        several.set(0)
    }
}
