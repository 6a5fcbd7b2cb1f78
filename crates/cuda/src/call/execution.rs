//! Calls about modules, kernels and streams of the current context.

use super::{Calls, Reply, call};
use crate::sys::Opaque;
use std::ffi::{CStr, c_uint, c_void};
use std::ptr::null_mut;

/// A module that was loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModuleHandle(Opaque);

/// A kernel of a module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionHandle(Opaque);

/// A stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamHandle(pub(super) Opaque);

/// A stream does not wait for the default one.
const NON_BLOCKING: c_uint = 1;

impl Calls {
    /// A stream of the current context.
    pub(crate) fn create_stream(&self) -> Reply<StreamHandle> {
        let mut stream = null_mut();
        call!(self, cuStreamCreate(&mut stream, NON_BLOCKING))?;
        Ok(StreamHandle(stream))
    }

    pub(crate) fn destroy_stream(&self, stream: StreamHandle) -> Reply {
        call!(self, cuStreamDestroy_v2(stream.0))
    }

    /// Waits until everything on a stream is done.
    pub(crate) fn wait_for(&self, stream: StreamHandle) -> Reply {
        call!(self, cuStreamSynchronize(stream.0))
    }

    /// Starts a kernel on a stream, in two dimensions.
    ///
    /// # Safety
    /// As for [`Calls::launch`].
    pub(crate) unsafe fn launch_on(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        (across, down): (u32, u32),
        threads: u32,
        arguments: &mut [*mut c_void],
    ) -> Reply {
        let arguments = arguments.as_mut_ptr();
        call!(
            self,
            cuLaunchKernel(function.0, across, down, 1, threads, 1, 1, 0, stream.0, arguments, null_mut())
        )
    }

    /// Loads PTX. The caller makes sure that it is PTX: other images say themselves how long they are.
    pub(crate) fn load(&self, ptx: &CStr) -> Reply<ModuleHandle> {
        let mut module = null_mut();
        call!(self, cuModuleLoadData(&mut module, ptx.as_ptr().cast()))?;
        Ok(ModuleHandle(module))
    }

    pub(crate) fn unload(&self, module: ModuleHandle) -> Reply {
        call!(self, cuModuleUnload(module.0))
    }

    pub(crate) fn function(&self, module: ModuleHandle, name: &CStr) -> Reply<FunctionHandle> {
        let mut function = null_mut();
        call!(self, cuModuleGetFunction(&mut function, module.0, name.as_ptr()))?;
        Ok(FunctionHandle(function))
    }

    /// Starts a kernel on the default stream, in one dimension.
    ///
    /// # Safety
    /// `arguments` must point to one live value for each parameter of the kernel, each of the parameter's size; the
    /// addresses among them must be such as the kernel may use.
    pub(crate) unsafe fn launch(
        &self,
        function: FunctionHandle,
        blocks: u32,
        threads: u32,
        arguments: &mut [*mut c_void],
    ) -> Reply {
        let arguments = arguments.as_mut_ptr();
        call!(
            self,
            cuLaunchKernel(function.0, blocks, 1, 1, threads, 1, 1, 0, null_mut(), arguments, null_mut())
        )
    }

    /// Waits until everything on the default stream is done.
    pub(crate) fn synchronise_stream(&self) -> Reply {
        call!(self, cuStreamSynchronize(null_mut()))
    }
}
