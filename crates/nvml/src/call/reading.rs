//! Calls about sensors and counters.

use super::{Answer, Calls, Device, call};
use nvml_wrapper_sys::bindings::{
    nvmlClockType_enum_NVML_CLOCK_MEM as MEMORY, nvmlClockType_enum_NVML_CLOCK_SM as COMPUTE,
    nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU as GPU,
};

impl Calls {
    pub(crate) fn temperature(&self, device: Device) -> Answer<u32> {
        let mut degrees = 0;
        call!(self, nvmlDeviceGetTemperature(device.0, GPU, &mut degrees))?;
        Ok(degrees)
    }

    pub(crate) fn power(&self, device: Device) -> Answer<u32> {
        let mut milliwatts = 0;
        call!(self, nvmlDeviceGetPowerUsage(device.0, &mut milliwatts))?;
        Ok(milliwatts)
    }

    pub(crate) fn energy(&self, device: Device) -> Answer<u64> {
        let mut millijoules = 0;
        call!(self, nvmlDeviceGetTotalEnergyConsumption(device.0, &mut millijoules))?;
        Ok(millijoules)
    }

    pub(crate) fn compute_clock(&self, device: Device) -> Answer<u32> {
        self.clock(device, COMPUTE)
    }

    pub(crate) fn memory_clock(&self, device: Device) -> Answer<u32> {
        self.clock(device, MEMORY)
    }

    fn clock(&self, device: Device, which: u32) -> Answer<u32> {
        let mut megahertz = 0;
        call!(self, nvmlDeviceGetClockInfo(device.0, which, &mut megahertz))?;
        Ok(megahertz)
    }

    pub(crate) fn pci_replays(&self, device: Device) -> Answer<u32> {
        let mut replays = 0;
        call!(self, nvmlDeviceGetPcieReplayCounter(device.0, &mut replays))?;
        Ok(replays)
    }

    pub(crate) fn encoder(&self, device: Device) -> Answer<u32> {
        let (mut percent, mut period) = (0, 0);
        call!(self, nvmlDeviceGetEncoderUtilization(device.0, &mut percent, &mut period))?;
        Ok(percent)
    }

    pub(crate) fn decoder(&self, device: Device) -> Answer<u32> {
        let (mut percent, mut period) = (0, 0);
        call!(self, nvmlDeviceGetDecoderUtilization(device.0, &mut percent, &mut period))?;
        Ok(percent)
    }

    /// Rows replaced after errors that could and could not be corrected, and whether there was no spare one.
    pub(crate) fn remapped_rows(&self, device: Device) -> Answer<(u32, u32, bool)> {
        let (mut after, mut lost, mut pending, mut failed) = (0, 0, 0, 0);
        call!(self, nvmlDeviceGetRemappedRows(device.0, &mut after, &mut lost, &mut pending, &mut failed))?;
        Ok((after, lost, failed != 0))
    }
}
