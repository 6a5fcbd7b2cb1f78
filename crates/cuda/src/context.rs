//! The primary context of a device, held for as long as the value lives.

use crate::call::{Calls, ContextHandle, DeviceHandle, GreenHandle, Reply};
use crate::error::{CudaCode, CudaError};
use crate::memory::{Buffer, MemoryInfo};
use crate::module::Module;
use crate::stream::{HostBuffer, Stream};
use carve_gpu_model::Bytes;

/// A context. It stays on the thread that made it (its handle is a raw pointer), and every call made through it
/// makes it current first, so that several contexts on one thread do not get into each other's way.
#[derive(Debug)]
pub struct Context<'c> {
    calls: &'c Calls,
    handle: ContextHandle,
    device: DeviceHandle,
    ordinal: u32,
    /// With multiprocessors of its own, and how many.
    green: Option<(GreenHandle, u32)>,
}

impl<'c> Context<'c> {
    /// One of so many green contexts, counted from 0; each has an equal part of the multiprocessors.
    pub(crate) fn green(
        calls: &'c Calls,
        device: DeviceHandle,
        ordinal: u32,
        (which, of): (u32, u32),
    ) -> Result<Self, CudaError> {
        let doing = || format!("divide the multiprocessors of device {ordinal} into {of} parts");
        let mut context = Context::retain(calls, device, ordinal)?;
        let parts = calls.split(device, of).map_err(|code| calls.error(code, doing()))?;
        let part = parts.get(which as usize).copied();
        let part = part.ok_or_else(|| calls.error(CudaCode::INVALID_VALUE, doing()))?;
        let made = calls.create_green(device, part).map_err(|code| calls.error(code, doing()))?;
        context.handle = made.1;
        context.green = Some((made.0, part.multiprocessors));
        Ok(context)
    }

    /// How many multiprocessors it has of its own; none where it has all of them with others.
    pub fn own_multiprocessors(&self) -> Option<u32> {
        self.green.map(|(_, multiprocessors)| multiprocessors)
    }

    /// A stream, which waits for no other.
    pub fn stream(&self) -> Result<Stream<'_>, CudaError> {
        Stream::create(self, self.green.map(|(green, _)| green))
    }

    /// Memory of this process that is copied to and from the device without waiting.
    pub fn allocate_host(&self, bytes: usize) -> Result<HostBuffer<'_>, CudaError> {
        HostBuffer::allocate(self, bytes)
    }

    pub(crate) fn retain(calls: &'c Calls, device: DeviceHandle, ordinal: u32) -> Result<Self, CudaError> {
        match calls.retain(device) {
            Ok(handle) => Ok(Context { calls, handle, device, ordinal, green: None }),
            Err(code) => Err(calls.error(code, format!("make a context on device {ordinal}"))),
        }
    }

    /// Runs a call with this context current.
    pub(crate) fn call<T>(
        &self,
        call: impl FnOnce(&Calls) -> Reply<T>,
        doing: impl FnOnce() -> String,
    ) -> Result<T, CudaError> {
        let reply = self.calls.set_current(self.handle).and_then(|()| call(self.calls));
        reply.map_err(|code| self.calls.error(code, format!("{} on device {}", doing(), self.ordinal)))
    }

    /// Memory as this context sees it. Under MPS with a memory limit `free` obeys the limit and `total` does not.
    pub fn memory(&self) -> Result<MemoryInfo, CudaError> {
        let (free, total) = self.call(Calls::memory_info, || "tell the free memory".to_owned())?;
        Ok(MemoryInfo { free: Bytes(free), total: Bytes(total) })
    }

    /// Allocates memory on the device.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer<'_>, CudaError> {
        Buffer::allocate(self, bytes)
    }

    /// Loads a program written in PTX.
    pub fn load_ptx(&self, ptx: &str) -> Result<Module<'_>, CudaError> {
        Module::load(self, ptx)
    }

    /// Waits until everything asked of the context is done; tells the failure of a kernel that ran before.
    pub fn synchronise(&self) -> Result<(), CudaError> {
        self.call(Calls::synchronise, || "finish the work".to_owned())
    }

    /// Waits until everything on the default stream is done.
    pub fn synchronise_stream(&self) -> Result<(), CudaError> {
        self.call(Calls::synchronise_stream, || "finish the default stream".to_owned())
    }

    /// An error of ours, with CUDA's words for it.
    pub(crate) fn error(&self, code: CudaCode, doing: &str) -> CudaError {
        self.calls.error(code, format!("{doing} on device {}", self.ordinal))
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // After a kernel has died everything fails, these too; there is nobody left to tell.
        let _ = self.calls.set_current(ContextHandle::NONE);
        if let Some((green, _)) = self.green {
            let _ = self.calls.destroy_green(green);
        }
        let _ = self.calls.release(self.device);
    }
}
