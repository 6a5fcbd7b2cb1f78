//! MIG devices: compute instances seen as devices of their own.

use crate::abi::{Out, nvml};
use crate::handle::{Handle, Thing};
use crate::session::Answer;
use crate::simulation::{Simulation, said};
use carve_gpu_host::{HostFailure, MigDevice};
use carve_gpu_model::GpuIndex;
use nvml_wrapper_sys::bindings::nvmlDeviceAttributes_t;
use std::ffi::c_uint;

/// The handle of a MIG device; that of a whole GPU is refused.
fn mig_device(simulation: &Simulation, device: Handle) -> Answer<(GpuIndex, MigDevice)> {
    let device = simulation.device(device)?;
    device.mig.map(|mig| (device.gpu, mig)).ok_or(HostFailure::InvalidArgument)
}

/// How many MIG devices the GPU can have at the most; none while MIG is off.
fn most(simulation: &Simulation, gpu: GpuIndex) -> Answer<c_uint> {
    if !simulation.in_mig_mode(gpu)? {
        return Ok(0);
    }
    Ok(c_uint::from(simulation.table(gpu)?.compute_slices()))
}

nvml! {
    fn nvmlDeviceIsMigDeviceHandle(simulation, device: Handle, is_mig: Out<c_uint>) {
        is_mig.set(c_uint::from(simulation.device(device)?.mig.is_some()))
    }

    fn nvmlDeviceGetGpuInstanceId(simulation, device: Handle, id: Out<c_uint>) {
        let (_, mig) = mig_device(simulation, device)?;
        id.set(mig.gpu_instance.0)
    }

    fn nvmlDeviceGetComputeInstanceId(simulation, device: Handle, id: Out<c_uint>) {
        let (_, mig) = mig_device(simulation, device)?;
        id.set(mig.compute_instance.0)
    }

    fn nvmlDeviceGetMaxMigDeviceCount(simulation, device: Handle, count: Out<c_uint>) {
        let gpu = simulation.gpu(device)?;
        count.set(most(simulation, gpu)?)
    }

    fn nvmlDeviceGetMigDeviceHandleByIndex(simulation, device: Handle, index: c_uint, out: Out<Handle>) {
        let gpu = simulation.gpu(device)?;
        let out = out.required()?;
        if !simulation.facts(gpu)?.mig_capable {
            return Err(HostFailure::NotSupported);
        }
        let devices = simulation.shown_migs(gpu, said(simulation.host.mig_devices(gpu))?)?;
        // No index is too high, not even while MIG is off; there just is no device.
        let found = devices.iter().find(|device| device.position == index).ok_or(HostFailure::NotFound)?;
        out.set(Handle::of(Thing::MigDevice(gpu, found.gpu_instance, found.compute_instance)))
    }

    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(simulation, device: Handle, out: Out<Handle>) {
        let (gpu, _) = mig_device(simulation, device)?;
        out.set(Handle::of(Thing::Gpu(gpu)))
    }

    fn nvmlDeviceGetAttributes | nvmlDeviceGetAttributes_v2(
        simulation, device: Handle, attributes: Out<nvmlDeviceAttributes_t>,
    ) {
        let device = simulation.device(device)?;
        // A whole GPU has none.
        let mig = device.mig.ok_or(HostFailure::NotSupported)?;
        attributes.set(nvmlDeviceAttributes_t {
            multiprocessorCount: mig.multiprocessors,
            sharedCopyEngineCount: c_uint::from(mig.engines.copy),
            sharedDecoderCount: c_uint::from(mig.engines.decoder),
            sharedEncoderCount: c_uint::from(mig.engines.encoder),
            sharedJpegCount: c_uint::from(mig.engines.jpeg),
            sharedOfaCount: c_uint::from(mig.engines.ofa),
            gpuInstanceSliceCount: mig.gpu_slices,
            computeInstanceSliceCount: mig.compute_slices,
            memorySizeMB: mig.memory.0,
        })
    }
}
