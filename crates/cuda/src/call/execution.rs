//! Calls about modules, kernels and streams of the current context.

use super::{Calls, Reply, call};
use crate::sys::Opaque;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

/// A module that was loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModuleHandle(Opaque);

/// A kernel of a module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionHandle(Opaque);

impl Calls {
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
