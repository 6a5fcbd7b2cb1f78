//! Calls about GPU instances.

use super::{Answer, Calls, Device, Instance, call, or_older};
use nvml_wrapper_sys::bindings::{
    nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_t,
};
use std::ptr::null_mut;

/// Room for placements where the number can not be asked first: more than any GPU has slots.
const MOST_PLACEMENTS: usize = 64;

const NO_PLACEMENT: nvmlGpuInstancePlacement_t = nvmlGpuInstancePlacement_t { start: 0, size: 0 };

impl Calls {
    pub(crate) fn gpu_profile(&self, device: Device, index: u32) -> Answer<nvmlGpuInstanceProfileInfo_t> {
        let mut info = nvmlGpuInstanceProfileInfo_t {
            id: 0,
            isP2pSupported: 0,
            sliceCount: 0,
            instanceCount: 0,
            multiprocessorCount: 0,
            copyEngineCount: 0,
            decoderCount: 0,
            encoderCount: 0,
            jpegCount: 0,
            ofaCount: 0,
            memorySizeMB: 0,
        };
        call!(self, nvmlDeviceGetGpuInstanceProfileInfo(device.0, index, &mut info))?;
        Ok(info)
    }

    /// Legal placements of a profile, by its id.
    pub(crate) fn placements(&self, device: Device, id: u32) -> Answer<Vec<nvmlGpuInstancePlacement_t>> {
        let newer = || {
            let mut count = 0;
            call!(self, nvmlDeviceGetGpuInstancePossiblePlacements_v2(device.0, id, null_mut(), &mut count))?;
            let mut placements = vec![NO_PLACEMENT; (count as usize).max(MOST_PLACEMENTS)];
            let array = placements.as_mut_ptr();
            call!(self, nvmlDeviceGetGpuInstancePossiblePlacements_v2(device.0, id, array, &mut count))?;
            placements.truncate(count as usize);
            Ok(placements)
        };
        or_older(newer(), || {
            let mut placements = vec![NO_PLACEMENT; MOST_PLACEMENTS];
            let mut count = MOST_PLACEMENTS as u32;
            let array = placements.as_mut_ptr();
            call!(self, nvmlDeviceGetGpuInstancePossiblePlacements(device.0, id, array, &mut count))?;
            placements.truncate(count as usize);
            Ok(placements)
        })
    }

    /// GPU instances of a profile, by its id; there are at most `most`.
    pub(crate) fn gpu_instances(&self, device: Device, id: u32, most: u32) -> Answer<Vec<Instance>> {
        // The library writes as many as exist; a little more room costs nothing and forgives a wrong limit.
        let mut count = most.max(MOST_PLACEMENTS as u32);
        let mut handles = vec![null_mut(); count as usize];
        call!(self, nvmlDeviceGetGpuInstances(device.0, id, handles.as_mut_ptr(), &mut count))?;
        handles.truncate(count as usize);
        Ok(handles.into_iter().map(Instance).collect())
    }

    pub(crate) fn gpu_instance(&self, device: Device, id: u32) -> Answer<Instance> {
        let mut instance = null_mut();
        call!(self, nvmlDeviceGetGpuInstanceById(device.0, id, &mut instance))?;
        Ok(Instance(instance))
    }

    pub(crate) fn gpu_instance_info(&self, instance: Instance) -> Answer<nvmlGpuInstanceInfo_t> {
        let mut info =
            nvmlGpuInstanceInfo_t { device: null_mut(), id: 0, profileId: 0, placement: NO_PLACEMENT };
        call!(self, nvmlGpuInstanceGetInfo(instance.0, &mut info))?;
        Ok(info)
    }

    pub(crate) fn create_gpu_instance(
        &self,
        device: Device,
        profile: u32,
        at: Option<(u32, u32)>,
    ) -> Answer<Instance> {
        let mut instance = null_mut();
        match at {
            None => call!(self, nvmlDeviceCreateGpuInstance(device.0, profile, &mut instance))?,
            Some((start, size)) => {
                let at = nvmlGpuInstancePlacement_t { start, size };
                call!(self, nvmlDeviceCreateGpuInstanceWithPlacement(device.0, profile, &at, &mut instance))?;
            }
        }
        Ok(Instance(instance))
    }

    pub(crate) fn destroy_gpu_instance(&self, instance: Instance) -> Answer {
        call!(self, nvmlGpuInstanceDestroy(instance.0))
    }
}
