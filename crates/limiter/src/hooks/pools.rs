//! Functions of the driver's memory pools.

use crate::driver::own::{cuCtxGetDevice, cuDeviceGetMemPool};
use crate::driver::{CUDA, Code, SUCCESS, hooks};
use crate::hooks::graph_memory::is_captured;
use crate::hooks::launches::own;
use crate::hooks::memory::{ON_DEVICE, part_at};
use crate::memory::free;
use crate::pools::{allocate_from_pool, destroy_pool, enter_only_pool, look_at_pools, note, note_only_pool};
use crate::process::{Part, Process, known_process, process};
use carve_limiter_abi::point;
use core::sync::atomic::Ordering;

fn limited() -> Option<&'static Process> {
    process().filter(|process| process.is_limited())
}

/// The pool that the current device, which is a part, allocates from.
fn pool_of(process: &Process, part: &Part) -> usize {
    let known = part.pool.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // Nobody chooses another one meanwhile.
    let _held = process.pools_lock.take();
    let (mut device, mut pool) = (0, 0);
    // SAFETY: the driver writes a number and a handle.
    unsafe {
        cuCtxGetDevice::call(&mut device);
        cuDeviceGetMemPool::call(&mut pool, device);
    }
    part.pool.store(pool, Ordering::Relaxed);
    pool
}

/// Allocates from a pool, or from that of the current device, unless a capture only notes it down.
#[inline]
fn allocated(
    stream: usize,
    pool: Option<usize>,
    size: usize,
    allocate: impl FnOnce() -> Code,
    undo: impl FnOnce(),
) -> Code {
    // What happens all the time: one device, its own pool, and nothing to look at.
    if pool.is_none()
        && let Some(entered) = known_process().and_then(|process| enter_only_pool(process, size as u64))
    {
        point!(PoolEntered);
        let answer = allocate();
        entered.leave();
        return answer;
    }
    allocated_anywhere(stream, pool, size, allocate, undo)
}

#[inline(never)]
fn allocated_anywhere(
    stream: usize,
    pool: Option<usize>,
    size: usize,
    allocate: impl FnOnce() -> Code,
    undo: impl FnOnce(),
) -> Code {
    let Some(process) = limited().filter(|_| !is_captured(stream)) else { return allocate() };
    let part = process.current();
    let own = pool.is_none();
    let Some(pool) = pool.or_else(|| part.map(|part| pool_of(process, part))) else { return allocate() };
    let answer = allocate_from_pool(process, part, pool, size as u64, allocate, undo);
    if own && process.only_pool.load(Ordering::Relaxed) == 0 && process.device_count() == 1 {
        note_only_pool(process, part, pool);
    }
    answer
}

/// A place for memory.
#[repr(C)]
pub(crate) struct Location {
    kind: i32,
    number: i32,
}

/// What `cuMemPoolCreate` is told. It goes on behind this.
#[repr(C)]
pub(crate) struct Properties {
    kind: i32,
    handles: i32,
    place: Location,
}

/// Another pool is the current one of a place: it is asked for when it is needed.
///
/// SAFETY: as the driver's.
unsafe fn pool_changed(place: *const Location, change: impl FnOnce() -> Code) -> Code {
    let Some(process) = limited() else { return change() };
    let _held = process.pools_lock.take();
    let answer = change();
    // SAFETY: the driver has read it.
    let place = unsafe { place.as_ref() }.filter(|place| place.kind == ON_DEVICE);
    if let Some(part) = place.and_then(|place| process.part(place.number)) {
        part.pool.store(0, Ordering::Relaxed);
        process.only_pool.store(0, Ordering::Relaxed);
    }
    answer
}

