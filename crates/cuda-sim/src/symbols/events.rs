//! Events.

use crate::abi::Out;
use crate::event::synchronise_event;
use crate::handle::Handle;
use crate::session::with;
use std::ffi::c_uint;

export! {
    2000 fn cuEventCreate(event: Out<Handle>, flags: c_uint) {
        with(|session| {
            let event = event.required()?;
            event.set(session.create_event(flags)?)
        })
    }

    4000 fn cuEventDestroy_v2(event: Handle) { with(|session| session.destroy_event(event)) }

    2000 fn cuEventQuery(event: Handle) { with(|session| session.query_event(event)) }

    2000 fn cuEventSynchronize(event: Handle) { synchronise_event(event) }

    2000 fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        with(|session| milliseconds.set(session.elapsed(start, end)?))
    }

    12080 fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) {
        with(|session| milliseconds.set(session.elapsed(start, end)?))
    }
}

export_pairs! {
    2000 fn cuEventRecord / cuEventRecord_ptsz(zero; event: Handle, stream: Handle) {
        with(|session| session.record(event, stream, zero, 0))
    }

    11010 fn cuEventRecordWithFlags / cuEventRecordWithFlags_ptsz(
        zero;
        event: Handle,
        stream: Handle,
        flags: c_uint,
    ) {
        with(|session| session.record(event, stream, zero, flags))
    }
}
