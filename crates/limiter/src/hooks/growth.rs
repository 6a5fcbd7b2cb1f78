//! Memory that contexts take for themselves when their limits are raised: stacks, the heap of kernels, what they print.

use crate::driver::own::{cuCtxGetDevice, cuCtxGetLimit, cuDeviceGetAttribute};
use crate::driver::{CUDA, SUCCESS, hooks};
use crate::memory::grow_context;
use crate::process::process;

const STACK: i32 = 0;
const PRINTED: i32 = 1;
const HEAP: i32 = 2;

const MULTIPROCESSORS: i32 = 16;
const THREADS_OF_ONE: i32 = 39;

/// Threads that can have a stack at a time.
fn threads() -> u64 {
    let (mut device, mut multiprocessors, mut of_one) = (0, 0, 0);
    // SAFETY: the driver writes one number each.
    unsafe {
        cuCtxGetDevice::call(&mut device);
        cuDeviceGetAttribute::call(&mut multiprocessors, MULTIPROCESSORS, device);
        cuDeviceGetAttribute::call(&mut of_one, THREADS_OF_ONE, device);
    }
    multiprocessors.max(0) as u64 * of_one.max(0) as u64
}

/// Bytes that the current context takes under a limit of its own.
fn bytes(limit: i32, value: usize) -> u64 {
    match limit {
        STACK => (value as u64).saturating_mul(threads()),
        PRINTED | HEAP => value as u64,
        _ => 0,
    }
}

fn now(limit: i32) -> u64 {
    let mut value = 0;
    // SAFETY: the driver writes one number.
    let told = unsafe { cuCtxGetLimit::call(&mut value, limit) };
    if told == SUCCESS { bytes(limit, value) } else { 0 }
}

hooks! {
    HOOKS in CUDA;

    cuCtxSetLimit(limit: i32, value: usize) => {
        // SAFETY: the program's own arguments.
        let set = || unsafe { cuCtxSetLimit::call(limit, value) };
        let Some(part) = process().and_then(|process| process.current()) else { return set() };
        match limit {
            STACK | PRINTED | HEAP => grow_context(part, limit as u64, (now(limit), bytes(limit, value)), set, || now(limit)),
            _ => set(),
        }
    };
}
