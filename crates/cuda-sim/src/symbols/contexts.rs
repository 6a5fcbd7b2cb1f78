//! Contexts.

use crate::abi::{HostMemory, In, Out};
use crate::handle::Handle;
use crate::session::with;
use crate::stream::synchronise_context;
use crate::structs::ContextParameters;
use std::ffi::{c_int, c_uint};

export! {
    7000 fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: c_int) {
        with(|session| {
            let context = context.required()?;
            context.set(session.retain(device)?)
        })
    }

    11000 fn cuDevicePrimaryCtxRelease_v2(device: c_int) { with(|session| session.release(device)) }

    11000 fn cuDevicePrimaryCtxReset_v2(device: c_int) { with(|session| session.reset(device)) }

    7000 fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        with(|session| {
            let state = session.primary_is_active(device)?;
            flags.set(0)?;
            active.set(state.into())
        })
    }

    3020 fn cuCtxCreate_v2(context: Out<Handle>, _flags: c_uint, device: c_int) {
        with(|session| {
            let context = context.required()?;
            context.set(session.create_context(device)?)
        })
    }

    11040 fn cuCtxCreate_v3(
        context: Out<Handle>,
        _affinity: HostMemory,
        _count: c_int,
        _flags: c_uint,
        device: c_int,
    ) {
        with(|session| {
            let context = context.required()?;
            context.set(session.create_context(device)?)
        })
    }

    12050 fn cuCtxCreate_v4(
        context: Out<Handle>,
        parameters: In<ContextParameters>,
        _flags: c_uint,
        device: c_int,
    ) {
        with(|session| {
            let context = context.required()?;
            // Without parameters it is an ordinary one.
            let in_graphics = parameters.get().is_ok_and(|told| told.graphics != 0);
            context.set(match in_graphics {
                true => session.create_graphics_context(device)?,
                false => session.create_context(device)?,
            })
        })
    }

    4000 fn cuCtxDestroy_v2(context: Handle) { with(|session| session.destroy_context(context)) }

    4000 fn cuCtxSetCurrent(context: Handle) { with(|session| session.set_current(context)) }

    4000 fn cuCtxGetCurrent(context: Out<Handle>) { with(|session| context.set(session.current_handle())) }

    4000 fn cuCtxPushCurrent_v2(context: Handle) { with(|session| session.push_current(context)) }

    4000 fn cuCtxPopCurrent_v2(context: Out<Handle>) {
        with(|session| {
            context.offer(session.pop_current()?);
            Ok(())
        })
    }

    2000 fn cuCtxGetDevice(device: Out<c_int>) {
        with(|session| device.set(session.here()?.device as c_int))
    }

    13000 fn cuCtxGetDevice_v2(device: Out<c_int>, context: Handle) {
        with(|session| device.set(session.in_context(context)?.device as c_int))
    }

    2000 fn cuCtxSynchronize() { synchronise_context(Handle::NULL) }

    13000 fn cuCtxSynchronize_v2(context: Handle) { synchronise_context(context) }

    5050 fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        with(|session| {
            session.here()?;
            // What data centre GPUs say.
            least.offer(0);
            greatest.offer(-5);
            Ok(())
        })
    }
}
