//! Calls about green contexts: contexts with multiprocessors of their own.

use super::{Calls, ContextHandle, DeviceHandle, Reply, StreamHandle, check};
use crate::error::CudaCode;
use crate::sys::{GreenSymbols, Opaque, Resource};
use std::ffi::c_uint;
use std::ptr::null_mut;

/// A green context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GreenHandle(Opaque);

/// `CU_DEV_RESOURCE_TYPE_SM`.
const MULTIPROCESSORS: c_uint = 1;
/// Every green context is made with it.
const DEFAULT_STREAM: c_uint = 1;
/// A stream of a green context may not wait for the default one.
const NON_BLOCKING: c_uint = 1;

/// Calls a function of the group that older libraries lack.
macro_rules! call_green {
    ($symbols:expr, $name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: as for `call!`; counts tell how many elements the arrays behind pointers have.
        check(unsafe { ($symbols.$name)($($argument),*) })
    };
}

impl Calls {
    fn green(&self) -> Reply<&GreenSymbols> {
        self.green.as_ref().ok_or(CudaCode::NOT_SUPPORTED)
    }

    /// The multiprocessors of a device in so many equal parts; what is left over is nobody's.
    pub(crate) fn split(&self, device: DeviceHandle, parts: u32) -> Reply<Vec<Resource>> {
        let symbols = self.green()?;
        let mut all = Resource::EMPTY;
        call_green!(symbols, cuDeviceGetDevResource(device.0, &mut all, MULTIPROCESSORS))?;
        // The driver gives parts in steps of its own and rounds up, so that a fair part may be more than there is.
        let mut least = all.multiprocessors / parts.max(1);
        while least > 0 {
            let mut groups = vec![Resource::EMPTY; parts as usize];
            let (mut count, mut rest) = (parts, Resource::EMPTY);
            let split = call_green!(
                symbols,
                cuDevSmResourceSplitByCount(groups.as_mut_ptr(), &mut count, &all, &mut rest, 0, least)
            );
            if split.is_ok() && count >= parts {
                return Ok(groups);
            }
            least -= 1;
        }
        Err(CudaCode::INVALID_VALUE)
    }

    /// A green context with these multiprocessors, and the context to make current.
    pub(crate) fn create_green(
        &self,
        device: DeviceHandle,
        mut part: Resource,
    ) -> Reply<(GreenHandle, ContextHandle)> {
        let symbols = self.green()?;
        let (mut description, mut green, mut context) = (null_mut(), null_mut(), null_mut());
        call_green!(symbols, cuDevResourceGenerateDesc(&mut description, &mut part, 1))?;
        call_green!(symbols, cuGreenCtxCreate(&mut green, description, device.0, DEFAULT_STREAM))?;
        let handle = GreenHandle(green);
        match call_green!(symbols, cuCtxFromGreenCtx(&mut context, green)) {
            Ok(()) => Ok((handle, ContextHandle(context))),
            Err(code) => {
                let _ = self.destroy_green(handle);
                Err(code)
            }
        }
    }

    pub(crate) fn destroy_green(&self, green: GreenHandle) -> Reply {
        call_green!(self.green()?, cuGreenCtxDestroy(green.0))
    }

    /// A stream whose kernels run on a green context's multiprocessors.
    pub(crate) fn create_green_stream(&self, green: GreenHandle) -> Reply<StreamHandle> {
        let mut stream = null_mut();
        call_green!(self.green()?, cuGreenCtxStreamCreate(&mut stream, green.0, NON_BLOCKING, 0))?;
        Ok(StreamHandle(stream))
    }
}
