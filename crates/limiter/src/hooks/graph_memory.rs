//! Functions around memory that graphs allocate when they run.

use crate::capture;
use crate::driver::{CUDA, Code, OUT_OF_MEMORY, SUCCESS, hooks};
use crate::graph_walk::{self, ALLOCATES};
use crate::graphs::{self, Marks, look_at_graphs};
use crate::hooks::launches::own;
use crate::process::{Process, process};
use core::ffi::c_void;
use core::sync::atomic::Ordering;

/// A graph will allocate: from now on launches are looked at.
fn note() {
    if let Some(process) = process() {
        process.graphs_allocate.store(1, Ordering::Relaxed);
    }
}

/// Whether an allocation in this stream only becomes part of a graph.
pub(crate) fn is_captured(stream: usize) -> bool {
    let captured = process().is_some_and(|process| {
        process.is_limited() && process.captures.load(Ordering::Relaxed) > 0 && capture::is_captured(stream)
    });
    if captured {
        note();
    }
    captured
}

fn looked_at() -> Option<&'static Process> {
    process().filter(|process| process.is_limited() && process.graphs_allocate.load(Ordering::Relaxed) != 0)
}

/// Launches a graph or uploads it, if there is room for what it asks for.
pub(crate) fn launched(ready: usize, stream: usize, launch: impl FnOnce() -> Code) -> Code {
    let Some(process) = looked_at() else { return launch() };
    let asks = graphs::noted(process, ready);
    // In a capture it only becomes a part of another graph.
    if asks.iter().all(Option::is_none) || is_captured(stream) {
        return launch();
    }
    graphs::launch(process, Some(ready), &asks, launch).0
}

/// Makes a graph ready, and notes what it asks for. Some are uploaded at once.
///
/// SAFETY: `ready` must be where `make` makes the driver write a handle, or null.
unsafe fn made_ready(ready: *mut usize, graph: usize, uploads: bool, make: impl FnOnce() -> Code) -> Code {
    let Some(process) = looked_at() else { return make() };
    let asks = graphs::asks(process, &graph_walk::demand(process, graph));
    let (answer, marks) =
        if uploads { graphs::launch(process, None, &asks, make) } else { (make(), Marks::default()) };
    if answer != SUCCESS || ready.is_null() {
        return answer;
    }
    // SAFETY: the driver has written there.
    let made = unsafe { ready.read() };
    if !graphs::note(process, made, &asks, &marks) {
        graphs::forget(process, made);
        // SAFETY: it was just made, and nobody else knows of it.
        unsafe { cuGraphExecDestroy::call(made) };
        return OUT_OF_MEMORY;
    }
    answer
}

/// Flag of graphs that are uploaded as soon as they are ready.
const UPLOAD: u64 = 2;

/// SAFETY: as the driver's.
unsafe fn uploads(parameters: *const u64) -> bool {
    // SAFETY: the driver reads it as well: what it begins with are the flags.
    !parameters.is_null() && unsafe { parameters.read() } & UPLOAD != 0
}

/// SAFETY: as the driver's.
unsafe fn added(answer: Code, parameters: *const u32) -> Code {
    // SAFETY: the driver has read it: what it begins with is the kind.
    if answer == SUCCESS && unsafe { parameters.read() } == ALLOCATES {
        note();
    }
    answer
}

hooks! {
    HOOKS in CUDA;

    cuGraphAddMemAllocNode(node: *mut usize, graph: usize, after: *const usize, number: usize, parameters: *mut c_void) => {
        note();
        // SAFETY: the program's own arguments.
        unsafe { cuGraphAddMemAllocNode::call(node, graph, after, number, parameters) }
    };

    cuGraphAddNode(node: *mut usize, graph: usize, after: *const usize, number: usize, parameters: *mut u32) => {
        // SAFETY: the program's own arguments.
        unsafe { added(cuGraphAddNode::call(node, graph, after, number, parameters), parameters) }
    };

    cuGraphAddNode_v2(
        node: *mut usize, graph: usize, after: *const usize, edges: *const c_void, number: usize, parameters: *mut u32,
    ) => {
        // SAFETY: the program's own arguments.
        unsafe { added(cuGraphAddNode_v2::call(node, graph, after, edges, number, parameters), parameters) }
    };

    cuGraphAddNode_v3(
        node: *mut usize, graph: usize, after: *const usize, edges: *const c_void, number: usize, parameters: *mut u32,
    ) => {
        // SAFETY: the program's own arguments.
        unsafe { added(cuGraphAddNode_v3::call(node, graph, after, edges, number, parameters), parameters) }
    };

    cuGraphInstantiate(ready: *mut usize, graph: usize, node: *mut usize, log: *mut c_void, length: usize) => {
        // SAFETY: the program's own arguments.
        unsafe { made_ready(ready, graph, false, || cuGraphInstantiate::call(ready, graph, node, log, length)) }
    };

    cuGraphInstantiate_v2(ready: *mut usize, graph: usize, node: *mut usize, log: *mut c_void, length: usize) => {
        // SAFETY: the program's own arguments.
        unsafe { made_ready(ready, graph, false, || cuGraphInstantiate_v2::call(ready, graph, node, log, length)) }
    };

    cuGraphInstantiateWithFlags(ready: *mut usize, graph: usize, flags: u64) => {
        // SAFETY: the program's own arguments.
        unsafe { made_ready(ready, graph, flags & UPLOAD != 0, || cuGraphInstantiateWithFlags::call(ready, graph, flags)) }
    };

    cuGraphInstantiateWithParams(ready: *mut usize, graph: usize, parameters: *mut u64) => {
        // SAFETY: the program's own arguments.
        unsafe { made_ready(ready, graph, uploads(parameters), || cuGraphInstantiateWithParams::call(ready, graph, parameters)) }
    };

    cuGraphInstantiateWithParams_ptsz(ready: *mut usize, graph: usize, parameters: *mut u64) => {
        // SAFETY: the program's own arguments.
        unsafe { made_ready(ready, graph, uploads(parameters), || cuGraphInstantiateWithParams_ptsz::call(ready, graph, parameters)) }
    };

    cuGraphExecDestroy(ready: usize) => {
        // SAFETY: the program's own arguments.
        let destroy = || unsafe { cuGraphExecDestroy::call(ready) };
        let Some(process) = looked_at() else { return destroy() };
        // Before, because another thread may get the same name the moment it is free. What it has taken stays until it is trimmed.
        let asks = graphs::forget(process, ready);
        let answer = destroy();
        if answer != SUCCESS {
            graphs::note(process, ready, &asks, &Marks::default());
        }
        answer
    };

    cuGraphUpload(ready: usize, stream: usize) => {
        // SAFETY: the program's own arguments.
        launched(ready, stream, || unsafe { cuGraphUpload::call(ready, stream) })
    };

    cuGraphUpload_ptsz(ready: usize, stream: usize) => {
        // SAFETY: the program's own arguments.
        launched(ready, own(stream), || unsafe { cuGraphUpload_ptsz::call(ready, stream) })
    };

    cuDeviceGraphMemTrim(device: i32) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuDeviceGraphMemTrim::call(device) };
        if let Some(process) = looked_at() {
            look_at_graphs(process);
        }
        answer
    };
}
