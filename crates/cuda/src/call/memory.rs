//! Calls about memory of the current context.

use super::{Calls, Reply, StreamHandle, call};
use crate::sys::DevicePointer;
use std::ffi::c_void;
use std::ptr::null_mut;

impl Calls {
    /// Free and total bytes.
    pub(crate) fn memory_info(&self) -> Reply<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        call!(self, cuMemGetInfo_v2(&mut free, &mut total))?;
        Ok((free as u64, total as u64))
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Reply<DevicePointer> {
        let mut pointer = 0;
        call!(self, cuMemAlloc_v2(&mut pointer, bytes))?;
        Ok(pointer)
    }

    pub(crate) fn free(&self, pointer: DevicePointer) -> Reply {
        call!(self, cuMemFree_v2(pointer))
    }

    /// Copies to the GPU; the copy is done when this returns.
    pub(crate) fn copy_in(&self, to: DevicePointer, from: &[u8]) -> Reply {
        call!(self, cuMemcpyHtoD_v2(to, from.as_ptr().cast(), from.len()))
    }

    /// Copies from the GPU; the copy is done when this returns.
    pub(crate) fn copy_out(&self, to: &mut [u8], from: DevicePointer) -> Reply {
        call!(self, cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), from, to.len()))
    }

    /// Fills memory with a byte, in the order of a stream.
    pub(crate) fn fill(&self, stream: StreamHandle, to: DevicePointer, byte: u8, bytes: usize) -> Reply {
        call!(self, cuMemsetD8Async(to, byte, bytes, stream.0))
    }

    /// Memory of this process that copies go to and from without another copy.
    pub(crate) fn allocate_host(&self, bytes: usize) -> Reply<*mut c_void> {
        let mut pointer = null_mut();
        call!(self, cuMemAllocHost_v2(&mut pointer, bytes))?;
        Ok(pointer)
    }

    pub(crate) fn free_host(&self, pointer: *mut c_void) -> Reply {
        call!(self, cuMemFreeHost(pointer))
    }

    /// Copies to the GPU in the order of a stream. The memory must stay as it is until that is done.
    pub(crate) fn send(
        &self,
        stream: StreamHandle,
        to: DevicePointer,
        from: *const c_void,
        bytes: usize,
    ) -> Reply {
        call!(self, cuMemcpyHtoDAsync_v2(to, from, bytes, stream.0))
    }

    /// Copies from the GPU in the order of a stream. The memory must be left alone until that is done.
    pub(crate) fn fetch(
        &self,
        stream: StreamHandle,
        to: *mut c_void,
        from: DevicePointer,
        bytes: usize,
    ) -> Reply {
        call!(self, cuMemcpyDtoHAsync_v2(to, from, bytes, stream.0))
    }
}
