//! Events: sets of GPUs that are watched, each with its own place in the record of what happened.

use crate::abi::{NO_INSTANCE, Out, nvml};
use crate::handle::{Handle, Thing};
use crate::session::{Answer, guard, with};
use crate::simulation::{Simulation, said};
use carve_gpu_host::{GpuEvent, HostFailure};
use carve_gpu_model::GpuIndex;
use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlEventData_t};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_uint, c_ulonglong};
use std::time::{Duration, Instant};

/// The kind of event an XID is.
const XID: c_ulonglong = 8;
/// What a data-centre GPU of the default driver can be watched for. Only XIDs ever happen here.
const SUPPORTED: c_ulonglong = 0xFF9F;
/// How often a waiting call looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What the first version of an event had.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct EventDataV1 {
    device: nvmlDevice_t,
    event_type: c_ulonglong,
    event_data: c_ulonglong,
}

/// Everything that happened since the library looked first, and who watches what.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    happened: Vec<GpuEvent>,
    sets: BTreeMap<u32, EventSet>,
    made: u32,
}

#[derive(Debug, Default)]
struct EventSet {
    watched: BTreeSet<GpuIndex>,
    /// Position in `happened` of the next event to look at.
    next: usize,
}

/// The number of a set that still exists.
fn set_number(simulation: &Simulation, handle: Handle) -> Answer<u32> {
    match handle.thing()? {
        Thing::EventSet(number) if simulation.events.sets.contains_key(&number) => Ok(number),
        _ => Err(HostFailure::InvalidArgument),
    }
}

/// Takes what the machine has to tell into the record.
fn collect(simulation: &mut Simulation) -> Answer {
    while let Some(event) = said(simulation.host.next_event(Duration::ZERO))? {
        simulation.events.happened.push(event);
    }
    Ok(())
}

/// The next event that a set watches for.
fn next(simulation: &mut Simulation, handle: Handle) -> Answer<Option<GpuEvent>> {
    let number = set_number(simulation, handle)?;
    collect(simulation)?;
    let EventLog { happened, sets, .. } = &mut simulation.events;
    let set = sets.get_mut(&number).ok_or(HostFailure::InvalidArgument)?;
    while let Some(event) = happened.get(set.next) {
        set.next += 1;
        if set.watched.contains(&event.gpu) {
            return Ok(Some(*event));
        }
    }
    Ok(None)
}

/// Waits without holding the session, so that other threads can go on.
fn wait(handle: Handle, timeout: c_uint) -> Answer<nvmlEventData_t> {
    let until = Instant::now() + Duration::from_millis(u64::from(timeout));
    loop {
        if let Some(event) = with(|simulation| next(simulation, handle))? {
            return Ok(nvmlEventData_t {
                device: Handle::of(Thing::Gpu(event.gpu)).pointer(),
                eventType: XID,
                eventData: event.xid,
                gpuInstanceId: event.gpu_instance.map_or(NO_INSTANCE, |id| id.0),
                computeInstanceId: event.compute_instance.map_or(NO_INSTANCE, |id| id.0),
            });
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HostFailure::Timeout);
        }
        std::thread::sleep(left.min(LOOK_AGAIN));
    }
}

nvml! {
    fn nvmlEventSetCreate(simulation, set: Out<Handle>) {
        let set = set.required()?;
        simulation.events.made += 1;
        let number = simulation.events.made;
        simulation.events.sets.insert(number, EventSet::default());
        set.set(Handle::of(Thing::EventSet(number)))
    }

    fn nvmlEventSetFree(simulation, set: Handle) {
        let number = set_number(simulation, set)?;
        simulation.events.sets.remove(&number);
        Ok(())
    }

    fn nvmlDeviceGetSupportedEventTypes(simulation, device: Handle, types: Out<c_ulonglong>) {
        simulation.gpu(device)?;
        types.set(SUPPORTED)
    }

    fn nvmlDeviceRegisterEvents(simulation, device: Handle, types: c_ulonglong, set: Handle) {
        let gpu = simulation.gpu(device)?;
        let number = set_number(simulation, set)?;
        if types & !SUPPORTED != 0 {
            return Err(HostFailure::NotSupported);
        }
        // What happened before nobody watched is not told.
        collect(simulation)?;
        let EventLog { happened, sets, .. } = &mut simulation.events;
        let set = sets.get_mut(&number).ok_or(HostFailure::InvalidArgument)?;
        if set.watched.is_empty() {
            set.next = happened.len();
        }
        if types & XID != 0 {
            set.watched.insert(gpu);
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlEventSetWait(set: Handle, data: Out<EventDataV1>, timeout: c_uint) -> u32 {
    guard("nvmlEventSetWait", || {
        let data = data.required()?;
        let event = wait(set, timeout)?;
        data.set(EventDataV1 {
            device: event.device,
            event_type: event.eventType,
            event_data: event.eventData,
        })
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlEventSetWait_v2(
    set: Handle,
    data: Out<nvmlEventData_t>,
    timeout: c_uint,
) -> u32 {
    guard("nvmlEventSetWait_v2", || data.required()?.set(wait(set, timeout)?))
}
