//! Functions of the driver's memory pools.

use crate::driver::own::{cuCtxGetDevice, cuDeviceGetMemPool};
use crate::driver::{CUDA, SUCCESS, hooks};
use crate::hooks::graph_memory::is_captured;
use crate::hooks::launches::own;
use crate::memory::{allocate_from_pool, end_pool, free, look_at_pools};
use crate::process::{Part, process};
use core::sync::atomic::Ordering;

/// The part of the current device, and the pool that it allocates from.
fn current() -> (Option<&'static Part>, usize) {
    let Some(part) = process().and_then(|process| process.current()) else { return (None, 0) };
    let known = part.pool.load(Ordering::Relaxed);
    if known != 0 {
        return (Some(part), known);
    }
    let (mut device, mut pool) = (0, 0);
    // SAFETY: the driver writes a number and a handle.
    unsafe {
        cuCtxGetDevice::call(&mut device);
        cuDeviceGetMemPool::call(&mut pool, device);
    }
    part.pool.store(pool, Ordering::Relaxed);
    (Some(part), pool)
}

hooks! {
    HOOKS in CUDA;

    cuMemAllocAsync(pointer: *mut u64, size: usize, stream: usize) => {
        if is_captured(stream) {
            // SAFETY: the program's own arguments.
            return unsafe { cuMemAllocAsync::call(pointer, size, stream) };
        }
        let (part, pool) = current();
        // SAFETY: the program's own arguments.
        let undo = || unsafe {
            cuMemFreeAsync::call(pointer.read(), stream);
        };
        // SAFETY: see above.
        allocate_from_pool(part, pool, size as u64, || unsafe { cuMemAllocAsync::call(pointer, size, stream) }, undo)
    };

    cuMemAllocFromPoolAsync(pointer: *mut u64, size: usize, pool: usize, stream: usize) => {
        if is_captured(stream) {
            // SAFETY: the program's own arguments.
            return unsafe { cuMemAllocFromPoolAsync::call(pointer, size, pool, stream) };
        }
        let (part, _) = current();
        // SAFETY: the program's own arguments.
        let undo = || unsafe {
            cuMemFreeAsync::call(pointer.read(), stream);
        };
        // SAFETY: see above.
        allocate_from_pool(part, pool, size as u64, || unsafe { cuMemAllocFromPoolAsync::call(pointer, size, pool, stream) }, undo)
    };

    cuMemFreeAsync(pointer: u64, stream: usize) => {
        // It may be of `cuMemAlloc`, and then it is noted by its address.
        // SAFETY: the program's own arguments.
        free(pointer, || unsafe { cuMemFreeAsync::call(pointer, stream) })
    };

    cuMemAllocAsync_ptsz(pointer: *mut u64, size: usize, stream: usize) => {
        if is_captured(own(stream)) {
            // SAFETY: the program's own arguments.
            return unsafe { cuMemAllocAsync_ptsz::call(pointer, size, stream) };
        }
        let (part, pool) = current();
        // SAFETY: the program's own arguments.
        let undo = || unsafe {
            cuMemFreeAsync_ptsz::call(pointer.read(), stream);
        };
        // SAFETY: see above.
        allocate_from_pool(part, pool, size as u64, || unsafe { cuMemAllocAsync_ptsz::call(pointer, size, stream) }, undo)
    };

    cuMemAllocFromPoolAsync_ptsz(pointer: *mut u64, size: usize, pool: usize, stream: usize) => {
        if is_captured(own(stream)) {
            // SAFETY: the program's own arguments.
            return unsafe { cuMemAllocFromPoolAsync_ptsz::call(pointer, size, pool, stream) };
        }
        let (part, _) = current();
        // SAFETY: the program's own arguments.
        let undo = || unsafe {
            cuMemFreeAsync_ptsz::call(pointer.read(), stream);
        };
        // SAFETY: see above.
        allocate_from_pool(part, pool, size as u64, || unsafe { cuMemAllocFromPoolAsync_ptsz::call(pointer, size, pool, stream) }, undo)
    };

    cuMemFreeAsync_ptsz(pointer: u64, stream: usize) => {
        // It may be of `cuMemAlloc`, and then it is noted by its address.
        // SAFETY: the program's own arguments.
        free(pointer, || unsafe { cuMemFreeAsync_ptsz::call(pointer, stream) })
    };

    cuDeviceSetMemPool(device: i32, pool: usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuDeviceSetMemPool::call(device, pool) };
        if let Some(part) = process().and_then(|process| process.part(device)) {
            part.pool.store(0, Ordering::Relaxed);
        }
        answer
    };

    cuMemPoolTrimTo(pool: usize, keep: usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMemPoolTrimTo::call(pool, keep) };
        if let Some(process) = process().filter(|process| process.is_limited()) {
            look_at_pools(process);
        }
        answer
    };

    cuMemPoolDestroy(pool: usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMemPoolDestroy::call(pool) };
        if answer == SUCCESS {
            end_pool(pool);
        }
        answer
    };
}
