//! Calls about devices and their primary contexts.

use super::{Calls, Reply, call};
use crate::sys::Opaque;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;

/// A device of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceHandle(pub(super) c_int);

/// A context. Not sendable: whoever drops one must do it where it was made current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextHandle(pub(super) Opaque);

impl ContextHandle {
    /// What stands for no context at all.
    pub(crate) const NONE: ContextHandle = ContextHandle(null_mut());
}

impl Calls {
    pub(crate) fn count(&self) -> Reply<u32> {
        let mut count = 0;
        call!(self, cuDeviceGetCount(&mut count))?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    pub(crate) fn device(&self, ordinal: u32) -> Reply<DeviceHandle> {
        let mut device = 0;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        call!(self, cuDeviceGet(&mut device, ordinal))?;
        Ok(DeviceHandle(device))
    }

    pub(crate) fn name(&self, device: DeviceHandle) -> Reply<String> {
        let mut buffer: [c_char; 256] = [0; 256];
        call!(self, cuDeviceGetName(buffer.as_mut_ptr(), buffer.len() as c_int, device.0))?;
        let bytes: Vec<u8> = buffer.iter().map(|byte| *byte as u8).collect();
        let text = CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned());
        Ok(text.unwrap_or_default())
    }

    pub(crate) fn uuid(&self, device: DeviceHandle) -> Reply<[u8; 16]> {
        let mut uuid = [0; 16];
        call!(self, cuDeviceGetUuid_v2(&mut uuid, device.0))?;
        Ok(uuid)
    }

    pub(crate) fn total_memory(&self, device: DeviceHandle) -> Reply<u64> {
        let mut bytes = 0;
        call!(self, cuDeviceTotalMem_v2(&mut bytes, device.0))?;
        Ok(bytes as u64)
    }

    pub(crate) fn attribute(&self, device: DeviceHandle, attribute: c_int) -> Reply<u32> {
        let mut value = 0;
        call!(self, cuDeviceGetAttribute(&mut value, attribute, device.0))?;
        Ok(value.unsigned_abs())
    }

    pub(crate) fn retain(&self, device: DeviceHandle) -> Reply<ContextHandle> {
        let mut context = null_mut();
        call!(self, cuDevicePrimaryCtxRetain(&mut context, device.0))?;
        Ok(ContextHandle(context))
    }

    pub(crate) fn release(&self, device: DeviceHandle) -> Reply {
        call!(self, cuDevicePrimaryCtxRelease_v2(device.0))
    }

    /// Makes a context the one that this thread's calls work on.
    pub(crate) fn set_current(&self, context: ContextHandle) -> Reply {
        call!(self, cuCtxSetCurrent(context.0))
    }

    /// Waits until everything asked of the current context is done.
    pub(crate) fn synchronise(&self) -> Reply {
        call!(self, cuCtxSynchronize())
    }
}
