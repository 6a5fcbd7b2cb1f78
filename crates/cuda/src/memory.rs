//! Memory on a device.

use crate::context::Context;
use crate::error::{CudaCode, CudaError};
use crate::sys::DevicePointer;
use carve_gpu_model::Bytes;

/// Memory as a context sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// What this process can still allocate.
    pub free: Bytes,
    /// All of the device.
    pub total: Bytes,
}

/// An allocation on the device, freed when dropped.
#[derive(Debug)]
pub struct Buffer<'x> {
    context: &'x Context<'x>,
    pointer: DevicePointer,
    bytes: usize,
}

impl<'x> Buffer<'x> {
    pub(crate) fn allocate(context: &'x Context<'_>, bytes: usize) -> Result<Self, CudaError> {
        let pointer = context.call(|calls| calls.allocate(bytes), || format!("allocate {bytes} bytes"))?;
        Ok(Buffer { context, pointer, bytes })
    }

    /// Its address on the device.
    pub fn address(&self) -> u64 {
        self.pointer
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies to the beginning of the buffer.
    pub fn write(&mut self, from: &[u8]) -> Result<(), CudaError> {
        self.fits(from.len())?;
        let doing = || format!("copy {} bytes in", from.len());
        self.context.call(|calls| calls.copy_in(self.pointer, from), doing)
    }

    /// Copies from the beginning of the buffer.
    pub fn read(&self, to: &mut [u8]) -> Result<(), CudaError> {
        self.fits(to.len())?;
        let length = to.len();
        let doing = || format!("copy {length} bytes out");
        self.context.call(|calls| calls.copy_out(to, self.pointer), doing)
    }

    /// The driver would only notice what crosses into memory that is nobody's.
    fn fits(&self, bytes: usize) -> Result<(), CudaError> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let doing = format!("copy {bytes} bytes in or out of a buffer of {}", self.bytes);
        Err(self.context.error(CudaCode::INVALID_VALUE, &doing))
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let _ = self.context.call(|calls| calls.free(self.pointer), String::new);
    }
}
