//! Green contexts, and what contexts may take for themselves.

use crate::abi::{HostMemory, Out};
use crate::error::Code;
use crate::handle::Handle;
use crate::session::with;
use std::ffi::{c_int, c_uint};

/// The flag that every green context is made with.
const DEFAULT_STREAM: c_uint = 1;

export! {
    12040 fn cuGreenCtxCreate(green: Out<Handle>, _resources: HostMemory, device: c_int, flags: c_uint) {
        with(|session| {
            let green = green.required()?;
            if flags & !DEFAULT_STREAM != 0 {
                return Err(Code::INVALID_VALUE);
            }
            green.set(session.create_green(device)?)
        })
    }

    12040 fn cuGreenCtxDestroy(green: Handle) { with(|session| session.destroy_green(green)) }

    12040 fn cuCtxFromGreenCtx(context: Out<Handle>, green: Handle) {
        with(|session| context.set(session.context_of_green(green)?))
    }

    12050 fn cuGreenCtxStreamCreate(stream: Out<Handle>, green: Handle, _flags: c_uint, priority: c_int) {
        with(|session| {
            let stream = stream.required()?;
            stream.set(session.create_green_stream(green, priority)?)
        })
    }

    3010 fn cuCtxGetLimit(value: Out<usize>, limit: c_int) {
        with(|session| value.set(session.context_limit(limit)?))
    }

    3010 fn cuCtxSetLimit(limit: c_int, value: usize) {
        with(|session| session.set_context_limit(limit, value))
    }
}
