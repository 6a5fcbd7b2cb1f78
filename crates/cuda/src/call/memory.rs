//! Calls about memory of the current context.

use super::{Calls, Reply, call};
use crate::sys::DevicePointer;

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
}
