//! Functions that make and end contexts, which take memory of their own.

use crate::driver::own::{cuCtxPopCurrent_v2, cuCtxPushCurrent_v2, cuDevicePrimaryCtxGetState};
use crate::driver::{CUDA, Code, NOT_PERMITTED, OUT_OF_MEMORY, SUCCESS, hooks};
use crate::memory::{end_context, look_at_pools};
use crate::process::{Part, process};
use crate::work::forget_context;
use core::sync::atomic::Ordering;

/// Whether a device's primary context is there.
fn is_active(device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the driver writes two numbers.
    let told = unsafe { cuDevicePrimaryCtxGetState::call(device, &mut flags, &mut active) };
    told == SUCCESS && active != 0
}

/// Makes a context, if there is memory for it.
fn made(device: i32, make: impl FnOnce() -> Code) -> Code {
    let Some(part) = process().and_then(|process| process.part(device)) else { return make() };
    if part.is_refused() {
        return NOT_PERMITTED;
    }
    let bytes = part.context();
    if bytes > 0 && !part.take(bytes) {
        return OUT_OF_MEMORY;
    }
    let answer = make();
    if answer != SUCCESS {
        part.give(bytes);
    }
    answer
}

/// The primary context of a device is gone, and all that was in it.
fn ended(device: i32) {
    if let Some(process) = process()
        && let Some(part) = process.part(device)
    {
        let context = part.primary.swap(0, Ordering::Relaxed);
        end_context(context);
        forget_context(context);
        look_at_pools(process);
        part.give(part.context());
    }
}

/// The part whose device a context is of: asked while it is there.
fn part_of(context: usize) -> Option<&'static Part> {
    let process = process().filter(|process| process.is_limited())?;
    // SAFETY: the program's own handle, which it may use as it likes.
    if unsafe { cuCtxPushCurrent_v2::call(context) } != SUCCESS {
        return None;
    }
    let part = process.current();
    let mut popped = 0;
    // SAFETY: the driver writes one handle.
    unsafe { cuCtxPopCurrent_v2::call(&mut popped) };
    part
}

/// A context that the program had made is gone.
fn destroyed(context: usize, part: Option<&Part>) {
    end_context(context);
    forget_context(context);
    if let Some(part) = part {
        part.give(part.context());
    }
}

hooks! {
    HOOKS in CUDA;

    cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) => {
        let make = || {
            // SAFETY: the program's own arguments.
            unsafe { cuDevicePrimaryCtxRetain::call(context, device) }
        };
        let answer = if is_active(device) { make() } else { made(device, make) };
        if answer == SUCCESS
            && let Some(part) = process().and_then(|process| process.part(device))
        {
            // SAFETY: the driver has written there.
            part.primary.store(unsafe { context.read() }, Ordering::Relaxed);
        }
        answer
    };

    cuDevicePrimaryCtxRelease(device: i32) => {
        let there = is_active(device);
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuDevicePrimaryCtxRelease::call(device) };
        if there && !is_active(device) {
            ended(device);
        }
        answer
    };

    cuDevicePrimaryCtxReset(device: i32) => {
        let there = is_active(device);
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuDevicePrimaryCtxReset::call(device) };
        if there && answer == SUCCESS {
            ended(device);
        }
        answer
    };

    cuCtxDestroy(context: usize) => {
        let part = part_of(context);
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuCtxDestroy::call(context) };
        if answer == SUCCESS {
            destroyed(context, part);
        }
        answer
    };

    cuDevicePrimaryCtxRelease_v2(device: i32) => {
        let there = is_active(device);
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuDevicePrimaryCtxRelease_v2::call(device) };
        if there && !is_active(device) {
            ended(device);
        }
        answer
    };

    cuDevicePrimaryCtxReset_v2(device: i32) => {
        let there = is_active(device);
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuDevicePrimaryCtxReset_v2::call(device) };
        if there && answer == SUCCESS {
            ended(device);
        }
        answer
    };

    cuCtxDestroy_v2(context: usize) => {
        let part = part_of(context);
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuCtxDestroy_v2::call(context) };
        if answer == SUCCESS {
            destroyed(context, part);
        }
        answer
    };

    cuCtxCreate_v2(context: *mut usize, flags: u32, device: i32) => {
        // SAFETY: the program's own arguments.
        made(device, || unsafe { cuCtxCreate_v2::call(context, flags, device) })
    };

    cuCtxCreate_v3(context: *mut usize, affinity: *mut u8, count: i32, flags: u32, device: i32) => {
        // SAFETY: the program's own arguments.
        made(device, || unsafe { cuCtxCreate_v3::call(context, affinity, count, flags, device) })
    };

    cuCtxCreate_v4(context: *mut usize, parameters: *mut u8, flags: u32, device: i32) => {
        // SAFETY: the program's own arguments.
        made(device, || unsafe { cuCtxCreate_v4::call(context, parameters, flags, device) })
    };
}
