//! A device as CUDA sees one: a whole GPU or a MIG device.

use crate::call::{Calls, DeviceHandle, Reply};
use crate::context::Context;
use crate::error::CudaError;
use crate::uuid::DeviceUuid;
use carve_gpu_model::Bytes;

/// What a device can be asked in numbers; the value is CUDA's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Attribute {
    /// Multiprocessors that this process may use; an MPS client with a share sees its share.
    Multiprocessors = 16,
    /// First number of the compute capability.
    ComputeCapabilityMajor = 75,
    /// Second number of the compute capability.
    ComputeCapabilityMinor = 76,
}

/// A device of this process.
#[derive(Debug, Clone, Copy)]
pub struct Device<'c> {
    calls: &'c Calls,
    handle: DeviceHandle,
    ordinal: u32,
}

impl<'c> Device<'c> {
    pub(crate) fn at(calls: &'c Calls, ordinal: u32) -> Result<Self, CudaError> {
        match calls.device(ordinal) {
            Ok(handle) => Ok(Device { calls, handle, ordinal }),
            Err(code) => Err(calls.error(code, format!("find device {ordinal}"))),
        }
    }

    fn told<T>(&self, reply: Reply<T>, what: &str) -> Result<T, CudaError> {
        reply.map_err(|code| self.calls.error(code, format!("tell {what} of device {}", self.ordinal)))
    }

    /// Its number in this process.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// What the driver calls it.
    pub fn name(&self) -> Result<String, CudaError> {
        self.told(self.calls.name(self.handle), "the name")
    }

    /// Its identity.
    pub fn uuid(&self) -> Result<DeviceUuid, CudaError> {
        self.told(self.calls.uuid(self.handle), "the UUID").map(DeviceUuid)
    }

    /// All of its memory.
    pub fn memory(&self) -> Result<Bytes, CudaError> {
        self.told(self.calls.total_memory(self.handle), "the memory").map(Bytes)
    }

    /// One of its numbers.
    pub fn attribute(&self, attribute: Attribute) -> Result<u32, CudaError> {
        let reply = self.calls.attribute(self.handle, attribute as i32);
        self.told(reply, &format!("the attribute {attribute:?}"))
    }

    /// The device's primary context, current on this thread.
    pub fn context(&self) -> Result<Context<'c>, CudaError> {
        Context::retain(self.calls, self.handle, self.ordinal)
    }

    /// One of so many green contexts, counted from 0: each has an equal part of the multiprocessors. Drivers can since CUDA 12.5.
    pub fn green_context(&self, which: u32, of: u32) -> Result<Context<'c>, CudaError> {
        Context::green(self.calls, self.handle, self.ordinal, (which, of))
    }
}