hooks! {
    HOOKS in CUDA;

    cuMemAllocAsync(pointer: *mut u64, size: usize, stream: usize) => {
        // SAFETY: the program's own arguments.
        let undo = || unsafe {
            cuMemFreeAsync::call(pointer.read(), stream);
        };
        // SAFETY: see above.
        allocated(stream, None, size, || unsafe { cuMemAllocAsync::call(pointer, size, stream) }, undo)
    };

    cuMemAllocFromPoolAsync(pointer: *mut u64, size: usize, pool: usize, stream: usize) => {
        // SAFETY: the program's own arguments.
        let undo = || unsafe {
            cuMemFreeAsync::call(pointer.read(), stream);
        };
        // SAFETY: see above.
        let allocate = || unsafe { cuMemAllocFromPoolAsync::call(pointer, size, pool, stream) };
        allocated(stream, Some(pool), size, allocate, undo)
    };

    cuMemFreeAsync(pointer: u64, stream: usize) => {
        // It may be of `cuMemAlloc`, and then it is noted by its address.
        // SAFETY: the program's own arguments.
        free(pointer, || unsafe { cuMemFreeAsync::call(pointer, stream) })
    };

    cuMemAllocAsync_ptsz(pointer: *mut u64, size: usize, stream: usize) => {
        // SAFETY: the program's own arguments.
        let undo = || unsafe {
            cuMemFreeAsync_ptsz::call(pointer.read(), stream);
        };
        // SAFETY: see above.
        let allocate = || unsafe { cuMemAllocAsync_ptsz::call(pointer, size, stream) };
        allocated(own(stream), None, size, allocate, undo)
    };

    cuMemAllocFromPoolAsync_ptsz(pointer: *mut u64, size: usize, pool: usize, stream: usize) => {
        // SAFETY: the program's own arguments.
        let undo = || unsafe {
            cuMemFreeAsync_ptsz::call(pointer.read(), stream);
        };
        // SAFETY: see above.
        let allocate = || unsafe { cuMemAllocFromPoolAsync_ptsz::call(pointer, size, pool, stream) };
        allocated(own(stream), Some(pool), size, allocate, undo)
    };

    cuMemFreeAsync_ptsz(pointer: u64, stream: usize) => {
        // It may be of `cuMemAlloc`, and then it is noted by its address.
        // SAFETY: the program's own arguments.
        free(pointer, || unsafe { cuMemFreeAsync_ptsz::call(pointer, stream) })
    };

    cuMemPoolCreate(pool: *mut usize, properties: *const Properties) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMemPoolCreate::call(pool, properties) };
        if answer != SUCCESS {
            return answer;
        }
        // SAFETY: the driver has read the one and written the other.
        let (told, handle) = unsafe { (properties.as_ref(), pool.read()) };
        if let Some((process, told)) = limited().zip(told) {
            // Where there is no room for another, allocating from it is refused.
            note(process, handle, part_at(process, told.place.kind, told.place.number));
        }
        answer
    };

    cuDeviceSetMemPool(device: i32, pool: usize) => {
        let place = Location { kind: ON_DEVICE, number: device };
        // SAFETY: a place of our own, and the program's own arguments.
        unsafe { pool_changed(&place, || cuDeviceSetMemPool::call(device, pool)) }
    };

    cuMemSetMemPool(place: *const Location, kind: i32, pool: usize) => {
        // SAFETY: the program's own arguments.
        unsafe { pool_changed(place, || cuMemSetMemPool::call(place, kind, pool)) }
    };

    cuMemPoolTrimTo(pool: usize, keep: usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMemPoolTrimTo::call(pool, keep) };
        if let Some(process) = limited() {
            look_at_pools(process);
        }
        answer
    };

    cuMemPoolDestroy(pool: usize) => {
        // SAFETY: the program's own arguments.
        let destroy = || unsafe { cuMemPoolDestroy::call(pool) };
        let Some(process) = limited() else { return destroy() };
        let answer = destroy_pool(process, pool, destroy);
        // The device may have allocated from it, and has its first one again.
        process.only_pool.store(0, Ordering::Relaxed);
        for part in &process.parts {
            let _ = part.pool.compare_exchange(pool, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        answer
    };
}
