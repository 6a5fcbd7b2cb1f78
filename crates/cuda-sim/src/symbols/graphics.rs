//! Contexts beside a graphics library, and captures into its command lists. The library itself is not there, so what it would be asked is
//! not.

use crate::abi::{HostMemory, In, Out};
use crate::capture::{Mode, Target};
use crate::error::{Answer, Code};
use crate::handle::Handle;
use crate::session::with;
use crate::structs::CommandListCapture;
use std::ffi::{c_int, c_uint};

fn create(context: Out<Handle>, device: c_int) -> Answer {
    with(|session| {
        let context = context.required()?;
        context.set(session.create_context(device)?)
    })
}

export! {
    2000 fn cuGLCtxCreate(context: Out<Handle>, _flags: c_uint, device: c_int) { create(context, device) }

    3020 fn cuGLCtxCreate_v2(context: Out<Handle>, _flags: c_uint, device: c_int) { create(context, device) }

    3010 fn cuVDPAUCtxCreate(
        context: Out<Handle>,
        _flags: c_uint,
        device: c_int,
        _display: c_uint,
        _find: HostMemory,
    ) {
        create(context, device)
    }

    3020 fn cuVDPAUCtxCreate_v2(
        context: Out<Handle>,
        _flags: c_uint,
        device: c_int,
        _display: c_uint,
        _find: HostMemory,
    ) {
        create(context, device)
    }
}

export_pairs! {
    13030 fn cuStreamBeginCaptureToCig / cuStreamBeginCaptureToCig_ptsz(
        zero;
        stream: Handle,
        parameters: In<CommandListCapture>,
    ) {
        with(|session| {
            if parameters.get()?.list == 0 {
                return Err(Code::INVALID_VALUE);
            }
            session.begin_capture(stream, zero, Mode::Relaxed, Target::CommandList)
        })
    }

    13030 fn cuStreamEndCaptureToCig / cuStreamEndCaptureToCig_ptsz(zero; stream: Handle) {
        with(|session| session.end_capture_to_list(stream, zero))
    }
}
