//! The fabric over several machines to which a GPU belongs, in the three forms in which NVML tells it.

use crate::abi::{Out, VERSION_MISMATCH, nvml, struct_version};
use crate::handle::Handle;
use crate::session::Answer;
use crate::simulation::{Simulation, said};
use carve_gpu_host::{Fabric, HostFailure};
use nvml_wrapper_sys::bindings::{
    NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY, NVML_GPU_FABRIC_STATE_COMPLETED, nvmlGpuFabricInfo_t,
    nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t,
};
use std::ffi::c_uint;

/// A simulated GPU is in its fabric from the start, and all is well with it there.
const STATE: u8 = NVML_GPU_FABRIC_STATE_COMPLETED as u8;
const STATUS: u32 = 0;
const NO_TROUBLE: c_uint = 0;

fn fabric(simulation: &Simulation, device: Handle) -> Answer<Fabric> {
    let gpu = simulation.gpu(device)?;
    said(simulation.host.fabric(gpu))?.ok_or(HostFailure::NotSupported)
}

nvml! {
    fn nvmlDeviceGetGpuFabricInfo(simulation, device: Handle, info: Out<nvmlGpuFabricInfo_t>) {
        let fabric = fabric(simulation, device)?;
        info.set(nvmlGpuFabricInfo_t {
            clusterUuid: fabric.cluster.bytes(),
            status: STATUS,
            cliqueId: fabric.clique.0,
            state: STATE,
        })
    }

    // Which form C wants stands at the head of every form.
    fn nvmlDeviceGetGpuFabricInfoV(simulation, device: Handle, version: Out<c_uint>) {
        let wanted = version.get()?;
        let second = wanted == struct_version::<nvmlGpuFabricInfo_v2_t>(2);
        if !second && wanted != struct_version::<nvmlGpuFabricInfo_v3_t>(3) {
            return Err(VERSION_MISMATCH);
        }
        let fabric = fabric(simulation, device)?;
        let told = nvmlGpuFabricInfo_v2_t {
            version: wanted,
            clusterUuid: fabric.cluster.bytes(),
            status: STATUS,
            cliqueId: fabric.clique.0,
            state: STATE,
            healthMask: NO_TROUBLE,
        };
        if second {
            return version.cast().set(told);
        }
        version.cast().set(nvmlGpuFabricInfo_v3_t {
            version: told.version,
            clusterUuid: told.clusterUuid,
            status: told.status,
            cliqueId: told.cliqueId,
            state: told.state,
            healthMask: told.healthMask,
            healthSummary: NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY as u8,
        })
    }
}
