//! Pages from the kernel: host memory that programs write to, and a file that several processes have in memory.

use crate::board::Layout;
use crate::error::{Answer, Code};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::ptr::null_mut;

/// Host memory of the library's own, zero at first; given back when dropped. Pages that nobody touches cost nothing.
#[derive(Debug)]
pub(crate) struct HostPages {
    address: usize,
    length: usize,
}

impl HostPages {
    /// So many bytes.
    pub(crate) fn new(length: usize) -> Answer<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        let mapped = unsafe { mmap_anonymous(null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let address = mapped.map_err(|_| Code::OUT_OF_MEMORY)? as usize;
        Ok(HostPages { address, length })
    }

    /// Where they are.
    pub(crate) fn address(&self) -> u64 {
        self.address as u64
    }

    /// How many bytes were asked for.
    pub(crate) fn length(&self) -> u64 {
        self.length as u64
    }
}

impl Drop for HostPages {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped. Programs that still hold the address were told that it is free.
        let unmapped = unsafe { munmap(self.address as *mut _, self.length) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

/// The board in a file, for as long as the process lives. The file has the board's length.
pub(crate) fn board(file: &File) -> io::Result<&'static Layout> {
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
    let mapped = unsafe {
        mmap(null_mut(), size_of::<Layout>(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)?
    };
    // SAFETY: page-aligned, never unmapped, as long as the type, and the type is atomics alone, for which any bytes are
    // valid and which other processes may change.
    Ok(unsafe { &*mapped.cast::<Layout>() })
}
