//! Streams: work in order, beside the work of other streams; and memory that copies on them need.

use crate::call::{GreenHandle, StreamHandle};
use crate::context::Context;
use crate::error::{CudaCode, CudaError};
use crate::memory::Buffer;
use crate::module::Function;
use std::ffi::c_void;

/// A stream. What was asked of it is finished before it goes.
#[derive(Debug)]
pub struct Stream<'x> {
    context: &'x Context<'x>,
    handle: StreamHandle,
}

impl<'x> Stream<'x> {
    pub(crate) fn create(context: &'x Context<'_>, green: Option<GreenHandle>) -> Result<Self, CudaError> {
        let create = |calls: &crate::call::Calls| match green {
            Some(green) => calls.create_green_stream(green),
            None => calls.create_stream(),
        };
        let handle = context.call(create, || "make a stream".to_owned())?;
        Ok(Stream { context, handle })
    }

    /// Starts a kernel; it runs on after this returns.
    ///
    /// # Safety
    /// `arguments` must point to one live value for each parameter of the kernel, each of the parameter's size; the
    /// addresses among them must be of buffers that are large enough for what the kernel does and that live until
    /// the stream was waited for. The kernel must be of the stream's context.
    #[allow(unsafe_code, reason = "only the caller knows the kernel's parameters")]
    pub unsafe fn launch(
        &self,
        kernel: &Function<'_>,
        blocks: (u32, u32),
        threads: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), CudaError> {
        self.context.call(
            // SAFETY: the caller promises what the call asks for.
            |calls| unsafe { calls.launch_on(self.handle, kernel.handle(), blocks, threads, arguments) },
            || format!("start the kernel '{}'", kernel.name()),
        )
    }

    /// Fills a buffer with a byte.
    pub fn fill(&self, buffer: &Buffer<'_>, byte: u8) -> Result<(), CudaError> {
        let doing = || format!("fill {} bytes", buffer.bytes());
        self.context.call(|calls| calls.fill(self.handle, buffer.address(), byte, buffer.bytes()), doing)
    }

    /// Copies to the beginning of a buffer; done when the stream was waited for.
    pub fn send(&self, to: &Buffer<'_>, from: &HostBuffer<'_>) -> Result<(), CudaError> {
        self.fits(to, from)?;
        let doing = || format!("copy {} bytes in", from.bytes);
        self.context.call(|calls| calls.send(self.handle, to.address(), from.pointer, from.bytes), doing)
    }

    /// Copies from the beginning of a buffer; done when the stream was waited for.
    pub fn fetch(&self, to: &mut HostBuffer<'_>, from: &Buffer<'_>) -> Result<(), CudaError> {
        self.fits(from, to)?;
        let doing = || format!("copy {} bytes out", to.bytes);
        self.context.call(|calls| calls.fetch(self.handle, to.pointer, from.address(), to.bytes), doing)
    }

    fn fits(&self, buffer: &Buffer<'_>, host: &HostBuffer<'_>) -> Result<(), CudaError> {
        if host.bytes <= buffer.bytes() {
            return Ok(());
        }
        let doing = format!("copy {} bytes in or out of a buffer of {}", host.bytes, buffer.bytes());
        Err(self.context.error(CudaCode::INVALID_VALUE, &doing))
    }

    /// Waits until everything asked of it is done; tells the failure of a kernel that ran before.
    pub fn synchronise(&self) -> Result<(), CudaError> {
        self.context.call(|calls| calls.wait_for(self.handle), || "finish a stream".to_owned())
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        let _ = self.context.call(|calls| calls.wait_for(self.handle), String::new);
        let _ = self.context.call(|calls| calls.destroy_stream(self.handle), String::new);
    }
}

/// Memory of this process that the device reads and writes by itself. Nothing here looks into it.
#[derive(Debug)]
pub struct HostBuffer<'x> {
    context: &'x Context<'x>,
    pointer: *mut c_void,
    bytes: usize,
}

impl<'x> HostBuffer<'x> {
    pub(crate) fn allocate(context: &'x Context<'_>, bytes: usize) -> Result<Self, CudaError> {
        let doing = || format!("allocate {bytes} bytes of the machine's memory");
        let pointer = context.call(|calls| calls.allocate_host(bytes), doing)?;
        Ok(HostBuffer { context, pointer, bytes })
    }
}

impl Drop for HostBuffer<'_> {
    fn drop(&mut self) {
        // A copy may still be under way where a stream was not waited for.
        let _ = self.context.synchronise();
        let _ = self.context.call(|calls| calls.free_host(self.pointer), String::new);
    }
}
