//! GPU instances, compute instances and MIG devices, as the driver reports them.

use crate::Nvml;
use crate::call::{Answer, Instance};
use carve_gpu_host::{ComputeInstance, GpuInstance, HostFailure, MigDevice};
use carve_gpu_model::{
    Bytes, ComputeInstanceId, ComputeProfile, ComputeProfileIndex, Engines, GpuIndex, GpuInstanceId,
    Mebibytes, MigUuid, Placement, ProfileId, ProfileIndex, ProfileTable, ReportedProfile,
};
use nvml_wrapper_sys::bindings::{
    nvmlComputeInstanceProfileInfo_t, nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_t,
};

/// What a GPU lacks is told in either way, depending on the driver.
fn if_offered<T>(answer: Answer<T>) -> Answer<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(HostFailure::NotSupported | HostFailure::InvalidArgument | HostFailure::NotFound) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A small number out of C's wide ones; nothing real is cut off.
fn small(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn placement(told: nvmlGpuInstancePlacement_t) -> Placement {
    Placement::new(small(told.start), small(told.size))
}

impl Nvml {
    /// Every profile the GPU offers, with NVML's index.
    fn profiles(&self, gpu: GpuIndex) -> Answer<Vec<(ProfileIndex, nvmlGpuInstanceProfileInfo_t)>> {
        let device = self.device(gpu)?;
        let mut found = Vec::new();
        for index in 0..ProfileIndex::COUNT {
            if let Some(info) = if_offered(self.calls.gpu_profile(device, index))? {
                found.push((ProfileIndex(index), info));
            }
        }
        Ok(found)
    }

    /// The profile table. Placements are the driver's too; a profile without any can not be created and is left out.
    pub(crate) fn reported_table(&self, gpu: GpuIndex) -> Answer<ProfileTable> {
        let device = self.device(gpu)?;
        let mut reported = Vec::new();
        for (index, info) in self.profiles(gpu)? {
            let placements = if_offered(self.calls.placements(device, info.id))?.unwrap_or_default();
            if placements.is_empty() {
                continue;
            }
            reported.push(ReportedProfile {
                index,
                id: ProfileId(info.id),
                slices: small(info.sliceCount),
                max_instances: small(info.instanceCount),
                memory: Mebibytes(info.memorySizeMB),
                multiprocessors: u16::try_from(info.multiprocessorCount).unwrap_or(u16::MAX),
                engines: Engines {
                    copy: small(info.copyEngineCount),
                    decoder: small(info.decoderCount),
                    encoder: small(info.encoderCount),
                    jpeg: small(info.jpegCount),
                    ofa: small(info.ofaCount),
                },
                placements: placements.into_iter().map(placement).collect(),
            });
        }
        if reported.is_empty() {
            return Err(HostFailure::NotSupported);
        }
        Ok(ProfileTable::from_report(reported, Bytes(self.calls.memory(device)?.total)))
    }

    /// GPU instances, by ascending id; none while MIG is off, where the driver would refuse to tell.
    pub(crate) fn instances_on(&self, gpu: GpuIndex) -> Answer<Vec<GpuInstance>> {
        let device = self.device(gpu)?;
        if !self.mode(device)?.is_some_and(|mode| mode.current) {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for (_, info) in self.profiles(gpu)? {
            for handle in self.calls.gpu_instances(device, info.id, info.instanceCount)? {
                found.push(self.instance_facts(handle)?);
            }
        }
        found.sort_by_key(|instance| instance.id);
        Ok(found)
    }

    pub(crate) fn instance_facts(&self, handle: Instance) -> Answer<GpuInstance> {
        let info = self.calls.gpu_instance_info(handle)?;
        Ok(GpuInstance {
            id: GpuInstanceId(info.id),
            profile: ProfileId(info.profileId),
            placement: placement(info.placement),
        })
    }

    pub(crate) fn instance(&self, gpu: GpuIndex, id: GpuInstanceId) -> Answer<Instance> {
        self.calls.gpu_instance(self.device(gpu)?, id.0)
    }

    /// Every compute profile a GPU instance offers, with NVML's index.
    fn part_profiles(
        &self,
        instance: Instance,
    ) -> Answer<Vec<(ComputeProfileIndex, nvmlComputeInstanceProfileInfo_t)>> {
        let mut found = Vec::new();
        for index in 0..ComputeProfileIndex::COUNT {
            if let Some(info) = if_offered(self.calls.compute_profile(instance, index))? {
                found.push((ComputeProfileIndex(index), info));
            }
        }
        Ok(found)
    }

    pub(crate) fn offered_parts(&self, gpu: GpuIndex, id: GpuInstanceId) -> Answer<Vec<ComputeProfile>> {
        let offered =
            |(index, info): (ComputeProfileIndex, nvmlComputeInstanceProfileInfo_t)| ComputeProfile {
                index,
                slices: small(info.sliceCount),
                max_instances: small(info.instanceCount),
                multiprocessors: u16::try_from(info.multiprocessorCount).ok().filter(|number| *number > 0),
            };
        let profiles = self.part_profiles(self.instance(gpu, id)?)?;
        let mut offered: Vec<ComputeProfile> = profiles.into_iter().map(offered).collect();
        offered.sort_by_key(|profile| (profile.slices, profile.index));
        Ok(offered)
    }

    pub(crate) fn parts_of(&self, gpu: GpuIndex, id: GpuInstanceId) -> Answer<Vec<ComputeInstance>> {
        let instance = self.instance(gpu, id)?;
        let mut found = Vec::new();
        for (profile, info) in self.part_profiles(instance)? {
            for handle in self.calls.compute_instances(instance, info.id, info.instanceCount)? {
                let (id, _) = self.calls.compute_instance_info(handle)?;
                found.push(ComputeInstance { id: ComputeInstanceId(id), profile });
            }
        }
        found.sort_by_key(|part| part.id);
        found.dedup_by_key(|part| part.id);
        Ok(found)
    }

    /// MIG devices, in the driver's order. Positions without a device are gaps, not the end.
    pub(crate) fn devices_of(&self, gpu: GpuIndex) -> Answer<Vec<MigDevice>> {
        let device = self.device(gpu)?;
        if !self.mode(device)?.is_some_and(|mode| mode.current) {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for position in 0..self.calls.most_mig_devices(device)? {
            let Some(mig) = if_offered(self.calls.mig_device(device, position))? else { continue };
            let (instance, part) = self.calls.mig_device_ids(mig)?;
            let attributes = self.calls.attributes(mig)?;
            found.push(MigDevice {
                uuid: MigUuid(self.calls.uuid(mig)?),
                position,
                gpu_instance: GpuInstanceId(instance),
                compute_instance: ComputeInstanceId(part),
                memory: Mebibytes(attributes.memorySizeMB),
                multiprocessors: attributes.multiprocessorCount,
                gpu_slices: attributes.gpuInstanceSliceCount,
                compute_slices: attributes.computeInstanceSliceCount,
                engines: Engines {
                    copy: small(attributes.sharedCopyEngineCount),
                    decoder: small(attributes.sharedDecoderCount),
                    encoder: small(attributes.sharedEncoderCount),
                    jpeg: small(attributes.sharedJpegCount),
                    ofa: small(attributes.sharedOfaCount),
                },
            });
        }
        Ok(found)
    }
}
