//! Streams and their capture.

use crate::abi::{HostMemory, In, Out};
use crate::capture::{CaptureInfo, Mode, Target, exchange_mode};
use crate::handle::{Handle, Thing};
use crate::session::{Session, with};
use crate::stream::synchronise_stream;
use std::ffi::{c_int, c_uint};

/// Hands out where a stream stands. The list of nodes stays until the next question of this kind.
fn tell(
    session: &mut Session,
    info: CaptureInfo,
    (status, id, graph): (Out<c_uint>, Out<u64>, Out<Handle>),
    (nodes, count): (Out<*const Handle>, Out<usize>),
) -> crate::error::Answer {
    status.set(info.status)?;
    if info.status == 1 {
        id.offer(info.id);
        graph.offer(info.graph.map_or(Handle::NULL, |graph| Handle::of(Thing::Graph(graph))));
        session.told_nodes = info.last_nodes.into_iter().map(|node| Handle::of(Thing::Node(node))).collect();
        nodes.offer(session.told_nodes.as_ptr());
        count.offer(session.told_nodes.len());
    }
    Ok(())
}

export! {
    2000 fn cuStreamCreate(stream: Out<Handle>, flags: c_uint) {
        with(|session| {
            let stream = stream.required()?;
            stream.set(session.create_stream(flags, 0)?)
        })
    }

    5050 fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: c_uint, priority: c_int) {
        with(|session| {
            let stream = stream.required()?;
            stream.set(session.create_stream(flags, priority)?)
        })
    }

    4000 fn cuStreamDestroy_v2(stream: Handle) { with(|session| session.destroy_stream(stream)) }

    10010 fn cuThreadExchangeStreamCaptureMode(mode: Out<c_uint>) { mode.set(exchange_mode(mode.get()?)?) }
}

export_pairs! {
    2000 fn cuStreamQuery / cuStreamQuery_ptsz(zero; stream: Handle) {
        with(|session| session.query_stream(stream, zero))
    }

    2000 fn cuStreamSynchronize / cuStreamSynchronize_ptsz(zero; stream: Handle) {
        synchronise_stream(stream, zero)
    }

    3020 fn cuStreamWaitEvent / cuStreamWaitEvent_ptsz(zero; stream: Handle, event: Handle, flags: c_uint) {
        with(|session| session.wait_event(stream, zero, event, flags))
    }

    5050 fn cuStreamGetPriority / cuStreamGetPriority_ptsz(zero; stream: Handle, priority: Out<c_int>) {
        with(|session| {
            let stream = session.stream(stream, zero)?;
            priority.set(session.streams.get(stream)?.priority)
        })
    }

    5050 fn cuStreamGetFlags / cuStreamGetFlags_ptsz(zero; stream: Handle, flags: Out<c_uint>) {
        with(|session| {
            let stream = session.stream(stream, zero)?;
            flags.set(session.streams.get(stream)?.flags())
        })
    }

    9020 fn cuStreamGetCtx / cuStreamGetCtx_ptsz(zero; stream: Handle, context: Out<Handle>) {
        with(|session| {
            let stream = session.stream(stream, zero)?;
            context.set(Handle::of(Thing::Context(session.streams.get(stream)?.context)))
        })
    }

    12080 fn cuStreamGetDevice / cuStreamGetDevice_ptsz(zero; stream: Handle, device: Out<c_int>) {
        with(|session| {
            let stream = session.stream(stream, zero)?;
            let context = session.streams.get(stream)?.context;
            device.set(session.contexts.get_mut(context)?.device as c_int)
        })
    }

    12000 fn cuStreamGetId / cuStreamGetId_ptsz(zero; stream: Handle, id: Out<u64>) {
        with(|session| id.set(u64::from(session.stream(stream, zero)?)))
    }

    10000 fn cuStreamBeginCapture / cuStreamBeginCapture_ptsz(zero; stream: Handle) {
        with(|session| session.begin_capture(stream, zero, Mode::Global, Target::NewGraph))
    }

    10010 fn cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz(zero; stream: Handle, mode: c_uint) {
        with(|session| session.begin_capture(stream, zero, Mode::read(mode)?, Target::NewGraph))
    }

    12030 fn cuStreamBeginCaptureToGraph / cuStreamBeginCaptureToGraph_ptsz(
        zero;
        stream: Handle,
        graph: Handle,
        after: In<Handle>,
        _edges: HostMemory,
        count: usize,
        mode: c_uint,
    ) {
        with(|session| {
            let after = session.node_numbers(&after.list(count)?)?;
            session.begin_capture(stream, zero, Mode::read(mode)?, Target::Graph(graph, after))
        })
    }

    13030 fn cuStreamBeginRecaptureToGraph / cuStreamBeginRecaptureToGraph_ptsz(
        zero;
        stream: Handle,
        mode: c_uint,
        graph: Handle,
        _callback: HostMemory,
        _data: HostMemory,
    ) {
        // What may differ is taken over without a question, so nobody is called back.
        with(|session| session.begin_capture(stream, zero, Mode::read(mode)?, Target::SameGraph(graph)))
    }

    10000 fn cuStreamEndCapture / cuStreamEndCapture_ptsz(zero; stream: Handle, graph: Out<Handle>) {
        with(|session| {
            let graph = graph.required()?;
            graph.set(Handle::NULL)?;
            graph.set(session.end_capture(stream, zero)?)
        })
    }

    10000 fn cuStreamIsCapturing / cuStreamIsCapturing_ptsz(zero; stream: Handle, status: Out<c_uint>) {
        with(|session| status.set(session.capture_info(stream, zero)?.status))
    }

    10010 fn cuStreamGetCaptureInfo / cuStreamGetCaptureInfo_ptsz(
        zero;
        stream: Handle,
        status: Out<c_uint>,
        id: Out<u64>,
    ) {
        with(|session| {
            let info = session.capture_info(stream, zero)?;
            status.set(info.status)?;
            id.offer(info.id);
            Ok(())
        })
    }

    11030 fn cuStreamGetCaptureInfo_v2 / cuStreamGetCaptureInfo_v2_ptsz(
        zero;
        stream: Handle,
        status: Out<c_uint>,
        id: Out<u64>,
        graph: Out<Handle>,
        nodes: Out<*const Handle>,
        count: Out<usize>,
    ) {
        with(|session| {
            let info = session.capture_info(stream, zero)?;
            tell(session, info, (status, id, graph), (nodes, count))
        })
    }

    12030 fn cuStreamGetCaptureInfo_v3 / cuStreamGetCaptureInfo_v3_ptsz(
        zero;
        stream: Handle,
        status: Out<c_uint>,
        id: Out<u64>,
        graph: Out<Handle>,
        nodes: Out<*const Handle>,
        edges: Out<*const u8>,
        count: Out<usize>,
    ) {
        with(|session| {
            let info = session.capture_info(stream, zero)?;
            // No edge says anything about itself.
            edges.offer(std::ptr::null());
            tell(session, info, (status, id, graph), (nodes, count))
        })
    }
}
