//! Calls about how busy devices were: samples that are compared, and lists of samples that the driver keeps.

use super::{Answer, Calls, Device, call};
use carve_gpu_host::HostFailure;
use nvml_wrapper_sys::bindings::{
    nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL, nvmlGpmMetricsGet_t, nvmlGpmSample_t, nvmlGpmSupport_t,
    nvmlSample_t, nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES, nvmlValue_t,
};
use std::ptr::null_mut;

/// The version word of the structs about these samples, which is not the usual one.
const VERSION: u32 = 1;

/// What a device has done so far, as far as the library remembers it.
#[derive(Debug)]
pub(crate) struct Sample(nvmlGpmSample_t);

// SAFETY: a sample is a name that only the library follows, and NVML may be called from any thread.
unsafe impl Send for Sample {}

impl Calls {
    /// Whether a GPU's samples can be compared.
    pub(crate) fn can_compare(&self, device: Device) -> Answer<bool> {
        let mut support = nvmlGpmSupport_t { version: VERSION, isSupportedDevice: 0 };
        match call!(self, nvmlGpmQueryDeviceSupport(device.0, &mut support)) {
            Ok(()) => Ok(support.isSupportedDevice != 0),
            Err(HostFailure::NotSupported | HostFailure::FunctionNotFound) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Takes a sample of a GPU, or of one of its instances.
    pub(crate) fn take_sample(&self, device: Device, instance: Option<u32>) -> Answer<Sample> {
        let mut sample: nvmlGpmSample_t = null_mut();
        call!(self, nvmlGpmSampleAlloc(&mut sample))?;
        let sample = Sample(sample);
        let taken = match instance {
            None => call!(self, nvmlGpmSampleGet(device.0, sample.0)),
            Some(instance) => call!(self, nvmlGpmMigSampleGet(device.0, instance, sample.0)),
        };
        match taken {
            Ok(()) => Ok(sample),
            Err(failure) => {
                self.free_sample(sample);
                Err(failure)
            }
        }
    }

    /// Gives a sample back. A library that refuses keeps it, which harms nobody.
    pub(crate) fn free_sample(&self, sample: Sample) {
        let _ = call!(self, nvmlGpmSampleFree(sample.0));
    }

    /// Percent of the time between two samples in which anything ran.
    pub(crate) fn busy_between(&self, before: &Sample, after: &Sample) -> Answer<f64> {
        // SAFETY: plain numbers and pointers, for which zeros are what they should be.
        let mut asked: nvmlGpmMetricsGet_t = unsafe { std::mem::zeroed() };
        asked.version = VERSION;
        asked.numMetrics = 1;
        asked.sample1 = before.0;
        asked.sample2 = after.0;
        asked.metrics[0].metricId = nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL;
        call!(self, nvmlGpmMetricsGet(&mut asked))?;
        super::check(asked.metrics[0].nvmlReturn)?;
        Ok(asked.metrics[0].value)
    }

    /// What the driver noted of a GPU's use since a moment (microseconds): when, and percent. Older entries are gone.
    pub(crate) fn noted_since(&self, device: Device, since: u64) -> Answer<Vec<(u64, u32)>> {
        const KIND: u32 = nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES;
        let (mut count, mut kind) = (0, 0);
        let none =
            match call!(self, nvmlDeviceGetSamples(device.0, KIND, since, &mut kind, &mut count, null_mut()))
            {
                Err(HostFailure::NotFound) => true,
                answer => answer.map(|()| count == 0)?,
            };
        if none {
            return Ok(Vec::new());
        }
        let empty = nvmlSample_t { timeStamp: 0, sampleValue: nvmlValue_t { ullVal: 0 } };
        // More may have come since it was counted; the library writes no more than it is told.
        let mut noted = vec![empty; count as usize];
        call!(self, nvmlDeviceGetSamples(device.0, KIND, since, &mut kind, &mut count, noted.as_mut_ptr()))?;
        noted.truncate(count as usize);
        // SAFETY: all values of this union are plain numbers, and this kind of sample is an unsigned one.
        let value = |sample: &nvmlSample_t| unsafe { sample.sampleValue.uiVal };
        Ok(noted.iter().map(|sample| (sample.timeStamp, value(sample))).collect())
    }
}
