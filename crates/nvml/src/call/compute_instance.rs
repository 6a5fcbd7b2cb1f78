//! Calls about compute instances.

use super::{Answer, Calls, Instance, Part, call, or_older};
use nvml_wrapper_sys::bindings::{
    nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t, nvmlComputeInstanceProfileInfo_t,
};
use std::ptr::null_mut;

/// All compute instances share the engines of their GPU instance; NVML has no other engine profile.
const SHARED_ENGINES: u32 = 0;

/// More parts than any GPU instance has.
const MOST_PARTS: u32 = 64;

impl Calls {
    pub(crate) fn compute_profile(
        &self,
        instance: Instance,
        index: u32,
    ) -> Answer<nvmlComputeInstanceProfileInfo_t> {
        let mut info = nvmlComputeInstanceProfileInfo_t {
            id: 0,
            sliceCount: 0,
            instanceCount: 0,
            multiprocessorCount: 0,
            sharedCopyEngineCount: 0,
            sharedDecoderCount: 0,
            sharedEncoderCount: 0,
            sharedJpegCount: 0,
            sharedOfaCount: 0,
        };
        let shared = SHARED_ENGINES;
        call!(self, nvmlGpuInstanceGetComputeInstanceProfileInfo(instance.0, index, shared, &mut info))?;
        Ok(info)
    }

    /// Compute instances of a profile, by its id.
    pub(crate) fn compute_instances(&self, instance: Instance, id: u32, most: u32) -> Answer<Vec<Part>> {
        let mut count = most.max(MOST_PARTS);
        let mut handles = vec![null_mut(); count as usize];
        call!(self, nvmlGpuInstanceGetComputeInstances(instance.0, id, handles.as_mut_ptr(), &mut count))?;
        handles.truncate(count as usize);
        Ok(handles.into_iter().map(Part).collect())
    }

    pub(crate) fn compute_instance(&self, instance: Instance, id: u32) -> Answer<Part> {
        let mut part = null_mut();
        call!(self, nvmlGpuInstanceGetComputeInstanceById(instance.0, id, &mut part))?;
        Ok(Part(part))
    }

    /// Id and profile id of a compute instance.
    pub(crate) fn compute_instance_info(&self, part: Part) -> Answer<(u32, u32)> {
        let mut info = nvmlComputeInstanceInfo_t {
            device: null_mut(),
            gpuInstance: null_mut(),
            id: 0,
            profileId: 0,
            placement: nvmlComputeInstancePlacement_t { start: 0, size: 0 },
        };
        or_older(call!(self, nvmlComputeInstanceGetInfo_v2(part.0, &mut info)), || {
            call!(self, nvmlComputeInstanceGetInfo(part.0, &mut info))
        })?;
        Ok((info.id, info.profileId))
    }

    pub(crate) fn create_compute_instance(&self, instance: Instance, id: u32) -> Answer<Part> {
        let mut part = null_mut();
        call!(self, nvmlGpuInstanceCreateComputeInstance(instance.0, id, &mut part))?;
        Ok(Part(part))
    }

    pub(crate) fn destroy_compute_instance(&self, part: Part) -> Answer {
        call!(self, nvmlComputeInstanceDestroy(part.0))
    }
}
