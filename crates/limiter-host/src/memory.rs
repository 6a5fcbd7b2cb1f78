//! Memory that is shared with processes: the page with a share's turn, and copies of what they count.
#![allow(unsafe_code, reason = "files that other processes map are looked at through pointers")]

use carve_limiter_abi::{Limits, Region, TurnCell};
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

/// The file of limits, mapped, for what is said behind them.
#[derive(Debug)]
pub(crate) struct TurnPage(NonNull<u8>);

// SAFETY: it is memory of the process, not of a thread, and only atomics in it are used.
unsafe impl Send for TurnPage {}
// SAFETY: likewise.
unsafe impl Sync for TurnPage {}

impl TurnPage {
    /// Maps a file of at least [`Limits::SIZE`] bytes, which nobody else may make shorter.
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() < Limits::SIZE as u64 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends too early"));
        }
        // SAFETY: new memory that shows the file.
        let mapped = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                Limits::SIZE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        NonNull::new(mapped.cast()).map(TurnPage).ok_or_else(|| io::Error::other("the kernel mapped nothing"))
    }

    /// The turn in it.
    pub(crate) fn cell(&self) -> &TurnCell {
        // SAFETY: the page has room for it at this place, which is aligned, and lives as long as this value; all of it is atomics.
        unsafe { &*self.0.as_ptr().add(Limits::TURN).cast::<TurnCell>() }
    }
}

impl Drop for TurnPage {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and no reference outlives this value.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), Limits::SIZE) };
    }
}

/// A region of our own. What processes write is copied and not mapped: they may make their file shorter, and whoever had it mapped
/// would die of it.
#[derive(Debug)]
pub(crate) struct Copied(Box<Region>);

impl Copied {
    fn zeros() -> Self {
        // SAFETY: a region is numbers, and all of them may be zero.
        Copied(unsafe { Box::<Region>::new_zeroed().assume_init() })
    }

    fn bytes(&mut self) -> &mut [u8] {
        let first: *mut Region = self.0.as_mut();
        // SAFETY: a region has no gaps between its numbers, any bytes are one, and nobody else has this one now.
        unsafe { std::slice::from_raw_parts_mut(first.cast::<u8>(), Region::SIZE) }
    }

    /// As a file begins.
    pub(crate) fn fresh() -> Self {
        let region = Self::zeros();
        region.0.prepare();
        region
    }

    /// Writes all of it.
    pub(crate) fn write(&mut self, file: &File) -> io::Result<()> {
        file.write_all_at(self.bytes(), 0)
    }

    /// What a file holds now.
    pub(crate) fn read(file: &File) -> io::Result<Self> {
        let mut region = Self::zeros();
        file.read_exact_at(region.bytes(), 0)?;
        Ok(region)
    }

    pub(crate) fn region(&self) -> &Region {
        &self.0
    }
}
