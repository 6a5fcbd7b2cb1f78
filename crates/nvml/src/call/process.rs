//! Calls about processes: three versions of each list, of which the newest there is counts.

use super::{Answer, Calls, Device, call, or_older};
use carve_gpu_host::HostFailure;
use nvml_wrapper_sys::bindings::{nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t};

/// Room for processes in the first try.
const FIRST_ROOM: u32 = 64;
/// Tries before giving up on a list that grows while it is read.
const TRIES: u32 = 5;

/// What the first version does not tell.
const NOT_TOLD: u32 = u32::MAX;

const EMPTY_FIRST: nvmlProcessInfo_v1_t = nvmlProcessInfo_v1_t { pid: 0, usedGpuMemory: 0 };
const EMPTY: nvmlProcessInfo_v2_t =
    nvmlProcessInfo_v2_t { pid: 0, usedGpuMemory: 0, gpuInstanceId: NOT_TOLD, computeInstanceId: NOT_TOLD };

/// Asks with more room until the list fits.
fn whole_list<T: Copy>(empty: T, mut ask: impl FnMut(&mut u32, *mut T) -> Answer) -> Answer<Vec<T>> {
    let mut room = FIRST_ROOM;
    for _ in 0..TRIES {
        let mut list = vec![empty; room as usize];
        let mut count = room;
        match ask(&mut count, list.as_mut_ptr()) {
            Ok(()) => {
                list.truncate(count as usize);
                return Ok(list);
            }
            Err(HostFailure::InsufficientSize) => room = count.max(room).saturating_mul(2).min(1 << 20),
            Err(failure) => return Err(failure),
        }
    }
    Err(HostFailure::InsufficientSize)
}

fn with_instances(first: Vec<nvmlProcessInfo_v1_t>) -> Vec<nvmlProcessInfo_v2_t> {
    let later = |process: nvmlProcessInfo_v1_t| nvmlProcessInfo_v2_t {
        pid: process.pid,
        usedGpuMemory: process.usedGpuMemory,
        ..EMPTY
    };
    first.into_iter().map(later).collect()
}

impl Calls {
    /// Everything that computes on a GPU.
    pub(crate) fn compute_processes(&self, device: Device) -> Answer<Vec<nvmlProcessInfo_v2_t>> {
        let third = whole_list(EMPTY, |count, list| {
            call!(self, nvmlDeviceGetComputeRunningProcesses_v3(device.0, count, list))
        });
        let second = || {
            whole_list(EMPTY, |count, list| {
                call!(self, nvmlDeviceGetComputeRunningProcesses_v2(device.0, count, list))
            })
        };
        let first = || {
            whole_list(EMPTY_FIRST, |count, list| {
                call!(self, nvmlDeviceGetComputeRunningProcesses(device.0, count, list))
            })
        };
        or_older(or_older(third, second), || first().map(with_instances))
    }

    /// Clients of an MPS server.
    pub(crate) fn mps_processes(&self, device: Device) -> Answer<Vec<nvmlProcessInfo_v2_t>> {
        let third = whole_list(EMPTY, |count, list| {
            call!(self, nvmlDeviceGetMPSComputeRunningProcesses_v3(device.0, count, list))
        });
        let second = || {
            whole_list(EMPTY, |count, list| {
                call!(self, nvmlDeviceGetMPSComputeRunningProcesses_v2(device.0, count, list))
            })
        };
        let first = || {
            whole_list(EMPTY_FIRST, |count, list| {
                call!(self, nvmlDeviceGetMPSComputeRunningProcesses(device.0, count, list))
            })
        };
        or_older(or_older(third, second), || first().map(with_instances))
    }
}
