//! GPU instances: what a GPU can be cut into, and the cutting.

use crate::abi::{In, Out, field, nvml, struct_version};
use crate::handle::{Handle, Thing};
use crate::session::Answer;
use crate::simulation::{Simulation, said};
use carve_gpu_host::{GpuInstance, HostFailure};
use carve_gpu_model::{GpuIndex, GpuProfile, Placed, Placement, ProfileId, ProfileIndex};
use nvml_wrapper_sys::bindings::{
    nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_t,
    nvmlGpuInstanceProfileInfo_v2_t, nvmlGpuInstanceProfileInfo_v3_t,
};
use std::ffi::c_uint;

/// One past the highest profile index that the driver of these machines knows, unless its GPU has it anyway.
const PROFILE_INDICES: u32 = 17;

/// In version 3, profiles that serve graphics say so.
const GRAPHICS: c_uint = 2;

/// The profile at NVML's index. Known indices that this GPU lacks are "not supported", others are nonsense.
fn by_index(simulation: &Simulation, gpu: GpuIndex, index: c_uint) -> Answer<GpuProfile> {
    let table = said(simulation.host.profile_table(gpu));
    if let Ok(table) = &table
        && let Some((_, profile)) = table.by_index(ProfileIndex(index))
    {
        return Ok(profile.clone());
    }
    if index >= PROFILE_INDICES {
        return Err(HostFailure::InvalidArgument);
    }
    table.and(Err(HostFailure::NotSupported))
}

/// The profile with the id that creation takes.
fn by_id(simulation: &Simulation, gpu: GpuIndex, id: c_uint) -> Answer<GpuProfile> {
    let table = simulation.table(gpu)?;
    table.by_id(ProfileId(id)).map(|(_, profile)| profile.clone()).ok_or(HostFailure::InvalidArgument)
}

fn profile_info(profile: &GpuProfile) -> nvmlGpuInstanceProfileInfo_t {
    let engines = profile.engines;
    nvmlGpuInstanceProfileInfo_t {
        id: profile.id.0,
        isP2pSupported: 0,
        sliceCount: c_uint::from(profile.slices),
        instanceCount: c_uint::from(profile.max_instances),
        multiprocessorCount: profile.multiprocessors.map_or(0, |fact| c_uint::from(fact.value)),
        copyEngineCount: c_uint::from(engines.copy),
        decoderCount: c_uint::from(engines.decoder),
        encoderCount: c_uint::from(engines.encoder),
        jpegCount: c_uint::from(engines.jpeg),
        ofaCount: c_uint::from(engines.ofa),
        memorySizeMB: profile.memory.map_or(0, |fact| fact.value.0),
    }
}

/// Writes the version of the struct that the caller announced in its first field.
fn versioned_profile_info(profile: &GpuProfile, info: Out<nvmlGpuInstanceProfileInfo_v2_t>) -> Answer {
    // Only the first field is read: the caller's struct may be of any version.
    let version = info.cast::<c_uint>().get()?;
    let plain = profile_info(profile);
    let name = field(&format!("MIG {}", profile.name));
    if version == struct_version::<nvmlGpuInstanceProfileInfo_v2_t>(2) {
        return info.set(nvmlGpuInstanceProfileInfo_v2_t {
            version,
            id: plain.id,
            isP2pSupported: plain.isP2pSupported,
            sliceCount: plain.sliceCount,
            instanceCount: plain.instanceCount,
            multiprocessorCount: plain.multiprocessorCount,
            copyEngineCount: plain.copyEngineCount,
            decoderCount: plain.decoderCount,
            encoderCount: plain.encoderCount,
            jpegCount: plain.jpegCount,
            ofaCount: plain.ofaCount,
            memorySizeMB: plain.memorySizeMB,
            name,
        });
    }
    if version == struct_version::<nvmlGpuInstanceProfileInfo_v3_t>(3) {
        let graphics = profile.name.attributes().iter().any(|attribute| attribute == "gfx");
        return info.cast().set(nvmlGpuInstanceProfileInfo_v3_t {
            version,
            id: plain.id,
            sliceCount: plain.sliceCount,
            instanceCount: plain.instanceCount,
            multiprocessorCount: plain.multiprocessorCount,
            copyEngineCount: plain.copyEngineCount,
            decoderCount: plain.decoderCount,
            encoderCount: plain.encoderCount,
            jpegCount: plain.jpegCount,
            ofaCount: plain.ofaCount,
            memorySizeMB: plain.memorySizeMB,
            name,
            capabilities: if graphics { GRAPHICS } else { 0 },
        });
    }
    // The newer code for this is used by other functions only.
    Err(HostFailure::InvalidArgument)
}

/// How many more instances of a profile fit beside what is there.
fn remaining(simulation: &Simulation, gpu: GpuIndex, profile: &GpuProfile) -> Answer<usize> {
    let table = simulation.table(gpu)?;
    let (slot, _) = table.by_id(profile.id).ok_or(HostFailure::InvalidArgument)?;
    let instances = said(simulation.host.plain().gpu_instances(gpu))?;
    let seen = |instance: &GpuInstance| {
        table.by_id(instance.profile).map(|(profile, _)| Placed { profile, start: instance.placement.start })
    };
    let mut placed: Vec<Placed> = instances.iter().filter_map(seen).collect();
    let before = placed.len();
    // Placements of one profile never overlap in part, so taking each that fits is the best there is.
    for placement in &profile.placements {
        placed.push(Placed { profile: slot, start: placement.start });
        if table.check(&placed).is_err() {
            placed.pop();
        }
    }
    Ok(placed.len() - before)
}

fn placement_out(placement: Placement) -> nvmlGpuInstancePlacement_t {
    nvmlGpuInstancePlacement_t { start: c_uint::from(placement.start), size: c_uint::from(placement.size) }
}

