//! Functions that make and end contexts, which take memory of their own.

use crate::driver::own::{cuCtxFromGreenCtx, cuDevicePrimaryCtxGetState};
use crate::driver::{CUDA, Code, NOT_FOUND, NOT_PERMITTED, OUT_OF_MEMORY, SUCCESS, hooks};
use crate::memory::{self, end_context, forget_green, keep, leave_context, note_context, note_view, take};
use crate::process::process;
use crate::work::forget_context;
use carve_limiter_abi::{Trouble, point};

/// Whether a device's primary context is there.
fn is_active(device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the driver writes two numbers.
    let told = unsafe { cuDevicePrimaryCtxGetState::call(device, &mut flags, &mut active) };
    told == SUCCESS && active != 0
}

/// A device's primary context, if it is there.
fn primary(device: i32) -> Option<usize> {
    if !is_active(device) {
        return None;
    }
    let mut context = 0;
    // SAFETY: the driver writes one handle; whoever takes hold of it lets go of it again.
    unsafe {
        if cuDevicePrimaryCtxRetain::call(&mut context, device) != SUCCESS {
            return None;
        }
    }
    release(device);
    Some(context)
}

/// Makes a context, if there is memory for it.
///
/// SAFETY: `context` must be where `make` makes the driver write a handle, or null.
unsafe fn made(
    device: i32,
    context: *const usize,
    make: impl FnOnce() -> Code,
    undo: impl FnOnce(usize) -> Code,
) -> Code {
    let Some(process) = process() else { return make() };
    let Some(part) = process.part(device) else { return make() };
    if part.is_refused() {
        return NOT_PERMITTED;
    }
    let bytes = part.context();
    if bytes > 0 && !take(process, part, bytes) {
        return OUT_OF_MEMORY;
    }
    point!(ContextReserved);
    let answer = make();
    point!(ContextMade);
    if answer != SUCCESS || context.is_null() {
        part.give(bytes);
        return answer;
    }
    // SAFETY: the driver has written there.
    let handle = unsafe { context.read() };
    if note_context(part, handle as u64, bytes) {
        return SUCCESS;
    }
    let answer = if part.goes_on_after(Trouble::Ledger) {
        SUCCESS
    } else {
        undo(handle);
        OUT_OF_MEMORY
    };
    part.give(bytes);
    answer
}

/// Makes a context that the program ends itself.
///
/// SAFETY: as for [`made`].
unsafe fn created(device: i32, context: *const usize, make: impl FnOnce() -> Code) -> Code {
    // SAFETY: a context that was made a moment ago.
    let undo = |made| match unsafe { cuCtxDestroy_v2::call(made) } {
        // SAFETY: see above.
        NOT_FOUND => unsafe { cuCtxDestroy::call(made) },
        answer => answer,
    };
    // SAFETY: as for the whole function.
    unsafe { made(device, context, make, undo) }
}

/// Lets go of a primary context.
fn release(device: i32) -> Code {
    // SAFETY: whoever calls this has taken hold of it.
    unsafe {
        match cuDevicePrimaryCtxRelease_v2::call(device) {
            NOT_FOUND => cuDevicePrimaryCtxRelease::call(device),
            answer => answer,
        }
    }
}

/// Notes a green context, which is another view of the primary one.
fn note_green(green: usize, device: i32, primary: usize) {
    let mut view = 0;
    // SAFETY: the driver writes one handle.
    if unsafe { cuCtxFromGreenCtx::call(&mut view, green) } == SUCCESS {
        note_view(green as u64, view as u64, device, primary as u64);
    }
}

fn ended(context: Option<usize>) {
    if let Some(context) = context {
        forget_context(context);
        end_context(context as u64);
    }
}

/// Lets go of a primary context, which ends it where nobody else has it, or ends it whoever has it.
fn let_go(device: i32, at_once: bool, call: impl FnOnce() -> Code) -> Code {
    let there = process().filter(|process| process.is_limited()).and_then(|_| primary(device));
    let answer = call();
    if answer == SUCCESS && (at_once || !is_active(device)) {
        ended(there);
    }
    answer
}

