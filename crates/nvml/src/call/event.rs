//! Calls about events.

use super::{Answer, Calls, Device, EventSet, call, or_older};
use nvml_wrapper_sys::bindings::nvmlEventData_t;
use std::ptr::null_mut;

/// One event as NVML tells it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) device: Device,
    pub(crate) kind: u64,
    pub(crate) data: u64,
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
}

impl Calls {
    pub(crate) fn create_event_set(&self) -> Answer<EventSet> {
        let mut set = null_mut();
        call!(self, nvmlEventSetCreate(&mut set))?;
        Ok(EventSet(set))
    }

    pub(crate) fn free_event_set(&self, set: EventSet) -> Answer {
        call!(self, nvmlEventSetFree(set.0))
    }

    pub(crate) fn watch(&self, device: Device, kinds: u64, set: EventSet) -> Answer {
        call!(self, nvmlDeviceRegisterEvents(device.0, kinds, set.0))
    }

    pub(crate) fn wait(&self, set: EventSet, milliseconds: u32) -> Answer<Event> {
        let mut data = nvmlEventData_t {
            device: null_mut(),
            eventType: 0,
            eventData: 0,
            // What the first version of the call leaves as it is.
            gpuInstanceId: u32::MAX,
            computeInstanceId: u32::MAX,
        };
        or_older(call!(self, nvmlEventSetWait_v2(set.0, &mut data, milliseconds)), || {
            call!(self, nvmlEventSetWait(set.0, &mut data, milliseconds))
        })?;
        Ok(Event {
            device: Device(data.device),
            kind: data.eventType,
            data: data.eventData,
            gpu_instance: data.gpuInstanceId,
            compute_instance: data.computeInstanceId,
        })
    }
}
