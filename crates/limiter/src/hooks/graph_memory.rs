//! Memory that graphs allocate when they run. The driver takes it at a launch, or when a graph is made ready or uploaded for one, and nothing
//! says before how much it will be.
//!
//! So it is counted right after the call that took it, and a container that has too much then starts no such graph until memory came back.

use crate::capture;
use crate::driver::own::{cuCtxGetDevice, cuDeviceGetGraphMemAttribute};
use crate::driver::{CUDA, Code, OUT_OF_MEMORY, SUCCESS, hooks};
use crate::process::{Part, Process, process};
use core::ffi::c_void;
use core::sync::atomic::Ordering;

const RESERVED_NOW: i32 = 2;
/// The kind of node that allocates.
const ALLOCATES: u32 = 10;

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

/// Counts what graphs have now on the current device.
fn count(process: &Process) -> Option<&Part> {
    let (mut device, mut now) = (0, 0u64);
    // SAFETY: the driver writes one number each.
    unsafe {
        if cuCtxGetDevice::call(&mut device) != SUCCESS
            || cuDeviceGetGraphMemAttribute::call(device, RESERVED_NOW, &mut now) != SUCCESS
        {
            return None;
        }
    }
    let part = process.part(device)?;
    let before = part.graphs.swap(now, Ordering::Relaxed);
    if now > before {
        part.add(now - before);
    } else {
        part.give(before - now);
    }
    Some(part)
}

fn looked_at() -> Option<&'static Process> {
    process().filter(|process| process.is_limited() && process.graphs_allocate.load(Ordering::Relaxed) != 0)
}

/// Launches a graph or makes it ready, if the container has not too much already.
pub(crate) fn launched(launch: impl FnOnce() -> Code) -> Code {
    let Some(process) = looked_at() else { return launch() };
    if let Some(part) = count(process)
        && part.held() > part.memory()
        // Nothing is asked for, but so the dead are noticed, and a refusal is counted.
        && !part.take(0)
    {
        return OUT_OF_MEMORY;
    }
    let answer = launch();
    count(process);
    answer
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
        launched(|| unsafe { cuGraphInstantiate::call(ready, graph, node, log, length) })
    };

    cuGraphInstantiate_v2(ready: *mut usize, graph: usize, node: *mut usize, log: *mut c_void, length: usize) => {
        // SAFETY: the program's own arguments.
        launched(|| unsafe { cuGraphInstantiate_v2::call(ready, graph, node, log, length) })
    };

    cuGraphInstantiateWithFlags(ready: *mut usize, graph: usize, flags: u64) => {
        // SAFETY: the program's own arguments.
        launched(|| unsafe { cuGraphInstantiateWithFlags::call(ready, graph, flags) })
    };

    cuGraphInstantiateWithParams(ready: *mut usize, graph: usize, parameters: *mut c_void) => {
        // SAFETY: the program's own arguments.
        launched(|| unsafe { cuGraphInstantiateWithParams::call(ready, graph, parameters) })
    };

    cuGraphInstantiateWithParams_ptsz(ready: *mut usize, graph: usize, parameters: *mut c_void) => {
        // SAFETY: the program's own arguments.
        launched(|| unsafe { cuGraphInstantiateWithParams_ptsz::call(ready, graph, parameters) })
    };

    cuGraphUpload(graph: usize, stream: usize) => {
        // SAFETY: the program's own arguments.
        launched(|| unsafe { cuGraphUpload::call(graph, stream) })
    };

    cuGraphUpload_ptsz(graph: usize, stream: usize) => {
        // SAFETY: the program's own arguments.
        launched(|| unsafe { cuGraphUpload_ptsz::call(graph, stream) })
    };

    cuDeviceGraphMemTrim(device: i32) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuDeviceGraphMemTrim::call(device) };
        if let Some(process) = looked_at() {
            count(process);
        }
        answer
    };
}
