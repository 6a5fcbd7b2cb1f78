//! Processes on a GPU: two lists of the driver made one.

use crate::Nvml;
use crate::call::Answer;
use carve_gpu_host::{GpuProcess, HostFailure, ProcessKind};
use carve_gpu_model::{Bytes, ComputeInstanceId, GpuIndex, GpuInstanceId};
use nvml_wrapper_sys::bindings::nvmlProcessInfo_v2_t;

/// The driver's way of saying that it does not know, for instances and for memory.
const NO_INSTANCE: u32 = u32::MAX;
const NO_MEMORY: u64 = u64::MAX;

fn process(told: &nvmlProcessInfo_v2_t, kind: ProcessKind) -> GpuProcess {
    let instance = |id: u32| Some(id).filter(|id| *id != NO_INSTANCE);
    GpuProcess {
        pid: told.pid,
        kind,
        memory: Some(told.usedGpuMemory).filter(|bytes| *bytes != NO_MEMORY).map(Bytes),
        gpu_instance: instance(told.gpuInstanceId).map(GpuInstanceId),
        compute_instance: instance(told.computeInstanceId).map(ComputeInstanceId),
    }
}

impl Nvml {
    /// Clients of MPS stand in both lists; what the MPS list says about their kind counts.
    pub(crate) fn processes_on(&self, gpu: GpuIndex) -> Answer<Vec<GpuProcess>> {
        let device = self.device(gpu)?;
        let computing = self.calls.compute_processes(device)?;
        let clients = match self.calls.mps_processes(device) {
            Ok(clients) => clients,
            Err(HostFailure::NotSupported | HostFailure::FunctionNotFound) => Vec::new(),
            Err(failure) => return Err(failure),
        };
        let mut found: Vec<GpuProcess> = Vec::new();
        let same = |a: &GpuProcess, b: &GpuProcess| {
            (a.pid, a.gpu_instance, a.compute_instance) == (b.pid, b.gpu_instance, b.compute_instance)
        };
        for told in &computing {
            let one = process(told, ProcessKind::Compute);
            if !found.iter().any(|other| same(other, &one)) {
                found.push(one);
            }
        }
        for told in &clients {
            let one = process(told, ProcessKind::MpsClient);
            match found.iter_mut().find(|other| same(other, &one)) {
                Some(known) => known.kind = ProcessKind::MpsClient,
                None => found.push(one),
            }
        }
        Ok(found)
    }
}
