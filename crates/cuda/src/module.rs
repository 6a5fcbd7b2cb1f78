//! Programs on a device: modules and their kernels.

use crate::call::{FunctionHandle, ModuleHandle};
use crate::context::Context;
use crate::error::{CudaCode, CudaError};
use std::ffi::{CString, c_void};

/// A program that was loaded, unloaded when dropped.
#[derive(Debug)]
pub struct Module<'x> {
    context: &'x Context<'x>,
    handle: ModuleHandle,
}

/// A kernel of a module.
#[derive(Debug)]
pub struct Function<'m> {
    module: &'m Module<'m>,
    handle: FunctionHandle,
    name: String,
}

impl<'x> Module<'x> {
    pub(crate) fn load(context: &'x Context<'_>, ptx: &str) -> Result<Self, CudaError> {
        let refused = || context.error(CudaCode::INVALID_PTX, "load a program that is not PTX text");
        // An image that opens like an ELF file would be believed about its own length.
        if ptx.starts_with('\u{7f}') {
            return Err(refused());
        }
        let text = CString::new(ptx).map_err(|_| refused())?;
        let handle = context.call(|calls| calls.load(&text), || "load a PTX program".to_owned())?;
        Ok(Module { context, handle })
    }

    /// A kernel by its name.
    pub fn function(&self, name: &str) -> Result<Function<'_>, CudaError> {
        let doing = || format!("find the kernel '{name}'");
        let spelled = CString::new(name).map_err(|_| self.context.error(CudaCode::NOT_FOUND, &doing()))?;
        let handle = self.context.call(|calls| calls.function(self.handle, &spelled), doing)?;
        Ok(Function { module: self, handle, name: name.to_owned() })
    }
}

impl Function<'_> {
    pub(crate) fn handle(&self) -> FunctionHandle {
        self.handle
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Starts the kernel on the default stream, in one dimension; it runs on after this returns.
    ///
    /// # Safety
    /// `arguments` must point to one live value for each parameter of the kernel, each of the parameter's size; the
    /// addresses among them must be of buffers that are large enough for what the kernel does and that live until
    /// the work is finished.
    #[allow(unsafe_code, reason = "only the caller knows the kernel's parameters")]
    pub unsafe fn launch(
        &self,
        blocks: u32,
        threads: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), CudaError> {
        self.module.context.call(
            // SAFETY: the caller promises what the call asks for.
            |calls| unsafe { calls.launch(self.handle, blocks, threads, arguments) },
            || format!("start the kernel '{}'", self.name),
        )
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        let _ = self.context.call(|calls| calls.unload(self.handle), String::new);
    }
}
