//! Memory that is bound to regions of arrays, which keep it.

use crate::driver::{CUDA, Code, SUCCESS, hooks};
use crate::memory::{bind, unbind};

/// What is bound where.
#[repr(C)]
pub(crate) struct Binding {
    resource: u32,
    array: u64,
    subresource: u32,
    /// Of a level: its number, layer, offsets and sizes, two in each word; of a tail: layer, offset and size.
    region: [u64; 4],
    operation: u32,
    handle_kind: u32,
    handle: u64,
    offset: u64,
    devices: u32,
    flags: u32,
    reserved: [u32; 2],
}

const _: () = assert!(size_of::<Binding>() == 96 && core::mem::offset_of!(Binding, operation) == 56);

const BIND: u32 = 1;
/// The levels of a mipmapped array that are too small for a region of their own.
const TAIL: u32 = 1;

/// Notes what the driver has bound or unbound.
///
/// SAFETY: as the driver's.
unsafe fn noted(answer: Code, bindings: *const Binding, count: u32) -> Code {
    if answer != SUCCESS || bindings.is_null() {
        return answer;
    }
    for at in 0..count as usize {
        // SAFETY: the driver has read as many.
        let binding = unsafe { &*bindings.add(at) };
        let [first, second, third, fourth] = binding.region;
        let region = match binding.subresource {
            // A layer has 32 bits, and what lies behind it and behind the size means nothing.
            TAIL => [u64::from(TAIL), first & u64::from(u32::MAX), second, third, 0],
            other => [u64::from(other), first, second, third, fourth],
        };
        if binding.operation == BIND {
            bind(binding.array, &region, binding.handle);
        } else {
            unbind(binding.array, &region);
        }
    }
    answer
}

hooks! {
    HOOKS in CUDA;

    cuMemMapArrayAsync(bindings: *const Binding, count: u32, stream: usize) => {
        // SAFETY: the program's own arguments.
        unsafe { noted(cuMemMapArrayAsync::call(bindings, count, stream), bindings, count) }
    };

    cuMemMapArrayAsync_ptsz(bindings: *const Binding, count: u32, stream: usize) => {
        // SAFETY: the program's own arguments.
        unsafe { noted(cuMemMapArrayAsync_ptsz::call(bindings, count, stream), bindings, count) }
    };
}
