//! Functions of CUDA before 3.2 that have later versions: addresses and sizes have 32 bits.

use super::memory::{bytes, cuArrayDestroy, current};
use super::tells::share;
use crate::driver::{CUDA, Code, SUCCESS, hooks};
use crate::memory::{Packing, allocate, free};
use crate::process::process;

/// What arrays are described with.
#[repr(C)]
pub(crate) struct Array {
    width: u32,
    height: u32,
    format: u32,
    channels: u32,
}

/// What arrays with depth are described with.
#[repr(C)]
pub(crate) struct Array3D {
    width: u32,
    height: u32,
    depth: u32,
    format: u32,
    channels: u32,
    flags: u32,
}

/// Allocates at an address that has 32 bits.
///
/// SAFETY: `pointer` must be where `call` makes the driver write an address, or null.
unsafe fn allocate_below(size: u64, pointer: *const u32, call: impl FnOnce() -> Code) -> Code {
    let mut address = 0;
    let place = &raw mut address;
    let and_widen = || {
        let answer = call();
        if answer == SUCCESS && !pointer.is_null() {
            // SAFETY: a place of our own, and one where the driver has written.
            unsafe { place.write(u64::from(pointer.read())) };
        }
        answer
    };
    // SAFETY: see above.
    unsafe {
        allocate(current(), size, Packing::SHARED, place, and_widen, |made| cuMemFree::call(made as u32))
    }
}

/// As much of a number as 32 bits can say.
fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

hooks! {
    HOOKS in CUDA;

    cuMemAlloc(pointer: *mut u32, size: u32) => {
        // SAFETY: the program's own arguments.
        unsafe { allocate_below(u64::from(size), pointer, || cuMemAlloc::call(pointer, size)) }
    };

    cuMemAllocPitch(pointer: *mut u32, pitch: *mut u32, width: u32, height: u32, element: u32) => {
        let size = u64::from(width).next_multiple_of(512) * u64::from(height);
        // SAFETY: the program's own arguments.
        unsafe { allocate_below(size, pointer, || cuMemAllocPitch::call(pointer, pitch, width, height, element)) }
    };

    cuMemFree(pointer: u32) => {
        // SAFETY: the program's own arguments.
        free(u64::from(pointer), || unsafe { cuMemFree::call(pointer) })
    };

    cuArrayCreate(array: *mut u64, wanted: *const Array) => {
        // SAFETY: the program's own arguments.
        unsafe {
            let size = wanted.as_ref().map_or(0, |told| {
                bytes(told.width as usize, told.height as usize, 1, told.format, told.channels)
            });
            let call = || cuArrayCreate::call(array, wanted);
            allocate(current(), size, Packing::WHOLE, array, call, |made| cuArrayDestroy::call(made))
        }
    };

    cuArray3DCreate(array: *mut u64, wanted: *const Array3D) => {
        // SAFETY: the program's own arguments.
        unsafe {
            let size = wanted.as_ref().map_or(0, |told| {
                bytes(told.width as usize, told.height as usize, told.depth as usize, told.format, told.channels)
            });
            let call = || cuArray3DCreate::call(array, wanted);
            allocate(current(), size, Packing::WHOLE, array, call, |made| cuArrayDestroy::call(made))
        }
    };

    cuMemGetInfo(free: *mut u32, total: *mut u32) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMemGetInfo::call(free, total) };
        if answer == SUCCESS
            && let Some((left, all)) = share()
        {
            // SAFETY: the driver has written there.
            unsafe {
                free.write(narrow(left).min(free.read()));
                total.write(narrow(all).min(total.read()));
            }
        }
        answer
    };

    cuDeviceTotalMem(total: *mut u32, device: i32) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuDeviceTotalMem::call(total, device) };
        if answer == SUCCESS
            && let Some(part) = process().and_then(|process| process.part(device))
        {
            // SAFETY: the driver has written there.
            unsafe { total.write(narrow(part.memory()).min(total.read())) };
        }
        answer
    };
}
