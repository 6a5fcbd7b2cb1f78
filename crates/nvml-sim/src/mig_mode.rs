//! MIG mode of a GPU.

use crate::abi::{Out, nvml};
use crate::handle::Handle;
use crate::simulation::said;
use carve_gpu_host::{HostFailure, ModeOutcome};
use std::ffi::c_uint;

nvml! {
    fn nvmlDeviceGetMigMode(simulation, device: Handle, current: Out<c_uint>, pending: Out<c_uint>) {
        let gpu = simulation.gpu(device)?;
        pending.required()?;
        let mode = said(simulation.host.mig_mode(gpu))?.ok_or(HostFailure::NotSupported)?;
        current.set(c_uint::from(mode.current))?;
        pending.set(c_uint::from(mode.pending))
    }

    // The return code tells whether the wish was taken, the status whether it holds already.
    fn nvmlDeviceSetMigMode(simulation, device: Handle, mode: c_uint, status: Out<c_uint>) {
        let gpu = simulation.gpu(device)?;
        let status = status.required()?;
        let enabled = match mode {
            0 => false,
            1 => true,
            _ => return Err(HostFailure::InvalidArgument),
        };
        match said(simulation.host.set_mig_mode(gpu, enabled))? {
            ModeOutcome::Done => status.set(0),
            ModeOutcome::NeedsReset => status.set(HostFailure::ResetRequired.code()),
        }
    }
}
