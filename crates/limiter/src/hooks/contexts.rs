//! Functions that make and end contexts, which take memory of their own.

use crate::driver::own::cuDevicePrimaryCtxGetState;
use crate::driver::{CUDA, Code, NOT_PERMITTED, OUT_OF_MEMORY, SUCCESS, hooks};
use crate::process::process;
use crate::work::forget_context;

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

fn ended(device: i32) {
    if let Some(part) = process().and_then(|process| process.part(device)) {
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
        if is_active(device) { make() } else { made(device, make) }
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
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuCtxDestroy::call(context) };
        if answer == SUCCESS {
            forget_context(context);
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
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuCtxDestroy_v2::call(context) };
        if answer == SUCCESS {
            forget_context(context);
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
