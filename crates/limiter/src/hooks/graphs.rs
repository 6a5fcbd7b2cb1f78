//! Functions around graphs and captures: what is captured does not run yet, and nodes may allocate.

use crate::driver::{CUDA, SUCCESS, hooks};
use crate::process::process;
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

hooks! {
    HOOKS in CUDA;

    cuStreamBeginCapture(stream: usize) => {
        // Before, so that no other thread's launch gets in between unnoticed.
        begun();
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuStreamBeginCapture::call(stream) };
        if answer != SUCCESS {
            ended();
        }
        answer
    };

    cuStreamBeginCapture_ptsz(stream: usize) => {
        // Before, so that no other thread's launch gets in between unnoticed.
        begun();
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuStreamBeginCapture_ptsz::call(stream) };
        if answer != SUCCESS {
            ended();
        }
        answer
    };

    cuStreamBeginCapture_v2(stream: usize, mode: i32) => {
        // Before, so that no other thread's launch gets in between unnoticed.
        begun();
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuStreamBeginCapture_v2::call(stream, mode) };
        if answer != SUCCESS {
            ended();
        }
        answer
    };

    cuStreamBeginCapture_v2_ptsz(stream: usize, mode: i32) => {
        // Before, so that no other thread's launch gets in between unnoticed.
        begun();
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuStreamBeginCapture_v2_ptsz::call(stream, mode) };
        if answer != SUCCESS {
            ended();
        }
        answer
    };

    cuStreamBeginCaptureToGraph(stream: usize, graph: usize, from: *const usize, data: *const u64, count: usize, mode: i32) => {
        // Before, so that no other thread's launch gets in between unnoticed.
        begun();
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuStreamBeginCaptureToGraph::call(stream, graph, from, data, count, mode) };
        if answer != SUCCESS {
            ended();
        }
        answer
    };

    cuStreamBeginCaptureToGraph_ptsz(stream: usize, graph: usize, from: *const usize, data: *const u64, count: usize, mode: i32) => {
        // Before, so that no other thread's launch gets in between unnoticed.
        begun();
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuStreamBeginCaptureToGraph_ptsz::call(stream, graph, from, data, count, mode) };
        if answer != SUCCESS {
            ended();
        }
        answer
    };

    cuStreamEndCapture(stream: usize, graph: *mut usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuStreamEndCapture::call(stream, graph) };
        ended();
        answer
    };

    cuStreamEndCapture_ptsz(stream: usize, graph: *mut usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuStreamEndCapture_ptsz::call(stream, graph) };
        ended();
        answer
    };
}
