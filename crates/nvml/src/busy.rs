//! How busy devices were since the last question.
//!
//! GPUs from Hopper on count, also for each MIG instance: two samples are compared, and the answer is exact. Older ones are looked at by the driver
//! several times a second, as whole GPUs; the mean of what it noted is the answer.

use crate::Nvml;
use crate::call::{Answer, Sample};
use carve_gpu_host::{BusyPart, HostFailure};
use carve_gpu_model::{GpuIndex, GpuInstanceId};
use std::collections::BTreeMap;

/// What is remembered of the last question about a device.
#[derive(Debug)]
pub(crate) enum Last {
    /// A sample to compare with.
    Counted(Sample),
    /// When the driver had noted something last, in microseconds.
    Noted(u64),
}

/// Last questions, by GPU and instance.
pub(crate) type LastOf = BTreeMap<(GpuIndex, Option<GpuInstanceId>), Last>;

impl Nvml {
    pub(crate) fn busy_since(
        &mut self,
        gpu: GpuIndex,
        instance: Option<GpuInstanceId>,
    ) -> Answer<Option<BusyPart>> {
        let device = self.device(gpu)?;
        let cut = self.mode(device)?.is_some_and(|mode| mode.current);
        if instance.is_some() != cut {
            return Ok(None);
        }
        let key = (gpu, instance);
        if !self.calls.can_compare(device)? {
            return if cut { Ok(None) } else { self.mean_of_notes(key) };
        }
        let sample = match self.calls.take_sample(device, instance.map(|id| id.0)) {
            Ok(sample) => sample,
            // What comes later under this number may be another instance.
            Err(failure) => {
                if let Some(Last::Counted(old)) = self.last.remove(&key) {
                    self.calls.free_sample(old);
                }
                return Err(failure);
            }
        };
        let busy = match self.last.get(&key) {
            Some(Last::Counted(before)) => Some(self.calls.busy_between(before, &sample)),
            _ => None,
        };
        if let Some(Last::Counted(old)) = self.last.insert(key, Last::Counted(sample)) {
            self.calls.free_sample(old);
        }
        busy.transpose().map(|busy| busy.map(BusyPart::from_percent))
    }

    fn mean_of_notes(&mut self, key: (GpuIndex, Option<GpuInstanceId>)) -> Answer<Option<BusyPart>> {
        let last = match self.last.get(&key) {
            Some(Last::Noted(last)) => Some(*last),
            _ => None,
        };
        let noted = match self.calls.noted_since(self.device(key.0)?, last.unwrap_or(0)) {
            Err(HostFailure::NotSupported | HostFailure::FunctionNotFound) => return Ok(None),
            noted => noted?,
        };
        if let Some(newest) = noted.iter().map(|(at, _)| *at).max() {
            self.last.insert(key, Last::Noted(newest));
        }
        let new: Vec<u32> = noted
            .iter()
            .filter(|(at, _)| last.is_some_and(|last| *at > last))
            .map(|(_, percent)| *percent)
            .collect();
        if new.is_empty() {
            return Ok(None);
        }
        let mean = f64::from(new.iter().sum::<u32>()) / new.len() as f64;
        Ok(Some(BusyPart::from_percent(mean)))
    }

    /// Gives all samples back, before NVML is shut down: it does not know them afterwards.
    pub(crate) fn forget_samples(&mut self) {
        for last in std::mem::take(&mut self.last).into_values() {
            if let Last::Counted(sample) = last {
                self.calls.free_sample(sample);
            }
        }
    }
}