fn tell_placements(
    simulation: &Simulation,
    device: Handle,
    id: c_uint,
    placements: Out<nvmlGpuInstancePlacement_t>,
    count: Out<c_uint>,
) -> Answer {
    let gpu = simulation.gpu(device)?;
    let (placements, count) = (placements.required()?, count.required()?);
    let profile = by_id(simulation, gpu, id)?;
    let all: Vec<_> = profile.placements.iter().copied().map(placement_out).collect();
    placements.set_all(&all)?;
    count.set(all.len() as c_uint)
}

fn create(
    simulation: &mut Simulation,
    device: Handle,
    profile: c_uint,
    at: Option<Placement>,
    out: Out<Handle>,
) -> Answer {
    let gpu = simulation.gpu(device)?;
    let out = out.required()?;
    let made = said(simulation.host.create_gpu_instance(gpu, ProfileId(profile), at))?;
    out.set(Handle::of(Thing::GpuInstance(gpu, made.id)))
}

nvml! {
    fn nvmlDeviceGetGpuInstanceProfileInfo(
        simulation, device: Handle, index: c_uint, info: Out<nvmlGpuInstanceProfileInfo_t>,
    ) {
        let gpu = simulation.gpu(device)?;
        info.set(profile_info(&by_index(simulation, gpu, index)?))
    }

    fn nvmlDeviceGetGpuInstanceProfileInfoV(
        simulation, device: Handle, index: c_uint, info: Out<nvmlGpuInstanceProfileInfo_v2_t>,
    ) {
        let gpu = simulation.gpu(device)?;
        versioned_profile_info(&by_index(simulation, gpu, index)?, info)
    }

    fn nvmlDeviceGetGpuInstanceProfileInfoByIdV(
        simulation, device: Handle, id: c_uint, info: Out<nvmlGpuInstanceProfileInfo_v2_t>,
    ) {
        let gpu = simulation.gpu(device)?;
        versioned_profile_info(&by_id(simulation, gpu, id)?, info)
    }

    // With no array only the number is told; with one, the caller has learned the number before.
    fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        simulation, device: Handle, id: c_uint, placements: Out<nvmlGpuInstancePlacement_t>, count: Out<c_uint>,
    ) {
        if placements.is_null() {
            let gpu = simulation.gpu(device)?;
            return count.set(by_id(simulation, gpu, id)?.placements.len() as c_uint);
        }
        tell_placements(simulation, device, id, placements, count)
    }

    // The first version does not tell the number alone.
    fn nvmlDeviceGetGpuInstancePossiblePlacements(
        simulation, device: Handle, id: c_uint, placements: Out<nvmlGpuInstancePlacement_t>, count: Out<c_uint>,
    ) {
        tell_placements(simulation, device, id, placements, count)
    }

    // While MIG is off, the GPU counts as empty.
    fn nvmlDeviceGetGpuInstanceRemainingCapacity(
        simulation, device: Handle, id: c_uint, count: Out<c_uint>,
    ) {
        let gpu = simulation.gpu(device)?;
        let profile = by_id(simulation, gpu, id)?;
        count.set(remaining(simulation, gpu, &profile)? as c_uint)
    }

    fn nvmlDeviceCreateGpuInstance(simulation, device: Handle, profile: c_uint, out: Out<Handle>) {
        create(simulation, device, profile, None, out)
    }

    fn nvmlDeviceCreateGpuInstanceWithPlacement(
        simulation, device: Handle, profile: c_uint, at: In<nvmlGpuInstancePlacement_t>, out: Out<Handle>,
    ) {
        let at = at.get()?;
        let slot = |number: c_uint| u8::try_from(number).map_err(|_| HostFailure::InvalidArgument);
        let at = Placement::new(slot(at.start)?, slot(at.size)?);
        create(simulation, device, profile, Some(at), out)
    }

    fn nvmlGpuInstanceDestroy(simulation, instance: Handle) {
        let (gpu, instance) = simulation.gpu_instance(instance)?;
        said(simulation.host.destroy_gpu_instance(gpu, instance.id))
    }

    // The array has room for as many as the profile may have at once.
    fn nvmlDeviceGetGpuInstances(
        simulation, device: Handle, id: c_uint, instances: Out<Handle>, count: Out<c_uint>,
    ) {
        let gpu = simulation.gpu(device)?;
        let (instances, count) = (instances.required()?, count.required()?);
        let profile = by_id(simulation, gpu, id)?;
        let all = said(simulation.host.gpu_instances(gpu))?;
        let alike: Vec<Handle> = all
            .iter()
            .filter(|instance| instance.profile == profile.id)
            .map(|instance| Handle::of(Thing::GpuInstance(gpu, instance.id)))
            .collect();
        instances.set_all(&alike)?;
        count.set(alike.len() as c_uint)
    }

    fn nvmlDeviceGetGpuInstanceById(simulation, device: Handle, id: c_uint, out: Out<Handle>) {
        let gpu = simulation.gpu(device)?;
        let all = said(simulation.host.gpu_instances(gpu))?;
        let found = all.iter().find(|instance| instance.id.0 == id).ok_or(HostFailure::NotFound)?;
        out.set(Handle::of(Thing::GpuInstance(gpu, found.id)))
    }

    fn nvmlGpuInstanceGetInfo(simulation, instance: Handle, info: Out<nvmlGpuInstanceInfo_t>) {
        let (gpu, instance) = simulation.gpu_instance(instance)?;
        info.set(nvmlGpuInstanceInfo_t {
            device: Handle::of(Thing::Gpu(gpu)).pointer(),
            id: instance.id.0,
            profileId: instance.profile.0,
            placement: placement_out(instance.placement),
        })
    }
}
