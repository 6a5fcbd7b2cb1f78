//! What the driver says a GPU needs after a fault.

use crate::Nvml;
use crate::call::{Answer, Device};
use carve_gpu_host::{HostFailure, RecoveryAction};
use nvml_wrapper_sys::bindings::field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;

impl Nvml {
    /// Drivers before release 565 do not know the question, and answer it as any number that is no field; a library
    /// without fields at all lacks the function.
    pub(crate) fn recovery_of(&self, device: Device) -> Answer<Option<RecoveryAction>> {
        match self.calls.number_in_field(device, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION) {
            Ok(code) => Ok(Some(RecoveryAction::from_code(code))),
            Err(HostFailure::NotSupported | HostFailure::InvalidArgument | HostFailure::FunctionNotFound) => {
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}
