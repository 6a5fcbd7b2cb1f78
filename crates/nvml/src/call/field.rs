//! Fields: facts that have a number of their own instead of a function.

use super::{Answer, Calls, Device, call, check};
use carve_gpu_host::HostFailure;
use nvml_wrapper_sys::bindings::{
    nvmlFieldValue_t, nvmlValue_t, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT,
};

impl Calls {
    /// A field that holds an unsigned number. The call as a whole can fail, and so can its one field.
    pub(crate) fn number_in_field(&self, device: Device, field: u32) -> Answer<u32> {
        let mut value = nvmlFieldValue_t {
            fieldId: field,
            scopeId: 0,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: 0,
            value: nvmlValue_t { ullVal: 0 },
        };
        call!(self, nvmlDeviceGetFieldValues(device.0, 1, &mut value))?;
        check(value.nvmlReturn)?;
        if value.valueType != nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT {
            return Err(HostFailure::NotSupported);
        }
        // SAFETY: the library says that it wrote this member, all of the union was written before, and every bit pattern
        // is a number.
        Ok(unsafe { value.value.uiVal })
    }
}
