//! Compute instances: how a GPU instance can be divided, and the dividing.

use crate::abi::{Out, VERSION_MISMATCH, field, nvml, struct_version};
use crate::handle::{Handle, Thing};
use crate::session::Answer;
use crate::simulation::{Simulation, said};
use carve_gpu_host::{ComputeInstance, GpuInstance, HostFailure};
use carve_gpu_model::{ComputeProfile, ComputeProfileIndex, Engines, GpuIndex};
use nvml_wrapper_sys::bindings::{
    nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t, nvmlComputeInstanceProfileInfo_t,
    nvmlComputeInstanceProfileInfo_v2_t, nvmlComputeInstanceProfileInfo_v3_t, nvmlDevice_t,
    nvmlGpuInstance_t,
};
use std::ffi::c_uint;

/// What the first version of a compute instance's facts had.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ComputeInstanceInfoV1 {
    device: nvmlDevice_t,
    gpu_instance: nvmlGpuInstance_t,
    id: c_uint,
    profile_id: c_uint,
}

/// The profile at NVML's index, with the engines that its parts share.
fn by_index(
    simulation: &Simulation,
    instance: Handle,
    index: c_uint,
    engine_profile: c_uint,
) -> Answer<(ComputeProfile, Engines, String)> {
    let (gpu, instance) = simulation.gpu_instance(instance)?;
    // There is one engine profile: all compute instances share the engines of their GPU instance.
    if index >= ComputeProfileIndex::COUNT || engine_profile != 0 {
        return Err(HostFailure::InvalidArgument);
    }
    let offered = said(simulation.host.compute_profiles(gpu, instance.id))?;
    let found = offered.into_iter().find(|offer| offer.index.0 == index).ok_or(HostFailure::NotSupported)?;
    let whole = simulation.gpu_profile(gpu, &instance)?;
    let name = whole.name.with_compute_slices(u64::from(found.slices));
    Ok((found, whole.engines, format!("MIG {name}")))
}

fn profile_info(profile: &ComputeProfile, engines: Engines) -> nvmlComputeInstanceProfileInfo_t {
    nvmlComputeInstanceProfileInfo_t {
        id: profile.index.0,
        sliceCount: c_uint::from(profile.slices),
        instanceCount: c_uint::from(profile.max_instances),
        multiprocessorCount: c_uint::from(profile.multiprocessors.unwrap_or(0)),
        sharedCopyEngineCount: c_uint::from(engines.copy),
        sharedDecoderCount: c_uint::from(engines.decoder),
        sharedEncoderCount: c_uint::from(engines.encoder),
        sharedJpegCount: c_uint::from(engines.jpeg),
        sharedOfaCount: c_uint::from(engines.ofa),
    }
}

/// The driver lays parts out one after the other; the simulated machine keeps no places, so they follow from the
/// order of ids.
fn placement(
    simulation: &Simulation,
    gpu: GpuIndex,
    instance: &GpuInstance,
    part: &ComputeInstance,
) -> Answer<nvmlComputeInstancePlacement_t> {
    let parts = said(simulation.host.plain().compute_instances(gpu, instance.id))?;
    let slices = |part: &ComputeInstance| c_uint::from(part.profile.slices().unwrap_or(0));
    let start = parts.iter().filter(|other| other.id < part.id).map(slices).sum();
    Ok(nvmlComputeInstancePlacement_t { start, size: slices(part) })
}

