//! Calls about GPUs: handles, names, memory, MIG mode, MIG devices.

use super::{Answer, Calls, Device, call, or_older, struct_version, text};
use nvml_wrapper_sys::bindings::{
    nvmlDeviceAttributes_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlPciInfo_t, nvmlUtilization_t,
};
use std::ffi::c_char;
use std::ptr::null_mut;

/// What NVML tells about memory; the first version does not tell reserved from used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    pub(crate) reserved: u64,
    pub(crate) used: u64,
}

impl Calls {
    pub(crate) fn count(&self) -> Answer<u32> {
        let mut count = 0;
        call!(self, nvmlDeviceGetCount_v2(&mut count))?;
        Ok(count)
    }

    pub(crate) fn device(&self, index: u32) -> Answer<Device> {
        let mut device = null_mut();
        call!(self, nvmlDeviceGetHandleByIndex_v2(index, &mut device))?;
        Ok(Device(device))
    }

    pub(crate) fn name(&self, device: Device) -> Answer<String> {
        let mut buffer: [c_char; 96] = [0; 96];
        call!(self, nvmlDeviceGetName(device.0, buffer.as_mut_ptr(), buffer.len() as u32))?;
        Ok(text(&buffer))
    }

    pub(crate) fn uuid(&self, device: Device) -> Answer<String> {
        let mut buffer: [c_char; 96] = [0; 96];
        call!(self, nvmlDeviceGetUUID(device.0, buffer.as_mut_ptr(), buffer.len() as u32))?;
        Ok(text(&buffer))
    }

    pub(crate) fn minor(&self, device: Device) -> Answer<u32> {
        let mut minor = 0;
        call!(self, nvmlDeviceGetMinorNumber(device.0, &mut minor))?;
        Ok(minor)
    }

    pub(crate) fn pci(&self, device: Device) -> Answer<nvmlPciInfo_t> {
        let mut info = empty_pci();
        or_older(call!(self, nvmlDeviceGetPciInfo_v3(device.0, &mut info)), || {
            call!(self, nvmlDeviceGetPciInfo_v2(device.0, &mut info))
        })?;
        Ok(info)
    }

    pub(crate) fn compute_capability(&self, device: Device) -> Answer<(u32, u32)> {
        let (mut major, mut minor) = (0, 0);
        call!(self, nvmlDeviceGetCudaComputeCapability(device.0, &mut major, &mut minor))?;
        Ok((major.unsigned_abs(), minor.unsigned_abs()))
    }

    pub(crate) fn memory(&self, device: Device) -> Answer<Memory> {
        let mut second = nvmlMemory_v2_t {
            version: struct_version::<nvmlMemory_v2_t>(2),
            total: 0,
            reserved: 0,
            free: 0,
            used: 0,
        };
        let newer = call!(self, nvmlDeviceGetMemoryInfo_v2(device.0, &mut second)).map(|()| Memory {
            total: second.total,
            reserved: second.reserved,
            used: second.used,
        });
        or_older(newer, || {
            let mut first = nvmlMemory_t { total: 0, free: 0, used: 0 };
            call!(self, nvmlDeviceGetMemoryInfo(device.0, &mut first))?;
            Ok(Memory { total: first.total, reserved: 0, used: first.used })
        })
    }

    pub(crate) fn utilisation(&self, device: Device) -> Answer<nvmlUtilization_t> {
        let mut rates = nvmlUtilization_t { gpu: 0, memory: 0 };
        call!(self, nvmlDeviceGetUtilizationRates(device.0, &mut rates))?;
        Ok(rates)
    }

    /// Current and pending MIG mode.
    pub(crate) fn mig_mode(&self, device: Device) -> Answer<(bool, bool)> {
        let (mut current, mut pending) = (0, 0);
        call!(self, nvmlDeviceGetMigMode(device.0, &mut current, &mut pending))?;
        Ok((current != 0, pending != 0))
    }

    /// Asks for a MIG mode; the answer is the code that tells why it does not hold yet, 0 if it does.
    pub(crate) fn set_mig_mode(&self, device: Device, enabled: bool) -> Answer<u32> {
        let mut status = 0;
        call!(self, nvmlDeviceSetMigMode(device.0, u32::from(enabled), &mut status))?;
        Ok(status)
    }

    pub(crate) fn most_mig_devices(&self, device: Device) -> Answer<u32> {
        let mut count = 0;
        call!(self, nvmlDeviceGetMaxMigDeviceCount(device.0, &mut count))?;
        Ok(count)
    }

    pub(crate) fn mig_device(&self, device: Device, position: u32) -> Answer<Device> {
        let mut mig = null_mut();
        call!(self, nvmlDeviceGetMigDeviceHandleByIndex(device.0, position, &mut mig))?;
        Ok(Device(mig))
    }

    /// GPU and compute instance of a MIG device.
    pub(crate) fn mig_device_ids(&self, mig: Device) -> Answer<(u32, u32)> {
        let (mut instance, mut part) = (0, 0);
        call!(self, nvmlDeviceGetGpuInstanceId(mig.0, &mut instance))?;
        call!(self, nvmlDeviceGetComputeInstanceId(mig.0, &mut part))?;
        Ok((instance, part))
    }

    pub(crate) fn attributes(&self, mig: Device) -> Answer<nvmlDeviceAttributes_t> {
        let mut attributes = nvmlDeviceAttributes_t {
            multiprocessorCount: 0,
            sharedCopyEngineCount: 0,
            sharedDecoderCount: 0,
            sharedEncoderCount: 0,
            sharedJpegCount: 0,
            sharedOfaCount: 0,
            gpuInstanceSliceCount: 0,
            computeInstanceSliceCount: 0,
            memorySizeMB: 0,
        };
        or_older(call!(self, nvmlDeviceGetAttributes_v2(mig.0, &mut attributes)), || {
            call!(self, nvmlDeviceGetAttributes(mig.0, &mut attributes))
        })?;
        Ok(attributes)
    }
}

/// PCI facts before they are filled in.
pub(super) fn empty_pci() -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        busIdLegacy: [0; 16],
        domain: 0,
        bus: 0,
        device: 0,
        pciDeviceId: 0,
        pciSubSystemId: 0,
        busId: [0; 32],
    }
}
