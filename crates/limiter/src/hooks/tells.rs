//! Functions that tell how much memory there is.

use crate::driver::{CUDA, SUCCESS, hooks};
use crate::pools::look_at_pools;
use crate::process::process;

/// What is left of the current part's share, and all of it, in place of what the driver tells.
pub(crate) fn share() -> Option<(u64, u64)> {
    let process = process()?;
    let part = process.current()?;
    look_at_pools(process);
    Some((part.room().saturating_sub(part.held()), part.memory()))
}

hooks! {
    HOOKS in CUDA;

    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMemGetInfo_v2::call(free, total) };
        if answer == SUCCESS
            && let Some((left, all)) = share()
        {
            // SAFETY: the driver has written there.
            unsafe {
                free.write((left as usize).min(free.read()));
                total.write((all as usize).min(total.read()));
            }
        }
        answer
    };

    cuDeviceTotalMem_v2(total: *mut usize, device: i32) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuDeviceTotalMem_v2::call(total, device) };
        if answer == SUCCESS
            && let Some(part) = process().and_then(|process| process.part(device))
        {
            // SAFETY: the driver has written there.
            unsafe { total.write((part.memory() as usize).min(total.read())) };
        }
        answer
    };
}
