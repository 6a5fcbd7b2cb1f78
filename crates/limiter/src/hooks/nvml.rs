//! NVML in the container shows the share and not the card.

use crate::driver::{NVML, SUCCESS, hooks};
use crate::process::{Part, process};
use core::ffi::c_char;

/// Memory as NVML tells it.
#[repr(C)]
pub(crate) struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// The same, with what the driver keeps for itself.
#[repr(C)]
pub(crate) struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// The part that a device of NVML is.
fn part(device: usize) -> Option<&'static Part> {
    let process = process().filter(|process| process.is_limited())?;
    let mut name = [0u8; 96];
    // SAFETY: NVML writes at most so many characters.
    let told = unsafe { nvmlDeviceGetUUID::call(device, name.as_mut_ptr().cast(), name.len() as u32) };
    if told != SUCCESS {
        return None;
    }
    let name = name.split(|&byte| byte == 0).next()?;
    let number = process.part_of_uuid(&crate::files::uuid(name)?)?;
    process.parts.get(number)
}

hooks! {
    HOOKS in NVML;

    nvmlDeviceGetMemoryInfo(device: usize, memory: *mut Memory) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { nvmlDeviceGetMemoryInfo::call(device, memory) };
        if answer == SUCCESS
            && let Some(part) = part(device)
        {
            let (total, used) = (part.memory(), part.held().saturating_add(part.overhead()));
            // SAFETY: NVML has written there.
            unsafe { memory.write(Memory { total, free: total.saturating_sub(used), used }) };
        }
        answer
    };

    nvmlDeviceGetMemoryInfo_v2(device: usize, memory: *mut MemoryV2) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { nvmlDeviceGetMemoryInfo_v2::call(device, memory) };
        if answer == SUCCESS
            && let Some(part) = part(device)
        {
            let (total, used) = (part.memory(), part.held().saturating_add(part.overhead()));
            // SAFETY: NVML has written there.
            unsafe {
                let version = (*memory).version;
                memory.write(MemoryV2 { version, total, reserved: 0, free: total.saturating_sub(used), used });
            }
        }
        answer
    };

    nvmlDeviceGetUUID(device: usize, name: *mut c_char, length: u32) => {
        // SAFETY: the program's own arguments.
        unsafe { nvmlDeviceGetUUID::call(device, name, length) }
    };
}