hooks! {
    HOOKS in CUDA;

    cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) => {
        let make = || {
            // SAFETY: the program's own arguments.
            unsafe { cuDevicePrimaryCtxRetain::call(context, device) }
        };
        // SAFETY: see above.
        if is_active(device) { make() } else { unsafe { made(device, context, make, |_| release(device)) } }
    };

    cuDevicePrimaryCtxRelease(device: i32) => {
        // SAFETY: the program's own arguments.
        let_go(device, false, || unsafe { cuDevicePrimaryCtxRelease::call(device) })
    };

    cuDevicePrimaryCtxReset(device: i32) => {
        // SAFETY: the program's own arguments.
        let_go(device, true, || unsafe { cuDevicePrimaryCtxReset::call(device) })
    };

    cuCtxDestroy(context: usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuCtxDestroy::call(context) };
        if answer == SUCCESS {
            ended(Some(context));
        }
        answer
    };

    cuDevicePrimaryCtxRelease_v2(device: i32) => {
        // SAFETY: the program's own arguments.
        let_go(device, false, || unsafe { cuDevicePrimaryCtxRelease_v2::call(device) })
    };

    cuDevicePrimaryCtxReset_v2(device: i32) => {
        // SAFETY: the program's own arguments.
        let_go(device, true, || unsafe { cuDevicePrimaryCtxReset_v2::call(device) })
    };

    cuCtxDestroy_v2(context: usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuCtxDestroy_v2::call(context) };
        if answer == SUCCESS {
            ended(Some(context));
        }
        answer
    };

    cuCtxCreate(context: *mut usize, flags: u32, device: i32) => {
        // SAFETY: the program's own arguments.
        unsafe { created(device, context, || cuCtxCreate::call(context, flags, device)) }
    };

    cuGLCtxCreate(context: *mut usize, flags: u32, device: i32) => {
        // SAFETY: the program's own arguments.
        unsafe { created(device, context, || cuGLCtxCreate::call(context, flags, device)) }
    };

    cuGLCtxCreate_v2(context: *mut usize, flags: u32, device: i32) => {
        // SAFETY: the program's own arguments.
        unsafe { created(device, context, || cuGLCtxCreate_v2::call(context, flags, device)) }
    };

    cuVDPAUCtxCreate(context: *mut usize, flags: u32, device: i32, display: u32, find: *mut u8) => {
        // SAFETY: the program's own arguments.
        unsafe { created(device, context, || cuVDPAUCtxCreate::call(context, flags, device, display, find)) }
    };

    cuVDPAUCtxCreate_v2(context: *mut usize, flags: u32, device: i32, display: u32, find: *mut u8) => {
        // SAFETY: the program's own arguments.
        unsafe { created(device, context, || cuVDPAUCtxCreate_v2::call(context, flags, device, display, find)) }
    };

    cuCtxAttach(context: *mut usize, flags: u32) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuCtxAttach::call(context, flags) };
        if answer == SUCCESS && !context.is_null() {
            // SAFETY: the driver has written there.
            keep(unsafe { context.read() } as u64);
        }
        answer
    };

    cuCtxDetach(context: usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuCtxDetach::call(context) };
        if answer == SUCCESS && leave_context(context as u64) {
            ended(Some(context));
        }
        answer
    };

    cuGreenCtxCreate(green: *mut usize, resources: usize, device: i32, flags: u32) => {
        // SAFETY: the program's own arguments.
        let make = || unsafe { cuGreenCtxCreate::call(green, resources, device, flags) };
        if is_active(device) {
            let answer = make();
            if answer == SUCCESS && let Some(there) = primary(device) {
                // SAFETY: the driver has written there.
                note_green(unsafe { green.read() }, device, there);
            }
            return answer;
        }
        // It holds the primary context of the device, which takes memory because it was not there.
        let mut context = 0;
        let place = &raw mut context;
        let with_primary = || {
            let answer = make();
            if answer == SUCCESS && let Some(there) = primary(device) {
                // SAFETY: a place of our own, and one where the driver has written.
                unsafe {
                    place.write(there);
                    note_green(green.read(), device, there);
                }
            }
            answer
        };
        // SAFETY: see above.
        unsafe { made(device, place, with_primary, |_| cuGreenCtxDestroy::call(green.read())) }
    };

    cuGreenCtxDestroy(green: usize) => {
        // SAFETY: the program's own arguments.
        let destroy = || unsafe { cuGreenCtxDestroy::call(green) };
        let Some((view, device)) = memory::green(green as u64) else { return destroy() };
        let answer = let_go(device, false, destroy);
        if answer == SUCCESS {
            forget_green(green as u64);
            forget_context(view as usize);
        }
        answer
    };

    cuCtxCreate_v2(context: *mut usize, flags: u32, device: i32) => {
        // SAFETY: the program's own arguments.
        unsafe { created(device, context, || cuCtxCreate_v2::call(context, flags, device)) }
    };

    cuCtxCreate_v3(context: *mut usize, affinity: *mut u8, count: i32, flags: u32, device: i32) => {
        // SAFETY: the program's own arguments.
        unsafe { created(device, context, || cuCtxCreate_v3::call(context, affinity, count, flags, device)) }
    };

    cuCtxCreate_v4(context: *mut usize, parameters: *mut u8, flags: u32, device: i32) => {
        // SAFETY: the program's own arguments.
        unsafe { created(device, context, || cuCtxCreate_v4::call(context, parameters, flags, device)) }
    };
}
