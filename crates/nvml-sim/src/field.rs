//! Fields: facts that have a number of their own instead of a function. Two of them are simulated.

use crate::abi::{Out, nvml};
use crate::handle::Handle;
use crate::session::Answer;
use crate::simulation::{Simulation, said};
use carve_gpu_host::HostFailure;
use carve_gpu_model::GpuIndex;
use nvml_wrapper_sys::bindings::field_id::{
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_FI_DEV_MEMORY_TEMP, NVML_FI_MAX,
};
use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT};
use std::ffi::{c_int, c_uint};
use std::mem::offset_of;
use std::time::{SystemTime, UNIX_EPOCH};

/// What one field says: a number, or why there is none.
fn number(simulation: &Simulation, gpu: GpuIndex, field: c_uint) -> Answer<Result<c_uint, HostFailure>> {
    Ok(match field {
        NVML_FI_DEV_GET_GPU_RECOVERY_ACTION => {
            // For an older driver it is a number like any other that is no field.
            let action = said(simulation.host.recovery_action(gpu))?;
            action.map(|action| action.code()).ok_or(HostFailure::InvalidArgument)
        }
        NVML_FI_DEV_MEMORY_TEMP => {
            said(simulation.host.readings(gpu))?.memory_temperature.ok_or(HostFailure::NotSupported)
        }
        1..NVML_FI_MAX => Err(HostFailure::NotSupported),
        _ => Err(HostFailure::InvalidArgument),
    })
}

/// A member of C's struct, at its distance from the start.
fn member<T>(value: Out<nvmlFieldValue_t>, offset: usize) -> Out<T> {
    value.cast::<u8>().nth(offset).cast()
}

/// Writes as much of the answer as the driver does: of a field that has none, the reason alone.
fn tell(value: Out<nvmlFieldValue_t>, answer: Result<c_uint, HostFailure>) -> Answer {
    let code = member::<c_uint>(value, offset_of!(nvmlFieldValue_t, nvmlReturn));
    match answer {
        Err(failure) => code.set(failure.code()),
        Ok(number) => {
            let now =
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_micros() as i64);
            code.set(0)?;
            member(value, offset_of!(nvmlFieldValue_t, timestamp)).set(now)?;
            member(value, offset_of!(nvmlFieldValue_t, latencyUsec)).set(0_i64)?;
            let kind = member::<c_uint>(value, offset_of!(nvmlFieldValue_t, valueType));
            kind.set(nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT)?;
            member(value, offset_of!(nvmlFieldValue_t, value)).set(number)
        }
    }
}

nvml! {
    // The call succeeds whatever its fields say.
    fn nvmlDeviceGetFieldValues(simulation, device: Handle, count: c_int, values: Out<nvmlFieldValue_t>) {
        let gpu = simulation.gpu(device)?;
        let values = values.required()?;
        let count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(HostFailure::InvalidArgument)?;
        for value in (0..count).map(|position| values.nth(position)) {
            // The number alone is read: the rest is for the answer, and need not hold anything yet.
            let field = member::<c_uint>(value, offset_of!(nvmlFieldValue_t, fieldId)).get()?;
            tell(value, number(simulation, gpu, field)?)?;
        }
        Ok(())
    }
}
