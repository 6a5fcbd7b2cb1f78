//! Memory for the limiter's own notes: it has no heap, because its host's may be replaced or locked.

use rustix::mm::{MapFlags, ProtFlags};

/// New memory of zeros, for good or until it is unmapped.
pub(crate) fn fresh(size: usize) -> Option<*mut core::ffi::c_void> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory, which nobody has yet.
    unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), size, access, MapFlags::PRIVATE) }.ok()
}
