//! Graphs as wholes: made, made ready, run, and the memory they keep.

use crate::abi::{Out, OutAny};
use crate::error::Code;
use crate::handle::Handle;
use crate::session::with;
use crate::structs::{InstantiateParams, UpdateResult};
use std::ffi::{c_char, c_int, c_uint};

/// Why an update was refused.
const TOPOLOGY_CHANGED: c_uint = 2;

export! {
    10000 fn cuGraphCreate(graph: Out<Handle>, flags: c_uint) {
        with(|session| {
            let graph = graph.required()?;
            graph.set(session.create_graph(flags)?)
        })
    }

    10000 fn cuGraphDestroy(graph: Handle) { with(|session| session.destroy_graph(graph)) }

    10000 fn cuGraphClone(copy: Out<Handle>, graph: Handle) {
        with(|session| {
            let copy = copy.required()?;
            copy.set(session.clone_graph(graph)?)
        })
    }

    10000 fn cuGraphInstantiate(
        executable: Out<Handle>,
        graph: Handle,
        _error_node: Out<Handle>,
        _log: Out<c_char>,
        _log_size: usize,
    ) {
        with(|session| {
            let executable = executable.required()?;
            executable.set(session.instantiate(graph, 0)?)
        })
    }

    11000 fn cuGraphInstantiate_v2(
        executable: Out<Handle>,
        graph: Handle,
        _error_node: Out<Handle>,
        _log: Out<c_char>,
        _log_size: usize,
    ) {
        with(|session| {
            let executable = executable.required()?;
            executable.set(session.instantiate(graph, 0)?)
        })
    }

    11040 fn cuGraphInstantiateWithFlags(executable: Out<Handle>, graph: Handle, flags: u64) {
        with(|session| {
            let executable = executable.required()?;
            executable.set(session.instantiate(graph, flags)?)
        })
    }

    12000 fn cuGraphExecUpdate_v2(executable: Handle, graph: Handle, told: Out<UpdateResult>) {
        with(|session| {
            let same = session.update(executable, graph)?;
            let result = if same { 0 } else { TOPOLOGY_CHANGED };
            told.offer(UpdateResult { result, node: Handle::NULL, node_before: Handle::NULL });
            if same { Ok(()) } else { Err(Code::GRAPH_EXEC_UPDATE_FAILURE) }
        })
    }

    10000 fn cuGraphExecDestroy(executable: Handle) { with(|session| session.destroy_executable(executable)) }

    11040 fn cuDeviceGetGraphMemAttribute(device: c_int, attribute: c_int, value: OutAny) {
        with(|session| {
            let level = session.graph_level(device)?;
            value.of::<u64>().set(match attribute {
                0 => level.used,
                1 => level.used_high,
                2 => level.reserved,
                3 => level.reserved_high,
                _ => return Err(Code::INVALID_VALUE),
            })
        })
    }

    11040 fn cuDeviceSetGraphMemAttribute(device: c_int, attribute: c_int, value: OutAny) {
        with(|session| match value.of::<u64>().get()? {
            0 => session.reset_graph_high(device, attribute),
            _ => Err(Code::INVALID_VALUE),
        })
    }

    11040 fn cuDeviceGraphMemTrim(device: c_int) { with(|session| session.trim_graphs(device)) }
}

export_pairs! {
    12000 fn cuGraphInstantiateWithParams / cuGraphInstantiateWithParams_ptsz(
        _zero;
        executable: Out<Handle>,
        graph: Handle,
        parameters: Out<InstantiateParams>,
    ) {
        with(|session| {
            let (executable, mut told) = (executable.required()?, parameters.get()?);
            executable.set(session.instantiate(graph, told.flags)?)?;
            (told.error_node, told.result) = (Handle::NULL, 0);
            parameters.set(told)
        })
    }

    11010 fn cuGraphUpload / cuGraphUpload_ptsz(zero; executable: Handle, stream: Handle) {
        with(|session| {
            session.stream(stream, zero)?;
            session.upload_graph(executable)
        })
    }

    10000 fn cuGraphLaunch / cuGraphLaunch_ptsz(zero; executable: Handle, stream: Handle) {
        with(|session| session.launch_graph(executable, stream, zero))
    }
}
