//! Functions that allocate and free memory by address or handle.

use crate::driver::{CUDA, Code, INVALID_VALUE, SUCCESS, hooks};
use crate::memory::{Packing, allocate, free, keep, map, release, unbind_all, unmap};
use crate::process::{Part, Process, process};

pub(super) fn current() -> Option<&'static Part> {
    process()?.current()
}

/// What `cuMemCreate` is told: where the memory is to be. It goes on behind this.
#[repr(C)]
pub(crate) struct Properties {
    kind: i32,
    handles: i32,
    place: i32,
    device: i32,
}

/// Places of memory: a device; the host, a node of it, or the node of the current thread.
pub(super) const ON_DEVICE: i32 = 1;
const ON_HOST: [i32; 3] = [2, 3, 4];

/// The part whose memory a place is. What is neither host nor a device by its number is taken for the current device.
pub(super) fn part_at(process: &'static Process, kind: i32, device: i32) -> Option<&'static Part> {
    match kind {
        ON_DEVICE => process.part(device),
        host if ON_HOST.contains(&host) => None,
        _ => process.current(),
    }
}

/// What arrays are described with.
#[repr(C)]
pub(crate) struct Array {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// What arrays with depth are described with.
#[repr(C)]
pub(crate) struct Array3D {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    channels: u32,
    flags: u32,
}

/// Bytes of one channel of a format.
fn channel(format: u32) -> u64 {
    match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        _ => 4,
    }
}

/// An array takes at least this much; the driver arranges rows in tiles and may take more.
pub(super) fn bytes(width: usize, height: usize, depth: usize, format: u32, channels: u32) -> u64 {
    let sizes = [width, height.max(1), depth.max(1)];
    let elements = sizes.iter().fold(1u64, |size, &one| size.saturating_mul(one as u64));
    elements.saturating_mul(channel(format)).saturating_mul(u64::from(channels.max(1)))
}

/// Arrays whose memory is created and bound to them later.
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;

/// SAFETY: as the driver's.
unsafe fn part_for(array: *const Array3D) -> Option<&'static Part> {
    // SAFETY: the driver reads it as well, and refuses null.
    let bound_later = unsafe { array.as_ref() }.is_some_and(|array| array.flags & WITHOUT_MEMORY != 0);
    if bound_later { None } else { current() }
}

/// SAFETY: as the driver's.
unsafe fn bytes_2d(array: *const Array) -> u64 {
    // SAFETY: the driver reads it as well, and refuses null.
    unsafe { array.as_ref() }
        .map_or(0, |array| bytes(array.width, array.height, 1, array.format, array.channels))
}

/// SAFETY: as the driver's.
unsafe fn bytes_3d(array: *const Array3D) -> u64 {
    // SAFETY: the driver reads it as well, and refuses null.
    unsafe { array.as_ref() }
        .map_or(0, |array| bytes(array.width, array.height, array.depth, array.format, array.channels))
}

fn destroyed(array: u64, destroy: impl FnOnce() -> Code) -> Code {
    let answer = free(array, destroy);
    if answer == SUCCESS {
        unbind_all(array);
    }
    answer
}

hooks! {
    HOOKS in CUDA;

    cuMemAlloc_v2(pointer: *mut u64, size: usize) => {
        // SAFETY: the program's own arguments.
        unsafe {
            let call = || cuMemAlloc_v2::call(pointer, size);
            allocate(current(), size as u64, Packing::SHARED, pointer, call, |made| cuMemFree_v2::call(made))
        }
    };

    cuMemAllocPitch_v2(pointer: *mut u64, pitch: *mut usize, width: usize, height: usize, element: u32) => {
        // Rows are as far apart as the widest access of any device needs.
        let row = (width as u64).checked_next_multiple_of(512).unwrap_or(u64::MAX);
        let size = row.saturating_mul(height as u64);
        // SAFETY: the program's own arguments.
        unsafe {
            let call = || cuMemAllocPitch_v2::call(pointer, pitch, width, height, element);
            allocate(current(), size, Packing::SHARED, pointer, call, |made| cuMemFree_v2::call(made))
        }
    };

    cuMemAllocManaged(pointer: *mut u64, size: usize, flags: u32) => {
        // SAFETY: the program's own arguments.
        unsafe {
            let call = || cuMemAllocManaged::call(pointer, size, flags);
            allocate(current(), size as u64, Packing::WHOLE, pointer, call, |made| cuMemFree_v2::call(made))
        }
    };

    cuMemFree_v2(pointer: u64) => {
        // SAFETY: the program's own arguments.
        free(pointer, || unsafe { cuMemFree_v2::call(pointer) })
    };

    cuMemCreate(handle: *mut u64, size: usize, properties: *const Properties, flags: u64) => {
        // SAFETY: the driver reads it as well.
        let Some(wanted) = (unsafe { properties.as_ref() }) else { return INVALID_VALUE };
        let part = process().and_then(|process| part_at(process, wanted.place, wanted.device));
        // SAFETY: the program's own arguments.
        unsafe {
            let call = || cuMemCreate::call(handle, size, properties, flags);
            allocate(part, size as u64, Packing::PHYSICAL, handle, call, |made| cuMemRelease::call(made))
        }
    };

    cuMemRelease(handle: u64) => {
        // SAFETY: the program's own arguments.
        release(handle, || unsafe { cuMemRelease::call(handle) })
    };

    cuMemRetainAllocationHandle(handle: *mut u64, address: u64) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMemRetainAllocationHandle::call(handle, address) };
        if answer == SUCCESS {
            // SAFETY: the driver has written there.
            keep(unsafe { handle.read() });
        }
        answer
    };

    cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: u64) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMemMap::call(address, size, offset, handle, flags) };
        if answer == SUCCESS {
            map(address, handle);
        }
        answer
    };

    cuMemUnmap(address: u64, size: usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMemUnmap::call(address, size) };
        if answer == SUCCESS {
            unmap(address, size as u64);
        }
        answer
    };

    cuArrayCreate_v2(array: *mut u64, wanted: *const Array) => {
        // SAFETY: the program's own arguments.
        unsafe {
            let call = || cuArrayCreate_v2::call(array, wanted);
            allocate(current(), bytes_2d(wanted), Packing::WHOLE, array, call, |made| cuArrayDestroy::call(made))
        }
    };

    cuArray3DCreate_v2(array: *mut u64, wanted: *const Array3D) => {
        // SAFETY: the program's own arguments.
        unsafe {
            let call = || cuArray3DCreate_v2::call(array, wanted);
            allocate(part_for(wanted), bytes_3d(wanted), Packing::WHOLE, array, call, |made| cuArrayDestroy::call(made))
        }
    };

    cuArrayDestroy(array: u64) => {
        // SAFETY: the program's own arguments.
        destroyed(array, || unsafe { cuArrayDestroy::call(array) })
    };

    cuMipmappedArrayCreate(array: *mut u64, wanted: *const Array3D, levels: u32) => {
        // SAFETY: the program's own arguments.
        unsafe {
            // All further levels together are a third of the first at most, or as much again where there is one dimension.
            let size = bytes_3d(wanted).saturating_mul(if levels > 1 { 2 } else { 1 });
            let call = || cuMipmappedArrayCreate::call(array, wanted, levels);
            allocate(part_for(wanted), size, Packing::WHOLE, array, call, |made| cuMipmappedArrayDestroy::call(made))
        }
    };

    cuMipmappedArrayDestroy(array: u64) => {
        // SAFETY: the program's own arguments.
        destroyed(array, || unsafe { cuMipmappedArrayDestroy::call(array) })
    };
}
