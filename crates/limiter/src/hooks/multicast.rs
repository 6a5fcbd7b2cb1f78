//! Multicast objects, which keep memory of several devices that is bound to them.

use super::memory::{cuMemRelease, cuMemRetainAllocationHandle};
use crate::driver::{CUDA, Code, SUCCESS, hooks};
use crate::memory::{bind_to_object, note_object, unbind_from_object};
use crate::process::process;
use core::ffi::c_void;

/// Notes what the driver has bound.
fn bound(answer: Code, object: u64, offset: usize, handle: u64) -> Code {
    if answer == SUCCESS {
        bind_to_object(object, offset as u64, handle);
    }
    answer
}

/// The same for what is mapped at an address. Memory that was not created by itself is freed by its address, and counts until then.
fn bound_at(answer: Code, object: u64, offset: usize, address: u64) -> Code {
    let mut handle = 0;
    // SAFETY: the driver writes one handle, which is let go at once.
    if answer == SUCCESS && unsafe { cuMemRetainAllocationHandle::call(&mut handle, address) } == SUCCESS {
        bind_to_object(object, offset as u64, handle);
        // SAFETY: see above.
        unsafe { cuMemRelease::call(handle) };
    }
    answer
}

hooks! {
    HOOKS in CUDA;

    cuMulticastCreate(object: *mut u64, properties: *const c_void) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMulticastCreate::call(object, properties) };
        if answer == SUCCESS {
            // SAFETY: the driver has written there.
            note_object(unsafe { object.read() });
        }
        answer
    };

    cuMulticastBindMem(object: u64, offset: usize, handle: u64, from: usize, size: usize, flags: u64) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMulticastBindMem::call(object, offset, handle, from, size, flags) };
        bound(answer, object, offset, handle)
    };

    cuMulticastBindMem_v2(object: u64, device: i32, offset: usize, handle: u64, from: usize, size: usize, flags: u64) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMulticastBindMem_v2::call(object, device, offset, handle, from, size, flags) };
        bound(answer, object, offset, handle)
    };

    cuMulticastBindAddr(object: u64, offset: usize, address: u64, size: usize, flags: u64) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMulticastBindAddr::call(object, offset, address, size, flags) };
        bound_at(answer, object, offset, address)
    };

    cuMulticastBindAddr_v2(object: u64, device: i32, offset: usize, address: u64, size: usize, flags: u64) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMulticastBindAddr_v2::call(object, device, offset, address, size, flags) };
        bound_at(answer, object, offset, address)
    };

    cuMulticastUnbind(object: u64, device: i32, offset: usize, size: usize) => {
        // SAFETY: the program's own arguments.
        let answer = unsafe { cuMulticastUnbind::call(object, device, offset, size) };
        if answer == SUCCESS
            && let Some(part) = process().and_then(|process| process.part(device))
        {
            // Offset and size must be those of the binding, the driver says.
            unbind_from_object(object, offset as u64, part);
        }
        answer
    };
}
