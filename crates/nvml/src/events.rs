//! Waiting for XIDs of all GPUs at once.

use crate::Nvml;
use crate::call::{Answer, Device, EventSet};
use carve_gpu_host::{GpuEvent, HostFailure};
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// NVML's number for the kind of event an XID is.
const XID: u64 = 8;
/// NVML's way of saying that an event is not confined to an instance.
const NO_INSTANCE: u32 = u32::MAX;

/// How often those that could not be watched are tried again. Waits are short, and a lost GPU is not to be asked all the time.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What is watched.
#[derive(Debug)]
pub(crate) enum Watch {
    /// These GPUs. Their handles are remembered, because a GPU that is lost no longer tells its index. Those of `missing` could not be watched
    /// yet: they were lost, and may be found again.
    Gpus {
        set: EventSet,
        known: BTreeMap<Device, GpuIndex>,
        missing: BTreeSet<GpuIndex>,
        tried: Option<Instant>,
    },
    /// Nothing: the library can not tell events.
    Nothing,
}

impl Watch {
    /// Whether there is anything to wait for; what a library says of a set without GPUs is not written anywhere.
    fn sees_any(&self) -> bool {
        matches!(self, Watch::Gpus { known, .. } if !known.is_empty())
    }
}

impl Nvml {
    /// Starts to watch; no GPU is there yet.
    fn start_watch(&self) -> Answer<Watch> {
        let missing = (0..self.calls.count()?).map(GpuIndex).collect();
        let set = match self.calls.create_event_set() {
            Ok(set) => set,
            Err(HostFailure::NotSupported | HostFailure::FunctionNotFound) => return Ok(Watch::Nothing),
            Err(failure) => return Err(failure),
        };
        Ok(Watch::Gpus { set, known: BTreeMap::new(), missing, tried: None })
    }

    /// Watches those that are missing, as far as they are there. What can never be watched is not missing.
    fn watch_missing(
        &self,
        set: EventSet,
        known: &mut BTreeMap<Device, GpuIndex>,
        missing: &mut BTreeSet<GpuIndex>,
    ) -> Answer<()> {
        for index in missing.clone() {
            // One GPU that is lost or can not be watched must not blind us to the others.
            let watched =
                self.device(index).and_then(|device| self.calls.watch(device, XID, set).map(|()| device));
            match watched {
                Ok(device) => {
                    known.insert(device, index);
                }
                Err(HostFailure::NotSupported | HostFailure::FunctionNotFound) => {}
                Err(HostFailure::Uninitialized) => return Err(HostFailure::Uninitialized),
                Err(_) => continue,
            }
            missing.remove(&index);
        }
        Ok(())
    }

    /// Gives the watch back; the next wait starts a new one.
    pub(crate) fn forget_watch(&mut self) {
        if let Some(Watch::Gpus { set, .. }) = self.watch.take() {
            let _ = self.calls.free_event_set(set);
        }
    }

    pub(crate) fn wait_for_event(&mut self, wait: Duration) -> Answer<Option<GpuEvent>> {
        let until = Instant::now() + wait;
        let mut watch = match self.watch.take() {
            Some(watch) => watch,
            None => self.start_watch()?,
        };
        let found = match &mut watch {
            Watch::Gpus { set, known, missing, tried }
                if tried.is_none_or(|tried| tried.elapsed() >= TRY_AGAIN) =>
            {
                *tried = Some(Instant::now());
                self.watch_missing(*set, known, missing)
            }
            _ => Ok(()),
        };
        self.watch = Some(watch);
        found?;
        let Some(Watch::Gpus { set, known, .. }) = self.watch.as_ref().filter(|watch| watch.sees_any())
        else {
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
