//! Functions around graphs and captures: what is captured does not run yet, and nodes may allocate.

use crate::capture::is_captured;
use crate::driver::{CUDA, Code, SUCCESS, hooks};
use crate::hooks::launches::own;
use crate::process::process;
use core::ffi::c_void;
use core::sync::atomic::Ordering;

fn begun() {
    if let Some(process) = process() {
        process.captures.fetch_add(1, Ordering::Relaxed);
    }
}

fn ended() {
    if let Some(process) = process() {
        let fewer = |captures: u32| captures.checked_sub(1);
        let _ = process.captures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }
}

/// Begins a capture.
fn begin(call: impl FnOnce() -> Code) -> Code {
    // Before, so that no other thread's launch gets in between unnoticed.
    begun();
    let answer = call();
    if answer != SUCCESS {
        ended();
    }
    answer
}

/// Ends a capture, which is over even where it came to nothing. It goes on where the driver refused to end it, as it does from another
/// thread or in a stream that is not captured.
fn end(stream: usize, call: impl FnOnce() -> Code) -> Code {
    let was_captured = process().is_some() && is_captured(stream);
    let answer = call();
    if answer == SUCCESS || (was_captured && !is_captured(stream)) {
        ended();
    }
    answer
}

hooks! {
    HOOKS in CUDA;

    cuStreamBeginCapture(stream: usize) => {
        // SAFETY: the program's own arguments.
        begin(|| unsafe { cuStreamBeginCapture::call(stream) })
    };

    cuStreamBeginCapture_ptsz(stream: usize) => {
        // SAFETY: the program's own arguments.
        begin(|| unsafe { cuStreamBeginCapture_ptsz::call(stream) })
    };

    cuStreamBeginCapture_v2(stream: usize, mode: i32) => {
        // SAFETY: the program's own arguments.
        begin(|| unsafe { cuStreamBeginCapture_v2::call(stream, mode) })
    };

    cuStreamBeginCapture_v2_ptsz(stream: usize, mode: i32) => {
        // SAFETY: the program's own arguments.
        begin(|| unsafe { cuStreamBeginCapture_v2_ptsz::call(stream, mode) })
    };

    cuStreamBeginCaptureToGraph(stream: usize, graph: usize, from: *const usize, data: *const u64, count: usize, mode: i32) => {
        // SAFETY: the program's own arguments.
        begin(|| unsafe { cuStreamBeginCaptureToGraph::call(stream, graph, from, data, count, mode) })
    };

    cuStreamBeginCaptureToGraph_ptsz(stream: usize, graph: usize, from: *const usize, data: *const u64, count: usize, mode: i32) => {
        // SAFETY: the program's own arguments.
        begin(|| unsafe { cuStreamBeginCaptureToGraph_ptsz::call(stream, graph, from, data, count, mode) })
    };

    cuStreamEndCapture(stream: usize, graph: *mut usize) => {
        // SAFETY: the program's own arguments.
        end(stream, || unsafe { cuStreamEndCapture::call(stream, graph) })
    };

    cuStreamEndCapture_ptsz(stream: usize, graph: *mut usize) => {
        // SAFETY: the program's own arguments.
        end(own(stream), || unsafe { cuStreamEndCapture_ptsz::call(stream, graph) })
    };

    cuStreamBeginRecaptureToGraph(stream: usize, mode: i32, graph: usize, callback: usize, data: *mut c_void) => {
        // SAFETY: the program's own arguments.
        begin(|| unsafe { cuStreamBeginRecaptureToGraph::call(stream, mode, graph, callback, data) })
    };

    cuStreamBeginCaptureToCig(stream: usize, parameters: *mut c_void) => {
        // SAFETY: the program's own arguments.
        begin(|| unsafe { cuStreamBeginCaptureToCig::call(stream, parameters) })
    };

    cuStreamEndCaptureToCig(stream: usize) => {
        // SAFETY: the program's own arguments.
        end(stream, || unsafe { cuStreamEndCaptureToCig::call(stream) })
    };

    cuStreamBeginRecaptureToGraph_ptsz(stream: usize, mode: i32, graph: usize, callback: usize, data: *mut c_void) => {
        // SAFETY: the program's own arguments.
        begin(|| unsafe { cuStreamBeginRecaptureToGraph_ptsz::call(stream, mode, graph, callback, data) })
    };

    cuStreamBeginCaptureToCig_ptsz(stream: usize, parameters: *mut c_void) => {
        // SAFETY: the program's own arguments.
        begin(|| unsafe { cuStreamBeginCaptureToCig_ptsz::call(stream, parameters) })
    };

    cuStreamEndCaptureToCig_ptsz(stream: usize) => {
        // SAFETY: the program's own arguments.
        end(own(stream), || unsafe { cuStreamEndCaptureToCig_ptsz::call(stream) })
    };
}
