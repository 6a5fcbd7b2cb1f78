//! Memory and utilisation of GPUs and MIG devices.

use crate::abi::{Out, VERSION_MISMATCH, nvml, struct_version};
use crate::handle::Handle;
use crate::session::Answer;
use crate::simulation::{Device, Simulation, said};
use carve_gpu_host::{HostFailure, MemoryUse};
use carve_gpu_model::Bytes;
use nvml_wrapper_sys::bindings::{nvmlMemory_t, nvmlMemory_v2_t, nvmlUtilization_t};

/// What a device has and holds. All MIG devices of a GPU instance share its memory.
fn memory(simulation: &Simulation, device: &Device) -> Answer<MemoryUse> {
    let Some(mig) = &device.mig else { return said(simulation.host.memory(device.gpu)) };
    let processes = said(simulation.host.processes(device.gpu))?;
    let inside = processes.iter().filter(|process| process.gpu_instance == Some(mig.gpu_instance));
    let used = inside.filter_map(|process| process.memory).map(|bytes| bytes.0).sum();
    Ok(MemoryUse { total: mig.memory.bytes(), reserved: Bytes(0), used: Bytes(used) })
}

nvml! {
    // The first version counts what the driver keeps for itself as used.
    fn nvmlDeviceGetMemoryInfo(simulation, device: Handle, memory_info: Out<nvmlMemory_t>) {
        let device = simulation.device(device)?;
        let MemoryUse { total, reserved, used } = memory(simulation, &device)?;
        let used = (used.0 + reserved.0).min(total.0);
        memory_info.set(nvmlMemory_t { total: total.0, free: total.0 - used, used })
    }

    fn nvmlDeviceGetMemoryInfo_v2(simulation, device: Handle, memory_info: Out<nvmlMemory_v2_t>) {
        let device = simulation.device(device)?;
        let version = struct_version::<nvmlMemory_v2_t>(2);
        if memory_info.get()?.version != version {
            return Err(VERSION_MISMATCH);
        }
        let MemoryUse { total, reserved, used } = memory(simulation, &device)?;
        memory_info.set(nvmlMemory_v2_t {
            version,
            total: total.0,
            reserved: reserved.0,
            free: total.0.saturating_sub(used.0 + reserved.0),
            used: used.0,
        })
    }

    fn nvmlDeviceGetUtilizationRates(simulation, device: Handle, rates: Out<nvmlUtilization_t>) {
        let device = simulation.device(device)?;
        // The driver measures whole GPUs only.
        if device.mig.is_some() {
            return Err(HostFailure::NotSupported);
        }
        let busy = said(simulation.host.utilisation(device.gpu))?;
        rates.set(nvmlUtilization_t { gpu: busy.compute_percent, memory: busy.memory_percent })
    }
}
