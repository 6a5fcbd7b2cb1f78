//! C's pointers as types that can only be used with a NULL check.

use crate::error::{Answer, Code};
use std::ffi::{CStr, c_char, c_int, c_void};

/// A pointer to where an answer goes. Only C makes one: it is always an argument of an exported function, whose
/// contract is that it is NULL or valid for as many values as the function writes.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Refuses NULL, for checking arguments before anything changes.
    pub(crate) fn required(self) -> Answer<Self> {
        if self.0.is_null() { Err(Code::INVALID_VALUE) } else { Ok(self) }
    }

    /// Writes the answer.
    pub(crate) fn set(self, value: T) -> Answer {
        let out = self.required()?;
        // SAFETY: not NULL, and by the contract of the exported function then valid for one value.
        unsafe { out.0.write(value) };
        Ok(())
    }
}

impl Out<c_char> {
    /// Writes a text, cut to what fits, with its NUL.
    pub(crate) fn set_text(self, length: c_int, text: &str) -> Answer {
        let out = self.required()?;
        let room = usize::try_from(length).ok().and_then(|length| length.checked_sub(1));
        let room = room.ok_or(Code::INVALID_VALUE)?;
        for (position, byte) in text.bytes().take(room).chain([0]).enumerate() {
            // SAFETY: by the contract of the exported function the array holds `length` values, and at most `room` and
            // the NUL are written.
            unsafe { out.0.add(position).write(byte as c_char) };
        }
        Ok(())
    }
}

/// Memory of the host that C passes in, of a length that comes in another argument.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct HostMemory(*mut c_void);

impl HostMemory {
    /// The bytes, to be read.
    pub(crate) fn bytes<'a>(self, length: usize) -> Answer<&'a [u8]> {
        if length == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not NULL, and by the contract of the copying functions then `length` bytes that nobody changes during
        // the call; the slice does not outlive it.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), length) })
    }

    /// The bytes, to be written.
    pub(crate) fn bytes_mut<'a>(self, length: usize) -> Answer<&'a mut [u8]> {
        if length == 0 {
            return Ok(&mut []);
        }
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as for `bytes`, and the caller's alone during the call.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0.cast::<u8>(), length) })
    }
}

/// A text that C passes in.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Reads it.
    pub(crate) fn get(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not NULL, and by the contract of the exported function then NUL-terminated.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

/// The arguments of a kernel: one pointer for each parameter.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Arguments(*const *const c_void);

impl Arguments {
    /// The argument at a position that the kernel has, which has a parameter of type `T` there.
    pub(crate) fn at<T: Copy>(self, position: usize) -> Answer<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: by the contract of cuLaunchKernel the array has a pointer for every parameter of the kernel.
        let argument = unsafe { self.0.add(position).read() };
        if argument.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: by the same contract it points to a value of the parameter's type, which need not be aligned.
        Ok(unsafe { argument.cast::<T>().read_unaligned() })
    }
}
