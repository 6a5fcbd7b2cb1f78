//! Processes on GPUs and MIG devices, in all versions of the lists.

use crate::abi::{NO_INSTANCE, Out, nvml};
use crate::handle::Handle;
use crate::session::Answer;
use crate::simulation::{Simulation, said};
use carve_gpu_host::{GpuProcess, HostFailure, ProcessKind};
use nvml_wrapper_sys::bindings::{nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t};
use std::ffi::c_uint;

/// What NVML writes where a process's memory is not known.
const NO_MEMORY: u64 = u64::MAX;

/// Which of the lists is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    /// Everything that computes, clients of MPS included.
    Compute,
    /// Clients of MPS alone.
    Mps,
    /// Nothing draws on a simulated GPU.
    Graphics,
}

/// Fills a list: the count goes in as room and comes out as need.
fn fill<T: Copy>(
    simulation: &Simulation,
    device: Handle,
    list: List,
    count: Out<c_uint>,
    infos: Out<T>,
    make: fn(&GpuProcess) -> T,
) -> Answer {
    let device = simulation.device(device)?;
    let room = count.get()?;
    let all = said(simulation.host.processes(device.gpu))?;
    let inside = |process: &&GpuProcess| match &device.mig {
        None => true,
        Some(mig) => {
            process.gpu_instance == Some(mig.gpu_instance)
                && process.compute_instance == Some(mig.compute_instance)
        }
    };
    let listed = |process: &&GpuProcess| match list {
        List::Compute => true,
        List::Mps => process.kind == ProcessKind::MpsClient,
        List::Graphics => false,
    };
    let found: Vec<T> = all.iter().filter(inside).filter(listed).map(make).collect();
    count.set(found.len() as c_uint)?;
    if found.len() > room as usize {
        return Err(HostFailure::InsufficientSize);
    }
    if found.is_empty() { Ok(()) } else { infos.set_all(&found) }
}

fn first(process: &GpuProcess) -> nvmlProcessInfo_v1_t {
    nvmlProcessInfo_v1_t {
        pid: process.pid,
        usedGpuMemory: process.memory.map_or(NO_MEMORY, |memory| memory.0),
    }
}

fn second(process: &GpuProcess) -> nvmlProcessInfo_v2_t {
    nvmlProcessInfo_v2_t {
        pid: process.pid,
        usedGpuMemory: process.memory.map_or(NO_MEMORY, |memory| memory.0),
        gpuInstanceId: process.gpu_instance.map_or(NO_INSTANCE, |id| id.0),
        computeInstanceId: process.compute_instance.map_or(NO_INSTANCE, |id| id.0),
    }
}

nvml! {
    fn nvmlDeviceGetComputeRunningProcesses(
        simulation, device: Handle, count: Out<c_uint>, infos: Out<nvmlProcessInfo_v1_t>,
    ) {
        fill(simulation, device, List::Compute, count, infos, first)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2 | nvmlDeviceGetComputeRunningProcesses_v3(
        simulation, device: Handle, count: Out<c_uint>, infos: Out<nvmlProcessInfo_v2_t>,
    ) {
        fill(simulation, device, List::Compute, count, infos, second)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses(
        simulation, device: Handle, count: Out<c_uint>, infos: Out<nvmlProcessInfo_v1_t>,
    ) {
        fill(simulation, device, List::Mps, count, infos, first)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v2 | nvmlDeviceGetMPSComputeRunningProcesses_v3(
        simulation, device: Handle, count: Out<c_uint>, infos: Out<nvmlProcessInfo_v2_t>,
    ) {
        fill(simulation, device, List::Mps, count, infos, second)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses(
        simulation, device: Handle, count: Out<c_uint>, infos: Out<nvmlProcessInfo_v1_t>,
    ) {
        fill(simulation, device, List::Graphics, count, infos, first)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2 | nvmlDeviceGetGraphicsRunningProcesses_v3(
        simulation, device: Handle, count: Out<c_uint>, infos: Out<nvmlProcessInfo_v2_t>,
    ) {
        fill(simulation, device, List::Graphics, count, infos, second)
    }
}
