//! Waiting for XIDs of all GPUs at once.

use crate::Nvml;
use crate::call::{Answer, Device, EventSet};
use carve_gpu_host::{GpuEvent, HostFailure};
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// NVML's number for the kind of event an XID is.
const XID: u64 = 8;
/// NVML's way of saying that an event is not confined to an instance.
const NO_INSTANCE: u32 = u32::MAX;

/// What is watched.
#[derive(Debug)]
pub(crate) enum Watch {
    /// These GPUs. Their handles are remembered, because a GPU that is lost no longer tells its index.
    Gpus { set: EventSet, known: BTreeMap<Device, GpuIndex> },
    /// Nothing: neither library nor GPUs can tell events.
    Nothing,
}

impl Nvml {
    /// Starts to watch every GPU that can be watched.
    fn start_watch(&self) -> Answer<Watch> {
        let set = match self.calls.create_event_set() {
            Ok(set) => set,
            Err(HostFailure::NotSupported | HostFailure::FunctionNotFound) => return Ok(Watch::Nothing),
            Err(failure) => return Err(failure),
        };
        let mut known = BTreeMap::new();
        for index in (0..self.calls.count()?).map(GpuIndex) {
            // One GPU that is lost or can not be watched must not blind us to the others.
            let watched = self
                .device(index)
                .and_then(|device| self.calls.watch(device, XID, set).map(|()| known.insert(device, index)));
            if let Err(HostFailure::Uninitialized) = watched {
                return Err(HostFailure::Uninitialized);
            }
        }
        if known.is_empty() {
            let _ = self.calls.free_event_set(set);
            return Ok(Watch::Nothing);
        }
        Ok(Watch::Gpus { set, known })
    }

    /// Gives the watch back; the next wait starts a new one.
    pub(crate) fn forget_watch(&mut self) {
        if let Some(Watch::Gpus { set, .. }) = self.watch.take() {
            let _ = self.calls.free_event_set(set);
        }
    }

    pub(crate) fn wait_for_event(&mut self, wait: Duration) -> Answer<Option<GpuEvent>> {
        let until = Instant::now() + wait;
        if self.watch.is_none() {
            self.watch = Some(self.start_watch()?);
        }
        let Some(Watch::Gpus { set, known }) = &self.watch else {
            std::thread::sleep(wait);
            return Ok(None);
        };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let milliseconds = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
            let event = match self.calls.wait(*set, milliseconds) {
                Ok(event) => event,
                Err(HostFailure::Timeout) => return Ok(None),
                Err(failure) => return Err(failure),
            };
            if let (XID, Some(gpu)) = (event.kind, known.get(&event.device)) {
                let instance = |id: u32| Some(id).filter(|id| *id != NO_INSTANCE);
                return Ok(Some(GpuEvent {
                    gpu: *gpu,
                    xid: event.data,
                    gpu_instance: instance(event.gpu_instance).map(GpuInstanceId),
                    compute_instance: instance(event.compute_instance).map(ComputeInstanceId),
                }));
            }
        }
    }
}