nvml! {
    fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
        simulation, instance: Handle, index: c_uint, engines: c_uint, info: Out<nvmlComputeInstanceProfileInfo_t>,
    ) {
        let (profile, engines, _) = by_index(simulation, instance, index, engines)?;
        info.set(profile_info(&profile, engines))
    }

    fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        simulation, instance: Handle, index: c_uint, engines: c_uint,
        info: Out<nvmlComputeInstanceProfileInfo_v2_t>,
    ) {
        let (profile, engines, name) = by_index(simulation, instance, index, engines)?;
        let plain = profile_info(&profile, engines);
        let version = info.cast::<c_uint>().get()?;
        let second = nvmlComputeInstanceProfileInfo_v2_t {
            version,
            id: plain.id,
            sliceCount: plain.sliceCount,
            instanceCount: plain.instanceCount,
            multiprocessorCount: plain.multiprocessorCount,
            sharedCopyEngineCount: plain.sharedCopyEngineCount,
            sharedDecoderCount: plain.sharedDecoderCount,
            sharedEncoderCount: plain.sharedEncoderCount,
            sharedJpegCount: plain.sharedJpegCount,
            sharedOfaCount: plain.sharedOfaCount,
            name: field(&name),
        };
        if version == struct_version::<nvmlComputeInstanceProfileInfo_v2_t>(2) {
            return info.set(second);
        }
        if version != struct_version::<nvmlComputeInstanceProfileInfo_v3_t>(3) {
            return Err(VERSION_MISMATCH);
        }
        // The third version is the second with one field more behind it.
        info.set(second)?;
        info.cast::<nvmlComputeInstanceProfileInfo_v3_t>().get().and_then(|third| {
            info.cast().set(nvmlComputeInstanceProfileInfo_v3_t { capabilities: 0, ..third })
        })
    }

    fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
        simulation, instance: Handle, id: c_uint, count: Out<c_uint>,
    ) {
        let (profile, _, _) = by_index(simulation, instance, id, 0)?;
        let (gpu, instance) = simulation.gpu_instance(instance)?;
        let whole = simulation.gpu_profile(gpu, &instance)?;
        let parts = said(simulation.host.plain().compute_instances(gpu, instance.id))?;
        let taken: u8 = parts.iter().filter_map(|part| part.profile.slices()).sum();
        let alike = parts.iter().filter(|part| part.profile == profile.index).count() as c_uint;
        let by_slices = c_uint::from(whole.slices.saturating_sub(taken) / profile.slices.max(1));
        count.set(by_slices.min(c_uint::from(profile.max_instances).saturating_sub(alike)))
    }

    fn nvmlGpuInstanceCreateComputeInstance(simulation, instance: Handle, id: c_uint, out: Out<Handle>) {
        let (gpu, instance) = simulation.gpu_instance(instance)?;
        let out = out.required()?;
        let profile = ComputeProfileIndex(id);
        let made = said(simulation.host.create_compute_instance(gpu, instance.id, profile))?;
        out.set(Handle::of(Thing::ComputeInstance(gpu, instance.id, made.id)))
    }

    fn nvmlComputeInstanceDestroy(simulation, part: Handle) {
        let (gpu, instance, part) = simulation.compute_instance(part)?;
        said(simulation.host.destroy_compute_instance(gpu, instance.id, part.id))
    }

    fn nvmlGpuInstanceGetComputeInstances(
        simulation, instance: Handle, id: c_uint, parts: Out<Handle>, count: Out<c_uint>,
    ) {
        let (gpu, instance) = simulation.gpu_instance(instance)?;
        let (parts, count) = (parts.required()?, count.required()?);
        let all = said(simulation.host.compute_instances(gpu, instance.id))?;
        let alike: Vec<Handle> = all
            .iter()
            .filter(|part| part.profile.0 == id)
            .map(|part| Handle::of(Thing::ComputeInstance(gpu, instance.id, part.id)))
            .collect();
        parts.set_all(&alike)?;
        count.set(alike.len() as c_uint)
    }

    fn nvmlGpuInstanceGetComputeInstanceById(simulation, instance: Handle, id: c_uint, out: Out<Handle>) {
        let (gpu, instance) = simulation.gpu_instance(instance)?;
        let all = said(simulation.host.compute_instances(gpu, instance.id))?;
        let found = all.iter().find(|part| part.id.0 == id).ok_or(HostFailure::NotFound)?;
        out.set(Handle::of(Thing::ComputeInstance(gpu, instance.id, found.id)))
    }

    fn nvmlComputeInstanceGetInfo(simulation, part: Handle, info: Out<ComputeInstanceInfoV1>) {
        let (gpu, instance, part) = simulation.compute_instance(part)?;
        info.set(ComputeInstanceInfoV1 {
            device: Handle::of(Thing::Gpu(gpu)).pointer(),
            gpu_instance: Handle::of(Thing::GpuInstance(gpu, instance.id)).pointer(),
            id: part.id.0,
            profile_id: part.profile.0,
        })
    }

    fn nvmlComputeInstanceGetInfo_v2(simulation, part: Handle, info: Out<nvmlComputeInstanceInfo_t>) {
        let (gpu, instance, part) = simulation.compute_instance(part)?;
        info.set(nvmlComputeInstanceInfo_t {
            device: Handle::of(Thing::Gpu(gpu)).pointer(),
            gpuInstance: Handle::of(Thing::GpuInstance(gpu, instance.id)).pointer(),
            id: part.id.0,
            profileId: part.profile.0,
            placement: placement(simulation, gpu, &instance, &part)?,
        })
    }
}
